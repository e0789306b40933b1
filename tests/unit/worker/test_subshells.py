# SPDX-License-Identifier: BSD-3-Clause
"""What is pure of subshells."""

from __future__ import annotations

from unittest import mock

import pytest
from cellspan._worker.home import Home as HomeWorker
from cellspan._worker.subshells import Sink, Subshell, at_its_magic


@pytest.mark.parametrize("code, wanted", [
    ("# note\n\n%%distribute -n 2\nx", "%%distribute -n 2\nx"),
    ("%%distribute\nx", "%%distribute\nx"),
    ("# note\n%%time\nx", "# note\n%%time\nx"),
    ("x = '%%distribute'\n", "x = '%%distribute'\n"),
    ("# only %% notes", "# only %% notes"),
    ("1 % 2", "1 % 2"),
    ("%%", "%%"),
])
def test_a_magic_of_ours_comes_first(code, wanted):
    assert at_its_magic(code) == wanted


class Home:
    """What a Sink needs of home."""

    def __init__(self):
        self.sent = []
        self.streams = self
        self.out, self.err = object(), object()

    def send(self, kind, number, fields):
        self.sent.append((kind, number, fields["type"], fields["content"]))


def test_text_is_sent_in_its_order_and_joined():
    home = Home()
    sink = Sink(home, 7)
    assert sink.write(home.out, "a") == 1 and sink.write(home.out, "b\n") == 2
    sink.write(home.err, "c\ud800")
    sink.write(home.out, "d")
    assert not home.sent
    sink.flush()
    sink.flush()
    assert [row[3] for row in home.sent] == [
        '{"name":"stdout","text":"ab\\n"}', '{"name":"stderr","text":"c\\\\ud800"}', '{"name":"stdout","text":"d"}']
    assert {row[:3] for row in home.sent} == {("PUBLISH", 7, "stream")}
    with pytest.raises(TypeError, match="must be str, not bytes"):
        sink.write(home.out, b"x")


def test_much_text_does_not_wait():
    home = Home()
    Sink(home, 1).write(home.out, "x" * (1 << 16))
    assert len(home.sent) == 1


def test_what_ends_a_cell_outside_of_ipython_is_shown(monkeypatch):
    home = mock.create_autospec(HomeWorker, instance=True, _capturer=None, cell=None)
    home.shell = mock.MagicMock()
    home.streams = mock.MagicMock()
    error = RuntimeError("Event loop stopped before Future completed.")
    subshell = Subshell(mock.Mock(home=home), "a")
    monkeypatch.setattr(subshell, "_compute", mock.Mock(side_effect=error))
    monkeypatch.setattr("cellspan._worker.subshells._link.busy", lambda busy: None)
    subshell._execute(7, {"type": "execute_request", "header": "{}", "content": '{"code": "await x"}', "count": 1, "flags": 0})
    (cell, shown), _ = home._show_unshown.call_args
    assert (cell.number, shown) == (7, error)
    home.answer_cell.assert_called_once_with(cell)
