# SPDX-License-Identifier: BSD-3-Clause
"""State that each subshell needs for itself: the running cell, its count, its result.

With the first cell of a subshell, the class of home, of its shell and of others is replaced by a subclass from here, which looks up
this state by thread. So notebooks without subshells need no time for it.
"""

from __future__ import annotations

import threading

from IPython.core.payload import PayloadManager

from .._jupyter.history import History
from .home import Home
from .publish import Hook
from .shell import ZMQInteractiveShell

FOREVER = 1 << 40  # so often must a trap of IPython's be left before it is off


class Here(threading.local):
    """What is this thread's."""

    subshell = None  # the Subshell whose thread this is
    values = None  # of the attributes below, by class and name; None: in threads that are no subshell's


here = Here()


def _own(name, default=None):
    """An attribute that each subshell has for itself. Other threads have the object's own."""

    def get(self):
        values = here.values
        return (self.__dict__ if values is None else values).get(name, default)

    def put(self, value):
        values = here.values
        (self.__dict__ if values is None else values)[name] = value

    return property(get, put)


class ManyHomes(Home):
    """Home, with subshells."""

    cell = _own("cell")
    code = _own("code", "")
    count = _own("count", 0)
    header = _own("header", "")

    def in_subshell(self):
        return here.subshell is not None

    def others_may_write(self):
        return super().others_may_write() or any(each.has_tasks for each in tuple(self.subshells.of.values()))


class ManyShells(ZMQInteractiveShell):
    """The shell, with subshells."""

    execution_count = _own("execution_count", 1)
    _last_traceback = _own("_last_traceback")
    _last_text = _own("_last_text", "")

    @property
    def payload_manager(self):
        """What a subshell's cell leaves for its client."""
        values = here.values
        if values is None:
            return self._trait_values["payload_manager"]
        if "payload_manager" not in values:
            values["payload_manager"] = PayloadManager(parent=self)
        return values["payload_manager"]


class ManyHooks(Hook):
    """The display hook, with subshells."""

    _bundle = _own("_bundle")
    _is_active = _own("_is_active", False)


class ManyHistories(History):
    """The history, with subshells: cells come in another order than their numbers."""

    _storing = threading.Lock()

    def store_inputs(self, line_num, source, source_raw=None):
        with self._storing:
            later = [kept[line_num + 1 :] for kept in (self.input_hist_parsed, self.input_hist_raw)]
            super().store_inputs(line_num, source, source_raw)
            for kept, texts in zip((self.input_hist_parsed, self.input_hist_raw), later):
                kept.extend(texts)


def share(home):
    """Gives home, its shell, its display hook and its history the classes above."""
    shell = home.shell
    for trap, on in ((shell.builtin_trap, shell.builtin_trap.activate), (shell.display_trap, shell.display_trap.set)):
        if not trap._nested_level:
            on()
        trap._nested_level += FOREVER  # IPython counts without a lock
    for thing, many, name in (
        (shell, ManyShells, ZMQInteractiveShell.__name__),  # libraries recognise a notebook by it
        (shell.displayhook, ManyHooks, Hook.__name__),
        (shell.history_manager, ManyHistories, History.__name__),
        (home, ManyHomes, Home.__name__),
    ):
        many.__name__ = many.__qualname__ = name
        thing.__class__ = many
