# SPDX-License-Identifier: BSD-3-Clause
"""A rank's part when its machine will be gone soon."""

from __future__ import annotations

import types

import cellspan
import pytest
from cellspan import _link
from cellspan._worker import step_meeting


class Streams:
    def flush(self):
        pass


class Rank:
    """What StepMeeting uses of a rank. coming: the MEETs that come, one whenever it waits."""

    def __init__(self, *coming):
        self.streams = Streams()
        self.coming = list(coming)
        self.said = []
        self.notices = step_meeting.StepMeeting(self)

    def number(self):
        return 7

    def send(self, kind, cell, fields):
        assert (kind, cell) == ("MET", 7)
        self.said.append((fields["what"], fields["step"], fields["text"]))

    def _collect(self, part):
        assert part == _link.ANSWERS

    def wait_for(self, waiting):
        how, step = self.coming.pop(0)
        if how == _link.MEET_OFF:
            self.off()  # the thread that reads the socket has done so
        assert self.notices.take(types.SimpleNamespace(fields={"how": how, "step": step}))
        assert waiting.done.is_set()


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """The kernel has asked for the count."""
    state = [True]
    monkeypatch.setattr(Rank, "off", lambda rank: state.__setitem__(0, False), raising=False)
    monkeypatch.setattr(step_meeting, "_link", types.SimpleNamespace(
        **{name: getattr(_link, name) for name in dir(_link) if name.startswith("ME") or name == "ANSWERS"},
        steps_asked=lambda: state[0], steps_over=lambda: state.__setitem__(0, False)))
    monkeypatch.setattr("cellspan._worker.worker._link.wake", lambda: None)
    return state


def test_it_goes_on_to_the_step_and_runs_there(asked):
    rank, ran = Rank((_link.MEET_AT, 3), (_link.MEET_RUN, 3)), []
    rank.notices.set(lambda: ran.append(1))
    rank.notices.meet(2)
    assert not ran and asked[0], "it is behind, and goes on"
    rank.notices.meet(3)
    assert ran == [1] and not asked[0]
    assert rank.said == [(_link.MET_HAS, 0, "<lambda>"), (_link.MET_THERE, 3, ""), (_link.MET_RAN, 0, "")]


def test_called_off(asked):
    rank, ran = Rank((_link.MEET_AT, 1), (_link.MEET_OFF, 0)), []
    rank.notices.set(lambda: ran.append(1))
    rank.notices.meet(1)
    assert not ran and not asked[0] and rank.notices._step == 0


def test_called_off_and_asked_anew_before_the_rank_sees_it(asked):
    rank, ran = Rank((_link.MEET_AT, 4), (_link.MEET_RUN, 4)), []
    rank.notices.set(lambda: ran.append(1))
    assert rank.notices.take(types.SimpleNamespace(fields={"how": _link.MEET_OFF, "step": 0}))
    rank.notices.meet(4)
    assert ran == [1]


@pytest.mark.parametrize("error, said, passes", [
    (OSError("full"), (_link.MET_FAILED, 0, "OSError: full"), False),
    (KeyboardInterrupt(), (_link.MET_FAILED, 0, "KeyboardInterrupt"), True),
    (SystemExit(0), (_link.MET_RAN, 0, ""), True),
])
def test_a_function_that_raises(capsys, error, said, passes):
    def save():
        raise error

    rank = Rank((_link.MEET_AT, 1), (_link.MEET_RUN, 1))
    rank.notices.set(save)
    if passes:
        with pytest.raises(type(error)):
            rank.notices.meet(1)
    else:
        rank.notices.meet(1)
        assert "OSError: full" in capsys.readouterr().err
    assert rank.said[-1] == said


def test_between_cells_is_for_the_loop():
    rank = Rank()
    assert not rank.notices.take(types.SimpleNamespace(fields={"how": _link.MEET_NOW, "step": 0}))
    rank.notices.set(None)
    assert rank.said == [], "there was none before"


def test_outside_of_ranks():
    assert cellspan.step() is None and cellspan.on_notice(print) is print
    with pytest.raises(TypeError, match="takes a function, not int"):
        cellspan.on_notice(3)
