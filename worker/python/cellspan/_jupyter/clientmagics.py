"""Magics of home that ipykernel has, too, and replacements for magics of IPython that would not work in a notebook."""

from __future__ import annotations

import json
import os

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from .._link import CALL_SHOWN
from . import post_mortem

CONNECTION = "CELLSPAN_CONNECTION_FILE"  # kernel/arguments.h
DEBUG = (
    "the last cell ran on ranks: %debug -r 0 looks at the error of rank 0, and breakpoint() in that cell stops a rank there; "
    "%debug once more looks at home's last error"
)


@magics_class
class ClientMagics(Magics):
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
        self.shell.payload_manager.write_payload({"source": "page", "data": {"text/plain": text}, "start": 0})

    @line_magic
    def connect_info(self, line):
        """%connect_info: how another client can connect to this kernel."""
        path = os.environ.get(CONNECTION, "")
        try:
            with open(path, encoding="utf-8") as file:
                print(json.dumps(json.load(file), indent=2))
        except (OSError, ValueError) as error:
            raise UsageError(f"%connect_info: the connection file {path!r} can't be read: {error}") from None
        print(f"\nThe file is {path}. On this machine, for instance:\n    jupyter console --existing {path}")

    @line_magic
    def edit(self, line, last_call=["", ""]):  # noqa: B006 - IPython keeps the last call there
        """%edit [-p] [-r] [-n LINE] FILE, NAME or lines of the history: opens the client's editor, if it has one."""
        from IPython.core.magics.code import CodeMagics, MacroToEdit

        options, args = self.parse_options(line, "prn:")
        try:
            filename, number, _ = CodeMagics._find_edit_target(self.shell, args, options, last_call)
        except MacroToEdit:
            raise UsageError(f"%edit {line}: a macro can't be edited here") from None
        if filename is None:
            raise UsageError(f"%edit {line}: there is nothing of that name to edit")
        payload = {"source": "edit_magic", "filename": os.path.abspath(filename), "line_number": number}
        self.shell.payload_manager.write_payload(payload)

    @line_magic
    def subshell(self, line):
        """%subshell: which subshell runs this, and which there are."""
        import threading

        subshells = self.shell.worker.subshells
        print(f"subshell id: {subshells.id_here() if subshells is not None else None}")
        print(f"thread id: {threading.get_ident()}")
        print(f"main thread id: {threading.main_thread().ident}")
        print(f"pid: {os.getpid()}")
        print(f"thread count: {threading.active_count()}")
        print(f"subshell list: {list(subshells.of) if subshells is not None else []}")

    @line_magic
    def autosave(self, line):
        """%autosave SECONDS: says who saves notebooks."""
        try:
            int(line)
        except ValueError:
            raise UsageError(f"%autosave SECONDS: {line.strip() or 'nothing'} is no whole number") from None
        print("The page saves notebooks, as its own settings say: the kernel can't change how often.")


def _without_overstrikes(text):
    """Removes the backspaces with which man writes bold and underlined characters."""
    import re

    return re.sub(".\b", "", text)


def register(home):
    """Registers the magics with home's shell."""
    shell = home.shell
    shell.register_magics(ClientMagics)
    debug = shell.find_line_magic("debug")

    def checked(line, cell=None):
        rank = post_mortem.rank_of(line)
        if rank is not None and not cell:
            home.call(f"%%distribute -r {rank} --no-capture\n{post_mortem.CODE}", CALL_SHOWN)
            return None
        if home.after_ranks:
            home.after_ranks = False
            raise UsageError(DEBUG)
        return debug(line, cell)

    checked.__doc__ = f"%debug -r R: looks at the error of rank R's last cell. Without -r:\n\n{debug.__doc__}"
    shell.register_magic_function(checked, "line_cell", "debug")
