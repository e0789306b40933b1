# bench: nothing to build; see README.md.

EXTRA_DIST += bench/README.md bench/RESULTS.md bench/run bench/arrays.py bench/common.py bench/control.py bench/deaths.py bench/debugger.py \
	bench/floor.c bench/floor.py bench/lines.py bench/memory.py bench/pairs.py bench/remote/bulk.py bench/remote/scale.py bench/roundtrip.py bench/subshells.py bench/table.py bench/tasks.py bench/widgets.py
