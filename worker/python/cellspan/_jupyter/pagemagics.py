# SPDX-License-Identifier: BSD-3-Clause
"""Magics that show a file or clear the output. They use the shell's pager: the client's at home, print() on a rank."""

from __future__ import annotations

import os

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class


@magics_class
class PageMagics(Magics):
    """See the module."""

    @line_magic
    def clear(self, line):
        """Clears the output of this cell, and a terminal's screen."""
        if os.environ.get("TERM"):
            self.shell.system("clear 2>/dev/null")
        self.shell.display_pub.clear_output()

    @line_magic
    def less(self, line):
        """%less FILE: shows a file in the pager."""
        path = line.strip().strip("\"'")
        if not path:
            raise UsageError("%less FILE: the file's name is missing")
        try:
            with open(os.path.expanduser(path), encoding="utf-8", errors="replace") as file:
                self._page(file.read())
        except OSError as error:
            raise UsageError(f"%less {path}: {error.strerror}") from None

    more = line_magic("more")(less)

    @line_magic
    def man(self, line):
        """%man PAGE: shows a manual page in the pager."""
        import shlex
        import subprocess

        try:
            done = subprocess.run(["man", *shlex.split(line)], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        except (OSError, ValueError) as error:
            raise UsageError(f"%man {line}: {error}") from None
        if done.returncode:
            raise UsageError(f"%man {line}: {(done.stderr or done.stdout).strip() or 'it is not there'}")
        self._page(_without_overstrikes(done.stdout))

    def _page(self, text):
        self.shell.hooks.show_in_pager(text)


def _without_overstrikes(text):
    """Removes the backspaces with which man writes bold and underlined characters."""
    import re

    return re.sub(".\b", "", text)
