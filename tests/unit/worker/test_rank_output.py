# SPDX-License-Identifier: BSD-3-Clause
"""What is pure of a rank's Output: the streams, and what it sends when."""

from __future__ import annotations

import contextvars
import io
import sys
import threading
import time
import types

import pytest

traitlets = pytest.importorskip("traitlets")
from cellspan._jupyter import rank_output as ro  # noqa: E402


class Output(traitlets.HasTraits):
    outputs = traitlets.Tuple()

    def __init__(self):
        super().__init__()
        self.sent = []
        self.observe(lambda change: self.sent.append(change["new"]), "outputs")

    def send_state(self, name):
        self.sent.append(getattr(self, name))


class Into:
    """What `with output` does."""

    def __init__(self, output):
        self.output = output

    def __enter__(self):
        ro._install()
        self.entry = ro._Entry(self.output)
        self.token = ro._into.set((self.entry, *ro._into.get()))

    def __exit__(self, *error):
        self.entry.over = True
        ro._into.reset(self.token)
        ro._remove()
        ro._captured(self.output).end()


@pytest.fixture
def streams(monkeypatch):
    """Sets sys.stdout: a function, since pytest sets it after fixtures."""

    def set():
        out = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace")
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", out)
        return out

    return set


def test_a_stream_keeps_its_attributes_and_is_put_back(streams):
    output, streams = Output(), streams()
    with Into(output):
        held = sys.stdout
        assert held is not streams and (held.encoding, held.errors, held.fileno()) == ("utf-8", "backslashreplace", 1)
        assert held.buffer is streams.buffer and held.writable() and not held.isatty()
        with Into(output):
            print("hidden")
        assert sys.stdout is held
    assert sys.stdout is streams and sys.stderr is streams
    assert output.outputs[0]["text"] == "hidden\n"
    assert held.newlines is streams.newlines and held.isatty() == streams.isatty()
    with pytest.raises(AttributeError):
        ro._Tee(object(), "stdout").encoding  # noqa: B018


def test_what_goes_on_after_the_block_prints_and_shows_as_others_do(streams):
    first, second = Output(), Output()
    streams()
    with Into(first):
        context = contextvars.copy_context()  # as a task has it
        context.run(print, "in it")
    with Into(second):
        context.run(print, "after it")
        assert not context.run(ro.captures, "display_data", shown(1))
    assert [o["text"] for o in first.outputs] == ["in it\n"] and not second.outputs


def test_observers_run_where_the_cell_does(streams):
    output, threads = Output(), set()
    output.observe(lambda change: threads.add(threading.current_thread()), "outputs")
    with Into(output):
        for k in range(5):
            print(k)
            time.sleep(0.06)
        until = time.monotonic() + 30
        while output.outputs[0]["text"] != "0\n1\n2\n3\n4\n" and time.monotonic() < until:
            time.sleep(0.01)
        assert output.outputs[0]["text"] == "0\n1\n2\n3\n4\n", "the page sees it before the block ends"
    assert threads == {threading.current_thread()}
    assert output.sent[-1][0]["text"] == "0\n1\n2\n3\n4\n"


def shown(size):
    return {"data": {"image/png": "x" * size}, "metadata": {}}


@pytest.fixture
def clock(monkeypatch):
    """Moves the time of Outputs on, and runs what was to be done meanwhile."""
    now, timers = [100.0], []

    class Timer:
        def __init__(self, wait, call):
            self.due, self.call = now[0] + wait, call

        def start(self):
            timers.append(self)

        def cancel(self):
            if self in timers:
                timers.remove(self)

    def passes(seconds):
        now[0] += seconds
        for timer in [timer for timer in timers if timer.due <= now[0]]:
            timers.remove(timer)
            timer.call()

    monkeypatch.setattr(ro, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(ro.threading, "Timer", Timer)
    return passes


def test_many_figures_are_sent_less_often(streams, monkeypatch, clock):
    monkeypatch.setattr(ro, "PER_SECOND", 1000)
    output = Output()
    with Into(output):
        for _ in range(40):
            ro.captures("display_data", shown(100))
            clock(0.01)
        assert 1 < len(output.sent) <= 3
    assert len(output.outputs) == 40 and len(output.sent[-1]) == 40


def test_figures_stay_where_text_is_left_out(streams, monkeypatch):
    monkeypatch.setattr(ro, "TEXT_MAX", 4000)
    output = Output()
    with Into(output):
        for k in range(100):
            ro.captures("display_data", shown(10))
            print("line", k, "x" * 50)
    kinds = [o["output_type"] for o in output.outputs]
    assert kinds.count("display_data") == 100
    texts = [o["text"] for o in output.outputs if "text" in o]
    assert texts[0] == ro.ENTRIES_LEFT_OUT and texts.count(texts[0]) == 1
    assert texts[-1].startswith("line 99 ") and sum(map(len, texts)) < 4200
