# SPDX-License-Identifier: BSD-3-Clause
"""Ranks ask home about the notebook's code, through the kernel, whatever home's main thread does."""

from __future__ import annotations

LIMIT = 90  # seconds, far off

# At home: what answers is replaced, since the questions here are not about files.
ANSWERS = """
import threading, cellspan._worker.code_answers
go_on = threading.Event()
def answer(what, question):
    if "gate" in question:
        import pathlib
        pathlib.Path(question["gate"]).touch()
        go_on.wait()
    if "end" in question:
        import os
        os._exit(1)
    if "raise" in question:
        raise ValueError("of no use")
    return {"asked": question}, b"x" * 3000000 if what == "files" else None
cellspan._code.code_home.answer = answer
cellspan._worker.code_answers.begin()
"""
FINDS = """
def find(what, **question):
    import json
    from cellspan import _link
    text, memory = _link.find(what, json.dumps(question))
    return text, None if memory is None else (len(memory), memory[:2], memory[-1:])
"""


def test_home_answers_ranks(nb):
    nb.ok(ANSWERS + FINDS)
    answers = nb.ok("%%distribute -n 3\nprint(find('tree', name='a'), find('files'))").stdout
    assert """('{"asked": {"name": "a"}}', None) ('{"asked": {}}', (3000000, b'xx', b'x'))""" in answers, answers
    assert "ValueError: of no use" in nb.ok("%%distribute -r 0\nprint(find('tree', **{'raise': 1})[0])").stdout
    assert "error" in nb.ok("%%distribute -r 0\nprint(find('report')[0])").stdout


def test_home_answers_while_its_main_thread_waits_for_the_ranks(nb):
    nb.ok(ANSWERS + FINDS)
    assert "(3000000, b'xx', b'x')" in nb.ok("import cellspan\ncellspan.run(find, 'files', n=2)").value


def test_an_interrupt_ends_the_wait_for_home(nb, gate):
    nb.ok(ANSWERS + FINDS)
    pids = nb.rank_pids(2)
    cell = nb.start("%%%%distribute -n 2\nfind('tree', gate=%r)" % str(gate.path))
    assert nb.until(gate.path.exists, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    nb.ok("go_on.set()")
    assert nb.rank_pids(2) == pids
    nb.ok("%%distribute\nassert find('tree')[0]")


def test_ranks_learn_that_home_has_ended(fresh):
    nb = fresh()
    nb.ok(ANSWERS + FINDS)
    assert "home" in nb.ok("%%distribute -n 2\nprint(find('tree', end=1)[0])").stdout


def test_what_is_not_there_is_told_where_nothing_needs_to_be_sent(nb, tmp_path):
    nb.run("%%distribute -n 1 --with nosuch.csv\npass").assert_error("UsageError")
    (tmp_path / "a b.csv").write_text("x")
    nb.ok("%%%%distribute -n 1 --with '%s/a b.csv'\npass" % tmp_path)
