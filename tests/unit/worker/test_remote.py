# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions of ranks: how they are described, and how home raises them again."""

import pickle
import sys

import pytest

from cellspan._worker.remote import INSIDE, SIZE, RemoteError, described, remote_error


class Odd(Exception):
    __slots__ = ("slot",)

    def __init__(self, a, *, b):
        super().__init__(a)
        self.slot = b

    @property
    def guarded(self):
        return 1


class Strict(type):
    def __new__(kind, name, bases, body):
        if "allowed" not in body:
            raise TypeError("not allowed")
        return super().__new__(kind, name, bases, body)


class Choosy(LookupError, metaclass=Strict):
    allowed = True


def sent(error, **more):
    raised = described(error)
    pickle.dumps(raised)
    return remote_error({"ename": type(error).__name__, "evalue": str(error), "traceback": ["line"], "raised": raised, **more})


@pytest.mark.parametrize("error", [ValueError("v"), KeyError("k"), OSError(2, "gone", "file"), StopIteration(3), SystemExit(4),
                                   ImportError("no", name="n"), UnicodeDecodeError("ascii", b"\xe9", 0, 1, "why"), Odd(1, b=2)])
def test_an_exception_comes_home_as_what_it_is(error):
    got = sent(error)
    assert isinstance(got, type(error)) and isinstance(got, RemoteError) and type(got).__name__ == type(error).__name__
    assert (str(got), got.args, got.traceback) == (str(error), error.args, ["line"])
    for name in ("errno", "filename", "value", "code", "name", "object", "reason", "slot"):
        if hasattr(error, name):
            assert getattr(got, name) == getattr(error, name), name
    again = pickle.loads(pickle.dumps(got))
    assert (type(again).__mro__[1:], str(again), again.args) == (type(got).__mro__[1:], str(error), error.args)


def test_one_that_the_users_code_makes_can_be_copied():
    mine = RemoteError("mine", 2)
    mine.item = 3
    again = pickle.loads(pickle.dumps(mine))
    assert type(again) is RemoteError and again.args == ("mine", 2) and again.item == 3


def test_what_is_added_at_home_is_pickled_too():
    got = remote_error({"ename": "RankDied", "evalue": "rank 1 was killed", "traceback": ["RankDied"]})
    got.item, got.traceback = 3, [*got.traceback, "what to do"]
    again = pickle.loads(pickle.dumps(got))
    assert (again.item, again.traceback, str(again)) == (3, ["RankDied", "what to do"], "rank 1 was killed")


def test_only_plain_values_come_along_and_no_more_than_there_is_room_for():
    error = ValueError("text", [1, {"a": (None, b"b")}])
    error.plain, error.function, error.long, error.short = {1}, print, "x" * SIZE, "y"
    error.traceback, error.guarded = "its own", 3
    got = sent(error)
    assert (got.args, got.plain, got.short) == (error.args, {1}, "y") and got.traceback == ["line"]
    assert not hasattr(got, "function") and not hasattr(got, "long")
    assert sent(ValueError(print)).args == (str(ValueError(print)),)


def test_what_is_no_plain_value_is_not_loaded():
    import base64

    raised = described(ValueError(1))
    raised["plain"] = base64.b64encode(pickle.dumps({"args": pickle.dumps((print,))})).decode()
    assert remote_error({"ename": "ValueError", "evalue": "1", "raised": raised}).args == ("1",)


def test_a_class_that_is_not_there_or_that_nothing_may_stand_below_gives_way_to_those_above(monkeypatch):
    got = sent(Choosy("c"))
    assert isinstance(got, LookupError) and not isinstance(got, Choosy) and type(got).__name__ == "Choosy"
    monkeypatch.delattr(sys.modules[__name__], "Odd")
    got = sent(pytest.importorskip("json").JSONDecodeError("m", "d", 0))
    assert isinstance(got, ValueError) and got.doc == "d"
    raised = {"classes": [["no_such_module", "E"], ["builtins", "OSError"], ["builtins", "Exception"]]}
    got = remote_error({"ename": "E", "evalue": "e", "raised": raised})
    assert isinstance(got, OSError) and (type(got).__name__, str(got)) == ("E", "e")


@pytest.mark.parametrize("ename, known", [("ValueError", ValueError), ("SystemExit", SystemExit), ("RankDied", RuntimeError), ("print", RuntimeError)])
def test_what_the_kernel_says_has_a_name_alone(ename, known):
    got = remote_error({"ename": ename, "evalue": "why"})
    assert isinstance(got, known) and (type(got).__name__, str(got)) == (ename, "why")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups of exceptions")
def test_a_group_has_its_exceptions():
    got = sent(ExceptionGroup("g", [ValueError(k) for k in range(INSIDE + 1)] + [KeyError("k")]))  # noqa: F821
    assert isinstance(got, ExceptionGroup) and len(got.exceptions) == INSIDE and got.exceptions[1].args == (1,)  # noqa: F821


def test_a_class_that_allows_no_look_is_told_of_by_name(monkeypatch):
    class Closed(Exception):
        def __getattribute__(self, name):
            raise SystemError

    assert described(Closed()) == {}
    monkeypatch.setattr(sys.modules[__name__], "Closed", Closed, raising=False)
    raised = {"classes": [[__name__, "Closed"], ["builtins", "Exception"]]}
    assert str(remote_error({"ename": "Closed", "evalue": "c", "raised": raised})) == "c"
    assert str(remote_error({"ename": "Closed", "evalue": "c", "raised": {}})) == "c"
