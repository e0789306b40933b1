# SPDX-License-Identifier: BSD-3-Clause
"""What a node has no room for. Its ranks do not let home send it again before there may be room: a cell that needs it would wait for it in vain.

A note is a symbolic link, since one can be made where no byte can be written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time

AGAIN = 60.0  # seconds after which it is tried in any case
CLUSTER = 4096  # bytes: a file takes a multiple of it
LEAST = 1 << 20  # bytes that must be free, if it is not known how many are needed
FULL = "no room"
QUOTA = "no room in your disk quota, which is tried again after a minute"  # how much is left of it is not known


class Room:
    """folder: of the node."""

    def __init__(self, folder):
        self._folder, self._notes = folder, os.path.join(folder, "no-room")
        self.needed = 0  # bytes of what is on its way

    def needs(self, sizes):
        """So many bytes are to be stored, in files of these sizes."""
        self.needed = sum(-(-size // CLUSTER) * CLUSTER for size in sizes)

    def why_not(self, key, digest):
        """Why what home has of a name need not be asked for; "": it may. digest: home's, or "" if home has not said it."""
        try:
            note = self._note(key)
            known, needed = os.readlink(note).split(" ")
            age = time.time() - os.lstat(note).st_mtime
            if not 0 <= age < AGAIN or (digest and not digest.startswith(known)):
                return ""
            return QUOTA if not int(needed) else FULL if self._free() < int(needed) else ""
        except (OSError, ValueError):
            return ""

    def failed(self, key, digest, error):
        """A name could not be stored because of this OSError. Returns the reason for the user."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return error.strerror or str(error)
        quota, note = error.errno == errno.EDQUOT, self._note(key)
        with contextlib.suppress(OSError):
            os.makedirs(self._notes, mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(note)
            os.symlink(f"{digest[:16]} {0 if quota else max(self.needed, LEAST)}", note)
        return QUOTA if quota else FULL

    def _note(self, key):
        return os.path.join(self._notes, hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32])

    def _free(self):
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize
