# bench: nothing to build; see README.md.

EXTRA_DIST += bench/README.md bench/RESULTS.md bench/run bench/arrays.py bench/common.py bench/control.py bench/deaths.py \
	bench/floor.py bench/lines.py bench/memory.py bench/remote/bulk.py bench/remote/scale.py bench/table.py
