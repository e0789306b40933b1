"""Errors in words, and errors of other processes, raised here under their own names."""

from __future__ import annotations

import builtins
import os


def text_of(value):
    """str(value), of an exception for instance; a class of the user's may do anything there."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - an interrupt as well: the text is of something that failed already
        return f"<{value.__class__.__name__}: its __str__ failed>"


def in_words(error):
    """"Name: text", as the last line of a traceback says it."""
    return f"{error.__class__.__name__}: {text_of(error)}"


def give_up(error):
    """Ends a process that can't answer any more, since a cell has taken away what that needs: builtins.len = None."""
    try:
        os.write(2, b"cellspan: no cell can run in this process any more: %s\n" % in_words(error).encode("utf-8", "replace"))
    finally:  # also where the words need what is gone
        os._exit(1)


class RemoteError(RuntimeError):
    """What failed on the ranks. Its class has the remote exception's name, and is also that exception's where that is built in."""

    traceback = ()

    def _render_traceback_(self):
        """IPython's way to show it: as it was highlighted where it happened."""
        return list(self.traceback) or [f"{type(self).__name__}: {self}"]


def remote_error(content):
    """The exception for an error reply's content."""
    ename = content.get("ename") or "RuntimeError"
    if ename == "KeyboardInterrupt":
        return KeyboardInterrupt(content.get("evalue", ""))
    error = _class(ename)(content.get("evalue", ""))
    error.traceback = content.get("traceback") or ()
    return error


def _class(name):
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception) and not issubclass(RemoteError, known):
        try:
            made = type(name, (RemoteError, known), {"__module__": "builtins"})
            made("")  # some, such as UnicodeDecodeError, are not made of one text
            return made
        except TypeError:
            pass
    return type(name, (RemoteError,), {"__module__": "builtins"})
