"""Errors in words, and the end of a process that can tell of none any more."""

from __future__ import annotations

import os
import sys

from .. import _link


def text_of(value):
    """str(value), of an exception for instance; a class of the user's may do anything there."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - an interrupt as well: the text is of something that failed already
        return f"<{value.__class__.__name__}: its __str__ failed>"


def in_words(error):
    """"Name: text", as the last line of a traceback says it."""
    return f"{error.__class__.__name__}: {text_of(error)}"


def attempt(what, run, *args):
    """Runs what comes before any cell, of which the user is told by the name `what` when it fails, in any way, sys.exit() too:
    what would end this process ends the next as well, and no cell ever ran. None then."""
    pid = os.getpid()
    try:
        return run(*args)
    except _link.LinkDead:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        if os.getpid() != pid:  # a fork that the user's code made ends as it is to
            raise
        print(f"{what}: {in_words(error)}", file=sys.stderr)
        return None


def give_up(error):
    """Ends a process that can't answer any more, since a cell has taken away what that needs: builtins.len = None."""
    try:
        os.write(2, b"cellspan: no cell can run in this process any more: %s\n" % in_words(error).encode("utf-8", "replace"))
    finally:  # also where the words need what is gone
        os._exit(1)
