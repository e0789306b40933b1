# SPDX-License-Identifier: BSD-3-Clause
"""Errors as text, and the end of a process that can't report errors any more."""

from __future__ import annotations

import os
import re
import sys

from .. import _link

# Parts of an exception. Its class may have a __getattribute__ that fails.
tb_of, cause_of, context_of = (part.__get__ for part in (BaseException.__traceback__, BaseException.__cause__, BaseException.__context__))


def is_a(error, kinds):
    """isinstance(), which asks an exception of another class for its __class__, too: that may raise an error."""
    return issubclass(type(error), kinds)


def text_of(value):
    """str(value), for example of an exception. Safe even if the __str__ of a user's class fails."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - also an interrupt: this is only the text of an earlier error
        return "<str() failed>"


def in_words(error):
    """"Name: text", as in the last line of a traceback."""
    return f"{error.__class__.__name__}: {text_of(error)}"


# What is said with a vowel at its beginning: names that begin with such a letter, and those that are read letter by letter.
_VOWEL = r"(?!U[A-Z]|[Ee]u|[Oo]ne|[Uu](?:ni(?!m)|se|int|func|tf|ser))[AEIOUaeiou]|[FHLMNRSX](?=[A-Z])|[mn](?=[bcdfghjklmnpqrstvwxz])"


def with_article(name):
    """The name of a class with its article: "an int", "a list"."""
    return ("an " if re.match(_VOWEL, name) else "a ") + name


def near(name, names):
    """The one of the names that is most like a name which does not exist; None: none is."""
    return _link.nearest(name, list(names))


def undefined(name, names):
    """The NameError for a name that is not among these."""
    other = near(name, names)
    return NameError(f"name {name!r} is not defined" + (f". Did you mean: {other!r}?" if other else ""))


def attempt(what, run, *args):
    """Runs the user's code before the first cell, such as start-up files. If it fails in any way, even by sys.exit(), prints an
    error that calls it `what`, and returns None. It must not end the process: that would end the next one, too, and no cell
    could ever run."""
    pid = os.getpid()
    try:
        return run(*args)
    except _link.LinkDead:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        if os.getpid() != pid:  # this is a fork that the user's code made: let it end
            raise
        print(f"{what}: {in_words(error)}", file=sys.stderr)
        return None


def in_one_line(error):
    """An error as one line, without our traceback."""
    return {"ename": type(error).__name__, "evalue": text_of(error), "traceback": [in_words(error)]}


def give_up(error):
    """Ends a process that can't answer any more because a cell has broken Python itself, for example by builtins.len = None."""
    try:
        os.write(2, b"cellspan: no cell can run in this process any more: %s\n" % in_words(error).encode("utf-8", "replace"))
    finally:  # even if the text can't be made
        os._exit(1)
