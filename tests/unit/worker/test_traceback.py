# SPDX-License-Identifier: BSD-3-Clause
"""Which part of a traceback is from the user's code."""

import asyncio
import inspect
import os
import signal
import sys
import types

import pytest

from cellspan._worker import environment, execution, tracebacks, worker

DEEP = 5000  # frames: more than Python's own limit of calls


def frame(name):
    """A frame of code whose file has this name."""
    names = {"sys": sys}
    exec(compile("here = sys._getframe()", name, "exec"), names)
    return names["here"]


THEIRS = frame("<ipython-input-1>")
OURS = frame(os.path.join(os.path.dirname(worker.__file__), "rank.py"))
RUNPY = frame("<frozen runpy>")


def traceback(*frames):
    """Outermost frame first, as Python shows them."""
    tb = None
    for f in reversed(frames):
        tb = types.TracebackType(tb, f, 0, 1)
    return tb


def test_the_plain_form_leaves_out_hidden_frames_too():
    """It is shown where a busy machine takes too long for IPython's."""
    names = {"sys": sys, "__tracebackhide__": True}
    exec(compile("here = sys._getframe()", OURS.f_code.co_filename, "exec"), names)
    hidden = names["here"]
    error = ValueError("wrong")

    class Compiler:
        @staticmethod
        def format_code_name(name):
            return ("Cell", "In[1]") if name == THEIRS.f_code.co_filename else None

    with tracebacks.Shortened(error, traceback(THEIRS, hidden, OURS, hidden, THEIRS)) as short:
        lines = short.plain(ValueError, error, "wrong", Compiler)
    assert [line for line in lines if ", line " in line] == [
        "  Cell In[1], line 1, in <module>", f'  File "{OURS.f_code.co_filename}", line 1, in <module>', "  Cell In[1], line 1, in <module>"]


class Watched(types.ModuleType):
    """A module that notes who asks for its file."""

    asked = 0

    @property
    def __file__(self):
        self.asked += 1
        return "/a/file.py"


def test_no_module_is_looked_at_for_a_cell(monkeypatch):
    """IPython's formatter asks inspect for each frame several times, and there may be thousands of modules."""
    cell, other = frame("<ipython-input-2-of-this-test>"), frame("<a-file-of-this-test>")
    module = Watched("watched_by_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with tracebacks.Shortened(ValueError(), traceback(other, cell, cell)):
        for asked in cell, cell.f_code:
            assert inspect.getmodule(asked) is inspect.getmodule(asked, "<ipython-input-2-of-this-test>") is None
        assert not module.asked
        assert inspect.getmodule(other) is None
    assert module.asked


def frames(tb):
    """The same as a list."""
    found = []
    while tb is not None:
        found.append(tb.tb_frame)
        tb = tb.tb_next
    return found


@pytest.mark.parametrize(
    "before, after",
    [
        ([THEIRS], [THEIRS]),
        ([OURS, THEIRS], [THEIRS]),
        ([OURS, RUNPY, RUNPY, THEIRS], [THEIRS]),
        ([OURS, THEIRS, OURS, THEIRS, RUNPY], [THEIRS, OURS, THEIRS, RUNPY]),
        ([OURS] * DEEP + [THEIRS] * 2, [THEIRS] * 2),
        ([OURS] + [THEIRS] * DEEP, [THEIRS] * DEEP),
    ],
    ids=["none of ours", "ours", "runpy", "in between", "deep in ours", "deep in theirs"],
)
def test_it_begins_where_the_users_code_does(before, after):
    assert frames(worker._from_user_code(traceback(*before))) == after


@pytest.mark.parametrize("before", [[], [OURS], [OURS, RUNPY], [OURS] * DEEP], ids=["empty", "ours", "runpy", "deep"])
def test_without_a_frame_of_the_users_there_is_none(before):
    assert worker._from_user_code(traceback(*before)) is None


def test_a_package_beside_ours_is_the_users():
    theirs = frame(environment.PACKAGE.rstrip(os.sep) + "_more/mine.py")
    assert frames(worker._from_user_code(traceback(OURS, theirs))) == [theirs]


class Shell:
    """Keeps what it is to show."""

    def __init__(self):
        self.shown = []

    def showtraceback(self, exc_tuple, tb_offset):
        """Not all of it: the frames."""
        self.shown.append((exc_tuple[0], frames(exc_tuple[2])))


@pytest.fixture
def idle():
    """A worker that was never started, and the cell that it runs."""
    idle = worker.Worker()
    idle.shell = Shell()
    idle.cell = execution.Cell(1, "", 1)
    return idle


def test_what_fails_in_our_own_code_is_shown_whole(idle):
    def fail():
        raise ValueError

    fail.__code__ = fail.__code__.replace(co_filename=OURS.f_code.co_filename)
    assert not idle._around(fail)
    (kind, shown), = idle.shell.shown
    assert kind is ValueError and [f.f_code.co_name for f in shown] == ["_around", "fail"]


def test_of_what_fails_in_the_users_code_only_that_is_shown(idle):
    def fail():
        raise ValueError

    assert not idle._around(fail)
    (kind, shown), = idle.shell.shown
    assert kind is ValueError and [f.f_code.co_name for f in shown] == ["fail"]


def interrupt(idle, *deeper):
    """The cell ends by an interrupt, whose traceback is a frame of ours and these."""
    code = "try:\n raise KeyboardInterrupt().with_traceback(tb)\nexcept KeyboardInterrupt:\n idle._broken(idle.cell)"
    exec(compile(code, OURS.f_code.co_filename, "exec"), {"idle": idle, "tb": traceback(*deeper)})
    assert idle.cell.interrupted


@pytest.mark.parametrize("depth", [0, DEEP])
def test_an_interrupt_before_the_cell_had_begun_has_no_traceback(idle, depth):
    interrupt(idle, *[OURS] * depth)
    assert idle.shell.shown == []
    assert idle.cell.error == {"ename": "KeyboardInterrupt", "evalue": "", "traceback": ["KeyboardInterrupt"]}


@pytest.mark.parametrize("depth", [0, DEEP])
def test_an_interrupt_of_the_users_code_is_shown_from_there_on(idle, depth):
    interrupt(idle, *[OURS] * depth, THEIRS, OURS)
    assert idle.shell.shown == [(KeyboardInterrupt, [THEIRS, OURS])]


def test_an_interrupt_before_the_first_step_of_a_cell_that_awaits_ends_it(idle, monkeypatch):
    loop, ran, over = asyncio.new_event_loop(), [], []
    monkeypatch.setattr(idle, "_after", lambda cell: None)
    monkeypatch.setattr(idle, "_end_cell", lambda cell, done: done(cell))
    idle.loop = types.SimpleNamespace(need=lambda: loop, later=lambda: None)
    idle.awaits = lambda cell: os.kill(os.getpid(), signal.SIGINT)

    async def code():
        ran.append(1)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        idle._start_task(idle.cell, code(), over.append)
        os.kill(os.getpid(), signal.SIGINT)
        loop.run_until_complete(idle.cell.task)
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()
    assert over == [idle.cell] and ran == [] and idle.cell.interrupted
    assert idle.cell.error == {"ename": "KeyboardInterrupt", "evalue": "", "traceback": ["KeyboardInterrupt"]}
