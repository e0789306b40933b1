"""sys.stdout and sys.stderr of a worker: descriptors 1 and 2, which the agent reads.

While a cell runs, stdout is buffered by blocks and _link flushes it every 50 ms: printing stays quick. Between cells it is
flushed at each line's end, for threads that print on.
"""

from __future__ import annotations

import io
import os
import sys

from . import _link

_SIZE = 1 << 16


class Stream(io.TextIOWrapper):
    """Text to descriptor `fd`, which is never closed by it."""

    def __init__(self, fd, name, line_buffering):
        raw = io.FileIO(fd, "wb", closefd=False)
        super().__init__(
            io.BufferedWriter(raw, _SIZE),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
            line_buffering=line_buffering,
        )
        self._shown_name = name

    @property
    def name(self):
        return self._shown_name

    @property
    def mode(self):
        return "w"

    def close(self):
        """As print to a closed stream would break every later cell, closing only flushes."""
        self.flush()


class Streams:
    """Both of a worker's streams."""

    def __init__(self):
        self.out = Stream(1, "<stdout>", True)
        self.err = Stream(2, "<stderr>", True)
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self._kept = {1: os.dup(1), 2: os.dup(2)}  # should a cell close its own

    def begin(self):
        """A cell starts."""
        self._mend()
        self.out.reconfigure(line_buffering=False)

    def end(self):
        """A cell is over: all of its text is in the pipes when this returns."""
        self._mend()
        self.out.reconfigure(line_buffering=True)
        self.flush()

    def _mend(self):
        """Opens descriptors 1 and 2 again where a cell closed them: whatever opens a file next would get their numbers, and
        the text of later cells. Where they lead elsewhere, somebody meant that."""
        closed = [fd for fd in self._kept if not _is_open(fd)]
        for fd in closed:
            os.dup2(self._kept[fd], fd)
        for fd in closed:
            print(f"cellspan: descriptor {fd} was closed, and is open again", file=self.err)

    def flush(self):
        """All text that was written, by Python or C, is in the pipes when this returns."""
        _link.stdio()
        self.tick()

    def tick(self):
        """Python's part of flush(); called by the flusher's thread."""
        for stream in (self.out, self.err):
            try:
                stream.flush()
            except (ValueError, OSError):
                pass
        if sys.stdout is not self.out and isinstance(sys.stdout, Stream):
            sys.stdout.flush()

    def settle(self):
        """The agent has taken all text that was written when this returns, so that a display can't overtake it."""
        self.flush()
        _link.sync()

    def watch_forks(self):
        """A child starts with empty buffers (else it would write the parent's text again), and flushes at each line."""
        os.register_at_fork(before=self._before, after_in_parent=_link.after_fork_parent, after_in_child=self._child)

    def _before(self):
        self.flush()
        _link.before_fork()

    def _child(self):
        _link.after_fork_child()
        self.out.reconfigure(line_buffering=True)


def _is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
