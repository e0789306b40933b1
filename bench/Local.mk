# SPDX-License-Identifier: BSD-3-Clause
# bench: nothing to build; see README.md.

EXTRA_DIST += bench/README.md bench/RESULTS.md bench/run bench/arrays.py bench/calls.py bench/common.py \
	bench/control.py bench/deaths.py bench/errors.py bench/debugger.py bench/floor.c bench/floor.py bench/gpu.py bench/lines.py bench/listing.py \
	bench/memory.py bench/names.py bench/pairs.py bench/roundtrip.py bench/steps.py bench/subshells.py bench/table.py \
	bench/engines.py bench/tasks.py bench/widgets.py bench/remote/bulk.py bench/remote/fresh.py bench/remote/hosts.py bench/remote/own_modules.py bench/remote/relay.py bench/remote/resume.py bench/remote/scale.py
