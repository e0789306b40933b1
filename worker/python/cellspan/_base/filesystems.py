# SPDX-License-Identifier: BSD-3-Clause
"""Which file systems only this machine writes: it sees each change of what is there. The kinds are listed, since there are many others."""

from __future__ import annotations

import os

LOCAL = frozenset(
    "aufs bcachefs btrfs erofs exfat ext2 ext3 ext4 f2fs hfsplus iso9660 jffs2 jfs msdos nilfs2 ntfs3 overlay ramfs reiserfs rootfs squashfs tmpfs "
    "ubifs udf vfat xfs zfs".split()
)


def mounts():
    """{mount point: file system's name}, the deepest first."""
    found = []
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return {}
    for line in lines:
        left, _, right = line.partition(" - ")
        words, kinds = left.split(" "), right.split(" ")
        if len(words) > 4 and kinds:
            found.append((words[4].replace("\\040", " "), kinds[0]))
    return dict(sorted(found, key=lambda row: len(row[0]), reverse=True))


def is_local(folder, points):
    """Does only this machine write there? points: mounts()."""
    real = os.path.join(os.path.realpath(folder), "")
    return next((kind for point, kind in points.items() if real.startswith(os.path.join(point, ""))), "") in LOCAL


def state_of(path):
    """[…] that is another one when a file has been written or replaced; None: there is none. As JSON gives it back."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_ino, found.st_size]
