# SPDX-License-Identifier: BSD-3-Clause
"""The lines by which an engine tells the kernel: docs/launchers.md, "An engine of your own", has them."""
from __future__ import annotations

import os
import threading
import time

from .client_log import write_all

TEXT_MAX = 2000  # characters of a line


class Reports:
    """Writes them to the process's stdout and stderr of now. Every method may be called from any thread."""

    def __init__(self):
        self._out, self._errors = os.dup(1), os.dup(2)
        self._said, self.end_s = threading.Lock(), 1.0
        self.last_report = time.monotonic()  # when the kernel was told something

    def _line(self, line):
        data = ("".join(c if c >= " " and c != "\x7f" else " " for c in line)[:TEXT_MAX] + "\n").encode("utf-8", "replace")
        with self._said:
            self.last_report = time.monotonic()
            write_all(self._out, data)

    def nodes(self, n, by_ranks=False, together=False):
        """So many agents will come. by_ranks: they have room for so many ranks as were asked for, and a new start for more gives more room.
        together: if one is lost, all end."""
        self._line("contract 2")  # all engines of this package tell when an agent ends
        self._line("nodes %d%s%s" % (n, " ranks" if by_ranks else "", " together" if together else ""))

    def node(self, number, name, slots=0):
        """Where an agent is, and how many ranks it takes (0: as many as come)."""
        self._line("node %d %s%s" % (number, "_".join(name.split()) or "?", " %d" % slots if slots else ""))

    def say(self, text):
        """Shows the text in the cell. What follows may take long."""
        self._line("say " + text)

    def failed(self, number, text):
        """This agent won't come, or has ended against its will."""
        self._line("failed %d %s" % (number, text))

    def notice(self, number, seconds, text):
        """This agent's machine will be gone in so many seconds."""
        self._line("notice %d %d %s" % (number, max(0, round(seconds)), text))

    def end(self, seconds):
        """Between the end of stdin and SIGTERM may be so many seconds."""
        self.end_s = max(self.end_s, seconds)
        self._line("end %d" % max(1, round(seconds)))

    def warn(self, text):
        """Adds to what the cell shows if the engine fails."""
        write_all(self._errors, (text.rstrip("\n") + "\n").encode("utf-8", "replace"))
