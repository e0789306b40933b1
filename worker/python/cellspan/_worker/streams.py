"""sys.stdout and sys.stderr of a worker: descriptors 1 and 2, which the agent reads.

While a cell runs, stdout is buffered by blocks and _link flushes it every 50 ms: printing stays quick. Between cells it is
flushed at each line's end, for threads that print on.

The two pipes tell no common order, and not who wrote: where that matters, a write waits until the agent has taken what was
written before (`Watched`). stdout is watched only after a write to stderr, and while others than the cell may write.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time

from .. import _link

_SIZE = 1 << 16
_PAUSE = 0.002  # seconds between two owners: each change is a message to the client, and clients drop what comes too fast


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


class Watched(Stream):
    """One whose writes keep their place among all others."""

    def write(self, text):
        with self.streams.place(self):
            return Stream.write(self, text)  # the class may have changed just now


class Streams:
    """Both of a worker's streams."""

    def __init__(self):
        self.out = Stream(1, "<stdout>", True)
        self.err = Watched(2, "<stderr>", True)
        self.out.streams = self.err.streams = self
        self._lock = threading.RLock()
        self._last = self.out  # who was written last
        self._number = self._tell = None  # see owners()
        self._owner = 0  # whose text goes into the pipes
        self._told = False  # the kernel knows it from us; else it takes the cell that it has sent last
        self._others = False
        self._changed = 0.0
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self._kept = {1: os.dup(1), 2: os.dup(2)}  # should a cell close its own

    def owners(self, number, tell):
        """For a worker whose text may belong to several cells: number() says to which it belongs here, tell(number, keep)
        tells it the kernel; keep: the cell that it sends next changes nothing."""
        self._number, self._tell = number, tell

    def begin(self, number, others=False):
        """A cell starts. others: what earlier cells have left behind may write as well."""
        self._mend()
        self.out.reconfigure(line_buffering=False)
        with self._lock:
            if self._told or others:
                self._own(number, others)
            self._owner, self._others = number, others
            self._watch()

    def end(self, number, others=False):
        """A cell is over: all of its text is in the pipes when this returns."""
        self._mend()
        self.out.reconfigure(line_buffering=True)
        self.flush()
        if others or self._others:
            with self._lock:
                if others and not (self._told and self._owner == number):
                    self._own(number, True)
                self._others = others
                self._watch()

    def expect_others(self):
        """What follows may belong to another cell than what was written before."""
        with self._lock:
            self._others = True
            self._watch()

    def claim(self):
        """What a command writes to the descriptors belongs to the cell that starts it."""
        if self._others and self._tell:
            with self._lock:
                self._change_owner()

    def _watch(self):
        self.out.__class__ = Watched if self._others or self._told or self._last is self.err else Stream

    @contextlib.contextmanager
    def place(self, stream):
        """A write to `stream` comes after all that was written before it, and goes to its own cell."""
        with self._lock:
            if stream is not self._last:
                self.settle()
                self._last = stream
                self._watch()
            if self._tell and (self._others or self._told):
                self._change_owner()
            yield

    def _change_owner(self):
        number = self._number()
        if number != self._owner:
            time.sleep(max(0.0, self._changed + _PAUSE - time.monotonic()))
            self._own(number, True)

    def _own(self, number, keep):
        self.settle()
        self._tell(number, keep)
        self._owner, self._told, self._changed = number, keep, time.monotonic()

    def _mend(self):
        """Opens descriptors 1 and 2 again where a cell closed them: whatever opens a file next would get their numbers, and
        the text of later cells. Where they lead elsewhere, somebody meant that."""
        closed = _link.closed()
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
        self._lock = threading.RLock()
        self._number = self._tell = None
        self.out.__class__ = self.err.__class__ = Stream
        self.out.reconfigure(line_buffering=True)
