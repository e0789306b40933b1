# SPDX-License-Identifier: BSD-3-Clause
"""sys.stdout and sys.stderr of a worker: descriptors 1 and 2, which the agent reads.

While a cell runs, stdout is block-buffered and _link flushes it every 50 ms, so that printing is fast. Between cells it is
flushed after each line, for threads that still print.

The agent can't see the order of text in the two pipes, nor who wrote it. If that matters, a write first waits until the agent
has read all earlier text (`Watched`). stdout is watched only after a write to stderr, and while earlier cells may write, too.
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
_PAUSE = 0.002  # seconds between two owners: each change is a message to clients, which drop messages that come too fast


class _Raw(io.FileIO):
    """The file of a _Buffer. The descriptor stays open, and so does this."""

    def close(self):
        """Does nothing."""


class _Buffer(io.BufferedWriter):
    """The buffer of a Stream. Another TextIOWrapper around it, which the user's code has made, closes it when it is freed."""

    def close(self):
        """Only flushes."""
        self.flush()

    def detach(self):
        """Only flushes."""
        self.flush()
        return self.raw


class Stream(io.TextIOWrapper):
    """A text stream to descriptor `fd`, which it never closes."""

    def __init__(self, fd, name, line_buffering):
        super().__init__(
            _Buffer(_Raw(fd, "wb", closefd=False), _SIZE),
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
        """Only flushes: if it were closed, print() in later cells would fail."""
        self.flush()

    def detach(self):
        """Only flushes, for the same reason."""
        self.flush()
        return self.buffer


class Watched(Stream):
    """A stream whose writes keep their order with those of the other stream. What a subshell's cell writes goes another way."""

    def write(self, text):
        sink = self.streams.sink() if self.streams.sinks else None
        if sink is not None:
            return sink.write(self, text)
        with self.streams.place(self):
            return Stream.write(self, text)  # not super(): the object's class may have changed meanwhile

    def flush(self):
        sink = self.streams.sink() if self.streams.sinks else None
        if sink is not None:
            sink.flush()
        else:
            Stream.flush(self)


class Streams:
    """Both of a worker's streams."""

    def __init__(self):
        self.out = Stream(1, "<stdout>", True)
        self.err = Watched(2, "<stderr>", True)
        self.out.streams = self.err.streams = self
        self._lock = threading.RLock()
        self._last = self.out  # the stream that was written last
        self._number = self._tell = None  # see owners()
        self._owner = 0  # the cell to which the text in the pipes belongs
        self._owner_sent = False  # we have told the kernel the owner; else it assumes the cell that it sent last
        self._others = False
        self._changed = 0.0
        self.sinks = {}  # number of a subshell's running cell: the Sink of its text, which does not go through the pipes
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self._kept = {1: os.dup(1), 2: os.dup(2)}  # in case a cell closes descriptor 1 or 2

    def owners(self, number, tell):
        """For a worker that may run several cells at once. number() returns the cell to which text of the calling task or thread
        belongs; tell(number, keep) tells the kernel. keep: this stays so even when the kernel sends the next cell."""
        self._number, self._tell = number, tell

    def begin(self, number, others=False):
        """A cell starts. others: tasks or threads of earlier cells may write, too."""
        self._mend()
        self._buffer_lines(False)
        with self._lock:
            if self._owner_sent or others:
                self._own(number, others)
            self._owner, self._others = number, others
            self._watch()

    def end(self, number, others=False):
        """A cell is over. When this returns, all its text is in the pipes."""
        self._mend()
        self._buffer_lines(True)
        self._flush_replaced()
        self.flush()
        if others or self._others:
            with self._lock:
                if others and not (self._owner_sent and self._owner == number):
                    self._own(number, True)
                self._others = others
                self._watch()

    def _buffer_lines(self, lines):
        with contextlib.suppress(OSError, ValueError):  # a cell has led descriptor 1 to a full disk, say; a later cell may lead it back
            self.out.reconfigure(line_buffering=lines)

    def _flush_replaced(self):
        """What the user's code has put in place of the streams may still hold text of the cell."""
        for stream, own in ((sys.stdout, self.out), (sys.stderr, self.err)):
            if stream is not own:
                with contextlib.suppress(Exception):  # it may be anything
                    stream.flush()

    def expect_others(self):
        """From now on, text may belong to another cell than before."""
        with self._lock:
            self._others = True
            self._watch()

    def claim(self):
        """Call it before a command starts: what it writes to the descriptors belongs to the cell that starts it."""
        if self._others and self._tell:
            with self._lock:
                self._change_owner()

    def _watch(self):
        watched = self.sinks or self._others or self._owner_sent or self._last is self.err
        self.out.__class__ = Watched if watched else Stream

    def add_sink(self, number, sink):
        """From now on, text that belongs to this cell goes there."""
        with self._lock:
            self.sinks[number] = sink
            self._watch()

    def drop_sink(self, number):
        """The cell is over. What its threads still write goes through the pipes."""
        with self._lock:
            self.sinks.pop(number, None)
            self._watch()

    def sink(self):
        """The Sink for text that is written here, or None."""
        return self.sinks.get(self._number())

    @contextlib.contextmanager
    def place(self, stream):
        """Around a write to `stream`: orders it after all earlier writes, and assigns it to its own cell."""
        with self._lock:
            if stream is not self._last:
                self.settle()
                self._last = stream
                self._watch()
            if self._tell and (self._others or self._owner_sent):
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
        self._owner, self._owner_sent, self._changed = number, keep, time.monotonic()

    def _mend(self):
        """Opens descriptors 1 and 2 again if a cell has closed them. Otherwise the next opened file would get such a number, and the
        text of later cells. If they lead to another file, that was intended."""
        closed = _link.closed()
        for fd in closed:
            os.dup2(self._kept[fd], fd)
        for fd in closed:
            print(f"cellspan: descriptor {fd} was closed, and is open again", file=self.err)

    def flush(self):
        """When this returns, all text written by Python or C is in the pipes."""
        _link.stdio()
        self.tick()

    def tick(self):
        """Python's part of flush(); called by the flusher's thread."""
        for stream in (self.out, self.err):
            try:
                Stream.flush(stream)
            except (ValueError, OSError):
                pass
        if sys.stdout is not self.out and isinstance(sys.stdout, Stream):
            sys.stdout.flush()
        for sink in list(self.sinks.values()):
            sink.flush()

    def settle(self):
        """When this returns, the agent has read all text, so that a display can't overtake it."""
        sink = self.sink() if self.sinks else None
        if sink is not None:
            sink.flush()
            return
        self.flush()
        _link.sync()

    def watch_forks(self):
        """Lets children of a fork start with empty buffers (else they would write the parent's text again), and flush each line."""
        os.register_at_fork(before=self._before, after_in_parent=_link.after_fork_parent, after_in_child=self._child)

    def _before(self):
        self.flush()
        _link.before_fork()

    def _child(self):
        _link.after_fork_child()
        self._lock = threading.RLock()
        self._number = self._tell = None
        self.sinks = {}
        self.out.__class__ = self.err.__class__ = Stream
        self.out.reconfigure(line_buffering=True)
