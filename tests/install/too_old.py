# SPDX-License-Identifier: BSD-3-Clause
"""too_old.py PROGRAM…: makes programs of the wheel need a C library that no machine has, as if this one's were too old."""

import os
import struct
import sys

OLD, NEW = b"GLIBC_2.28\0", b"GLIBC_9.28\0"


def elf_hash(name):
    """The hash of a version's name, as the loader compares it."""
    h = 0
    for byte in name:
        h = (h << 4) + byte
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        data = file.read()
    assert data.count(OLD) == 1, "%s needs no GLIBC_2.28" % path
    old, new = (struct.pack("<I", elf_hash(name[:-1])) for name in (OLD, NEW))
    assert old in data, path
    with open(path + ".new", "wb") as file:  # the old one may be running
        file.write(data.replace(OLD, NEW).replace(old, new))
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)
