# What the unit tests of all rooms share; each room names its own tests.
EXTRA_DIST += tests/unit/tap.h tests/unit/rooms.sh tests/unit/documented.sh tests/unit/steps.py tests/unit/measure.py
tap_scripts += tests/unit/rooms.sh tests/unit/documented.sh tests/unit/steps.py tests/unit/measure.py
include tests/unit/gpu/Local.mk
