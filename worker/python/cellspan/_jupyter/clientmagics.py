# SPDX-License-Identifier: BSD-3-Clause
"""Magics of home that ipykernel has, too, and replacements for magics of IPython that would not work in a notebook."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from .._link import CALL_SHOWN
from . import post_mortem
from .pagemagics import PageMagics

CONNECTION = "CELLSPAN_CONNECTION_FILE"  # kernel/kernel.h
DEBUG = (
    "the last cell ran on ranks: %debug -r 0 looks at the error of rank 0, and breakpoint() in that cell stops a rank there; "
    "%debug once more looks at home's last error"
)


@magics_class
class ClientMagics(Magics):
    """See the module."""

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
    def qtconsole(self, line):
        """%qtconsole [OPTIONS]: opens a Qt console on this kernel, on the machine where the kernel runs."""
        if importlib.util.find_spec("qtconsole") is None:
            raise UsageError("%qtconsole: this Python has none (pip install qtconsole); %connect_info says how other clients connect")
        start = "from qtconsole import qtconsoleapp; qtconsoleapp.main()"
        command = [sys.executable, "-c", start, "--existing", os.environ.get(CONNECTION, ""), *shlex.split(line)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    @line_magic
    def edit(self, line, last_call=["", ""]):  # noqa: B006 - IPython keeps the last call there
        """%edit [-p] [-r] [-n LINE] FILE, NAME or lines of the history: opens the client's editor, if it has one."""
        from IPython.core.magics.code import CodeMagics, MacroToEdit

        options, args = self.parse_options(line, "prn:")
        try:
            filename, number, _ = CodeMagics._find_edit_target(self.shell, args, options, last_call)
        except MacroToEdit:
            raise UsageError(f"%edit {line}: a macro can't be edited here: define it again with %macro") from None
        if filename is None:
            raise UsageError(f"%edit {line}: there is nothing of that name to edit: give a variable, a file or the number of a cell")
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
            raise UsageError(f"%autosave SECONDS: {line.strip() or 'nothing'} is no whole number: give one, as 60") from None
        print("The page saves notebooks, as its own settings say: the kernel can't change how often.")


def register(home):
    """Registers the magics with home's shell."""
    shell = home.shell
    shell.register_magics(ClientMagics, PageMagics)
    shell.magics_manager.register_alias("ed", "edit")
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
