# SPDX-License-Identifier: BSD-3-Clause
"""The parts of an error that are shown, bounded: neither many frames, many causes nor long texts may take long, need much memory, or
replace the error."""

from __future__ import annotations

import builtins
import collections
import contextlib
import inspect
import linecache
import os
import re
import traceback
import types

from IPython.core import page

from .._base.errors import cause_of, context_of, is_a, tb_of
from .._capture import sources
from . import environment

OUTER, INNER = 16, 24  # frames of a long traceback that are shown: the outermost and the innermost
CAUSES = 4  # of a long chain of exceptions, this many are shown at its beginning and at its end
MEMBERS = 200  # exceptions of groups that are looked at
TEXT_MAX = 32_000  # characters of an exception's text
SHOWN_MAX = 72_000  # characters of all that is shown of one error
NO_TEXT = "<str() failed>"
FAILED = object()  # in place of lines
ANSI = re.compile(r"\x1b\[[0-9;]*m")
GROUP = getattr(builtins, "BaseExceptionGroup", ())
DEBUGGER = os.path.join("debugpy", "_vendored", "")  # what runs between a breakpoint's line and an interrupt there
STDLIB = os.path.join(os.path.dirname(os.__file__), "")  # what its files begin with
IPYTHON = os.path.join(os.path.dirname(os.path.dirname(page.__file__)), "")

def name_of(etype):
    """The name of a class, whatever its metaclass does."""
    return type.__dict__["__name__"].__get__(etype)


def clipped(text, most=TEXT_MAX):
    """The text; if it is long, its begin and its end, and between them how much is left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[: most // 2]} [... {left} characters are left out ...] {text[-(most // 2) :]}"


def within_bounds(lines):
    """The lines, without those in the middle if all together are long."""
    if sum(map(len, lines)) + len(lines) <= SHOWN_MAX:
        return lines
    text = "\n".join(lines)
    begin, end = text[: SHOWN_MAX // 2], text[-(SHOWN_MAX // 2) :]
    begin = begin[: begin.rfind("\n", SHOWN_MAX // 4) if "\n" in begin[SHOWN_MAX // 4 :] else None]
    end = end[end.find("\n", 0, SHOWN_MAX // 4) + 1 :]
    colour = "\x1b[0m" if "\x1b[" in begin else ""
    return [begin + colour, f"[... {len(text) - len(begin) - len(end)} characters are left out ...]", end]


def of_group(etype, value, tb):
    """The lines of an exception group, or of an exception that one has caused: Python's traceback, from the user's code on."""
    return "".join(traceback.format_exception(etype, value, _after_ipython(tb))).splitlines()


def _after_ipython(tb):
    """A traceback from the user's code on."""
    inside = os.path.join("IPython", "core")
    while tb is not None and tb.tb_next is not None and os.path.dirname(tb.tb_frame.f_code.co_filename).endswith(inside):
        tb = tb.tb_next
    return tb


def _shown_cause(error):
    """(the exception that is shown above this one, or None; the attribute that has it)."""
    if cause_of(error) is not None:
        return cause_of(error), BaseException.__cause__
    if BaseException.__suppress_context__.__get__(error):
        return None, BaseException.__context__
    return context_of(error), BaseException.__context__


def _chain(error):
    """An exception and those from which it came, as far as they are shown; the last one first."""
    chain, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        chain.append(error)
        error, _ = _shown_cause(error)
    return chain


class Gap:
    """Frames that are left out. after: the frame that follows them."""

    def __init__(self, left, after):
        self.counts = collections.Counter((tb.tb_frame.f_code, tb.tb_lineno) for tb in left)
        self.after = after
        self.shown = False

    def text(self):
        self.shown = True
        return f"    [... {sum(self.counts.values())} frames are left out: {in_words(self.counts)}]"


def in_words(counts):
    """Functions and how often each is there, the most frequent ones first."""
    most = [f"{code.co_name} at line {line} ({count} times)" for (code, line), count in counts.most_common(4)]
    return ", ".join(most if len(counts) <= 4 else [*most[:3], f"{len(counts) - 3} others"])


def _short(tb):
    """(a copy of the traceback with its outermost and innermost frames, a Gap), or (the traceback, None) if it is not long."""
    frames, at = [], tb
    while at is not None:
        frames.append(at)
        at = at.tb_next
    if len(frames) <= OUTER + INNER + 1:
        return tb, None
    made = frames[-INNER]
    for at in reversed(frames[:OUTER]):
        made = types.TracebackType(made, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return made, Gap(frames[OUTER:-INNER], frames[-INNER].tb_frame)


def cells_have_no_module(tb):
    """Tells inspect that the cells in a traceback are in no module's file. IPython's formatter asks it so several times for each frame, and
    inspect would look through all imported modules each time."""
    names, known = set(), getattr(inspect, "modulesbyfile", {})  # file name: a name that sys.modules may lack
    while tb is not None:
        names.add(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    for name in names:
        if name.startswith(sources.CELL):
            known.setdefault(name, name)
            with contextlib.suppress(OSError):  # the current folder is gone; inspect then knows that it has none
                known.setdefault(os.path.abspath(name), name)


class Shortened:
    """Within the block an exception, and those from which it came, have short tracebacks, and few of these are left. Afterwards they are
    as before. tb: the exception's traceback, which may be a part of its own."""

    def __init__(self, error, tb):
        self.error = error
        self.tb, self._given = tb, tb
        self._gaps = []
        self._kept = []  # (what was set, the exception, the value before)
        self._causes = 0  # how many are left out

    def __enter__(self):
        self._drop_causes()
        self.tb = self._cut(self._given)
        cells_have_no_module(self.tb)
        waiting, seen = _chain(self.error), 0
        while waiting and seen < MEMBERS:
            error, seen = waiting.pop(), seen + 1
            whole = tb_of(error)
            made = self.tb if whole is self._given else self._cut(whole)
            if made is not self.tb:
                cells_have_no_module(made)
            if made is not whole:
                self._set(BaseException.__traceback__, error, made)
            if is_a(error, GROUP):
                waiting.extend(error.exceptions[:MEMBERS])
        return self

    def __exit__(self, *error):
        for attribute, one, value in reversed(self._kept):
            attribute.__set__(one, value)

    def _set(self, attribute, error, value):
        self._kept.append((attribute, error, attribute.__get__(error)))
        attribute.__set__(error, value)

    def _cut(self, tb):
        made, gap = _short(tb)
        if gap is not None:
            self._gaps.append(gap)
        return made

    def _drop_causes(self):
        chain = _chain(self.error)
        self._causes = len(chain) - 2 * CAUSES
        if self._causes > 1:
            _, attribute = _shown_cause(chain[CAUSES - 1])
            self._set(attribute, chain[CAUSES - 1], chain[-CAUSES])

    @contextlib.contextmanager
    def shown_in(self, formatter):
        """Within the block, IPython's formatter says where frames are left out."""
        if not self._gaps:
            yield
            return
        formed = formatter.format_record

        def format_record(info):
            for gap in self._gaps:
                if getattr(info, "frame", None) is gap.after and not gap.shown:
                    return gap.text() + "\n\n" + formed(info)
                repeated = getattr(info, "_sd", None)
                if any(getattr(at, "tb_frame", at) is gap.after for at in getattr(repeated, "frames", ())):
                    info.description = in_words(gap.counts + collections.Counter(repeated.frame_keys))
                    gap.shown = True
            return formed(info)

        formatter.format_record = format_record
        try:
            yield
        finally:
            del formatter.format_record

    def not_shown(self):
        """Lines about what is left out and was not shown yet."""
        lines = [gap.text() for gap in self._gaps if not gap.shown]
        if self._causes > 1:
            lines.append(f"{self._causes} exceptions between the first and the last {CAUSES} are left out")
        return lines

    def plain(self, etype, value, text, compiler):
        """The lines of the error. None of the user's code is called, and no file is read, so this can't fail or take long. text: the
        exception's, if it is known. compiler: IPython's, which knows the names of cells."""
        lines, chain = [], _chain(value)
        for error in reversed(chain):
            last = error is value
            tb = _after_ipython(self.tb if last else tb_of(error))
            if tb is not None and not has_no_user_code(tb):
                lines.append("Traceback (most recent call last):")
                lines += self._plain_frames(tb, compiler)
            name = name_of(etype if last else type(error))
            said = _plain_text(error) if not last else NO_TEXT if text is None else text
            lines.append(f"{name}: {said}" if said else name)
            if not last:
                lines += ["", "This exception led to the following one:", ""]
        return lines + self.not_shown()

    def _plain_frames(self, tb, compiler):
        lines = []
        while tb is not None:
            lines += [gap.text() for gap in self._gaps if gap.after is tb.tb_frame and not gap.shown]
            if _is_hidden(tb.tb_frame) and tb.tb_next is not None:
                tb = tb.tb_next  # IPython does not show these frames either
                continue
            code = tb.tb_frame.f_code
            cell = compiler.format_code_name(code.co_filename)
            where = " ".join(cell) if cell else f'File "{code.co_filename}"'
            lines.append(f"  {where}, line {tb.tb_lineno}, in {code.co_name}")
            known = linecache.cache.get(code.co_filename) or ()
            if len(known) == 4 and 0 < tb.tb_lineno <= len(known[2]):
                lines.append("    " + clipped(known[2][tb.tb_lineno - 1].strip(), 400))
            tb = tb.tb_next
        return lines


def _plain_text(error):
    """The text of an exception whose class is no user's; else NO_TEXT."""
    args = BaseException.args.__get__(error)
    if len(args) == 1 and type(args[0]) is str and type(error).__str__ is BaseException.__str__:
        return clipped(args[0], 2000)
    return NO_TEXT if args else ""


def end_at_user_code(error):
    """Cuts the tracebacks of an error, and of its causes, where the user's code called hidden code of ours, or of IPython by ours (which
    IPython does not show). An interrupt may come in any line of ours, and of what we call, so for it all of these are hidden."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        tb, last, interrupted = tb_of(error), None, is_a(error, KeyboardInterrupt)
        inside = False
        while tb is not None:
            unseen = (IPYTHON, STDLIB) if interrupted else IPYTHON
            inside = _is_hidden(tb.tb_frame, interrupted) or (inside and tb.tb_frame.f_code.co_filename.startswith(unseen))
            if not inside and (last is None or (last.tb_frame, last.tb_lineno) != (tb.tb_frame, tb.tb_lineno)):
                last = tb  # a line at which a tracing function raised an exception is there twice
            tb = tb.tb_next
        if last is not None:
            last.tb_next = None
        error = cause_of(error) or context_of(error)


def failed_in_function(error):
    """Has a cell failed in a function that it called? What the cell's own lines assign stays whether they fail or not."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if frame.f_code.co_flags & inspect.CO_NEWLOCALS and package not in ("cellspan", "IPython"):
            return True
    return False


def has_frames(lines):
    """Do lines of an error show where it was raised?"""
    return any("Traceback (most recent call last)" in line for line in lines)


def with_frames(lines, here):
    """An error's lines, with frames from elsewhere. here: IPython's lines of it, of which the last one is the error itself."""
    plain = ANSI.sub("", "\n".join(here)).rstrip()
    at = next((k for k, line in enumerate(lines) if line.strip() and plain.endswith("\n" + ANSI.sub("", line).strip())), None)
    return [*lines[:at], *here, *lines[at + 1 :]] if at is not None else [*here, *lines]


def has_no_user_code(tb):
    """Are all frames of ours, up to hidden ones? IPython would show the last one nevertheless."""
    hidden = False
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(environment.PACKAGE):
            return False
        hidden = _is_hidden(tb.tb_frame)
        tb = tb.tb_next
    return hidden


def _is_hidden(frame, interrupted=False):
    name = frame.f_code.co_filename
    if name == "<stringsource>":  # what Cython makes for a compiled function; the frame's name tells whose it is
        name = frame.f_code.co_name.rpartition("_pydevd_")[1]
    ours = name.startswith(environment.PACKAGE) and (interrupted or "__tracebackhide__" in frame.f_locals)
    return ours or name.startswith("_pydevd_") or DEBUGGER in name


def _with_causes(error):
    """Yields an exception and its causes, each of them once: they may form a ring."""
    seen = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = context_of(error)


def holds_group(value):
    """Is an exception, or one of its causes, an exception group?"""
    return any(is_a(one, GROUP) for one in _with_causes(value))


def left_by_interrupt(error):
    """Did code react to an interrupt with sys.exit(), as Lightning's trainer does?"""
    return is_a(error, SystemExit) and any(is_a(one, KeyboardInterrupt) for one in _with_causes(error))
