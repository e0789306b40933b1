# SPDX-License-Identifier: BSD-3-Clause
"""What an engine's process and the library of its cluster's client print: it goes to no cell, and its end is kept for errors."""
from __future__ import annotations

import os
import sys
import threading

LOG_MAX = 64 << 10  # bytes that are kept of what the client's library prints
READ_S = 10  # for the thread that reads it; a library may have put another file in its place
MARK = b"\0cellspan\0"  # tail() writes it behind all that was printed


class Log:
    """What the process and its children print from now on: a thread reads it, and keeps the end."""

    def __init__(self):
        self._kept, self._lock, self._read_all = b"", threading.Lock(), threading.Event()
        out, into = os.pipe()
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        threading.Thread(target=self._read, args=(out,), name="cellspan-log", daemon=True).start()

    def _read(self, out):
        while True:
            data = os.read(out, 1 << 16)
            if not data:
                return
            with self._lock:
                self._kept += data
                if MARK in self._kept:
                    self._kept = self._kept.replace(MARK, b"")
                    self._read_all.set()
                self._kept = self._kept[-LOG_MAX:]

    def tail(self, lines):
        """The last lines, without those that are blank."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        self._read_all.clear()
        write_all(1, MARK)
        self._read_all.wait(READ_S)
        return [line.rstrip() for line in self.text().splitlines() if line.strip()][-lines:]

    def text(self):
        with self._lock:
            return self._kept.decode("utf-8", "replace")


def write_all(fd, data):
    while data:
        try:
            data = data[os.write(fd, data):]
        except OSError:  # the kernel is gone
            return
