# SPDX-License-Identifier: BSD-3-Clause
"""Ranks' root logger follows home's: if home has set it up so that it writes to the notebook (logging.basicConfig), ranks' lines of that
level are shown, too. Ours is on the root logger only until a rank sets it up itself: with any handler there, logging.basicConfig does
nothing, and says nothing. The handler that logging.warning() makes by itself is no choice of the rank's: ours takes its place.
"""

from __future__ import annotations

import functools
import logging
import sys

from .streams import Stream

STYLES = {logging.PercentStyle: "%", logging.StrFormatStyle: "{", logging.StringTemplateStyle: "$"}


def of_home():
    """[level of the logger, level of its handler, format, format of dates, style]; None: it writes nothing to the notebook."""
    for handler in logging.root.handlers:
        if type(handler).__name__ == "RichHandler" or (isinstance(handler, logging.StreamHandler) and _is_the_notebooks(handler.stream)):
            return [logging.root.level, handler.level, *_format_of(handler.formatter)]
    return None


def _is_the_notebooks(stream):
    """Is it home's stdout or stderr, and not a file or a text of the user's?"""
    return isinstance(stream, Stream) or any(stream is each for each in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))


def _format_of(formatter):
    """Of another class than logging's own, a format may have fields that only that class knows."""
    style = getattr(formatter, "_style", None)
    if type(formatter) is logging.Formatter and type(style) in STYLES and not getattr(style, "_defaults", None):
        return [formatter._fmt, formatter.datefmt, STYLES[type(style)]]
    return [logging.BASIC_FORMAT, None, "%"]


class _ToStderr(logging.StreamHandler):
    """Writes to what is sys.stderr at that moment, which an Output or a redirection may have replaced."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


class _Formatter(logging.Formatter):
    """Home's format. Its fields may come from what home has and ranks have not (a Filter, a factory of records), or from the `extra` of
    some calls. A record without them is written as logging does by itself."""

    def __init__(self, *layout):
        super().__init__(*layout, validate=False)  # home's may have been made so
        self._basic = logging.Formatter(logging.BASIC_FORMAT)

    def format(self, record):
        try:
            return super().format(record)
        except Exception:  # noqa: BLE001 - a field is missing, or is of another type
            return self._basic.format(record)


class RootLogging:
    """A rank's side."""

    def __init__(self):
        self._handler = None  # ours, while it is on the root logger
        self._level = None  # the logger's before
        self._given = None  # the logger's that is home's; None: there is none, or the rank has chosen its own
        self._watches = False
        self._implicit = None  # (handler that logging made by itself, its formatter, level of the logger)
        self._wrap_basic_config()

    def take(self, said):
        """said: what of_home() said, or None."""
        root = logging.root
        if self._handler is not None and self._handler not in root.handlers:
            self._handler = None  # the rank has removed it
        implicit = self._implicit_one()
        if said is None or any(handler not in (self._handler, implicit) for handler in root.handlers):
            self.leave()
            return
        if implicit is not None:
            root.removeHandler(implicit)
        if self._handler is None:
            self._watch()
            self._level, self._handler = root.level, _ToStderr()
            self._given = root.level if root.level == logging.WARNING else None  # another one is the rank's own
            type(root).addHandler(root, self._handler)
        level, least, *layout = said
        if root.level == self._given:
            self._given = level
            type(root).setLevel(root, level)
        self._handler.setLevel(least)
        self._handler.setFormatter(_Formatter(*layout))

    def leave(self):
        """Takes ours away: the rank sets up its logging itself, or home's writes nothing any more."""
        handler, self._handler = self._handler, None
        if handler is not None:
            logging.root.removeHandler(handler)
            if logging.root.level == self._given:
                type(logging.root).setLevel(logging.root, self._level)

    def _watch(self):
        if self._watches:
            return
        self._watches, root, add, set_level = True, logging.root, logging.root.addHandler, logging.root.setLevel

        @functools.wraps(add)
        def addHandler(handler):
            self.leave()
            return add(handler)

        @functools.wraps(set_level)
        def setLevel(level):
            self._given = None
            return set_level(level)

        root.addHandler, root.setLevel = addHandler, setLevel

    def _wrap_basic_config(self):
        basic = logging.basicConfig

        @functools.wraps(basic)
        def basicConfig(**given):
            self.leave()
            by_itself = sys._getframe(1).f_globals is vars(logging) and not logging.root.handlers  # in logging.warning() and the like
            basic(**given)
            if by_itself and len(logging.root.handlers) == 1:
                handler = logging.root.handlers[0]
                self._implicit = handler, handler.formatter, logging.root.level

        logging.basicConfig = basicConfig

    def _implicit_one(self):
        """The handler that logging made by itself, if the rank has not changed it, or the logger's level, since; else None."""
        handler, formatter, level = self._implicit or (None, None, None)
        same = handler in logging.root.handlers and handler.formatter is formatter and not handler.level and not handler.filters
        return handler if same and logging.root.level == level else None
