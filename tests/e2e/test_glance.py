"""What home says and offers of names that live on ranks."""

from __future__ import annotations

SCORE = "%%distribute -n 4\nimport cellspan\nscore = cellspan.rank() / 2"


def complete(nb, code, at=None, limit=60):
    """What Tab offers at the cursor (the end, or where `|` stands)."""
    if "|" in code:
        at, code = code.index("|"), code.replace("|", "", 1)
    return nb.request("complete_request", {"code": code, "cursor_pos": len(code) if at is None else at}, limit=limit)


def last_lines(cell, n=2):
    return cell.assert_error("NameError").traceback.splitlines()[-n:]


def test_a_name_that_only_ranks_have_says_who_has_it(nb):
    nb.ok(SCORE)
    cell = nb.run("1 + score")
    assert last_lines(cell) == ["NameError: name 'score' is not defined", "ranks 0-3 have it: %pull score"]
    assert cell.reply["traceback"][-1].endswith("%pull score") and cell.error["evalue"] == "name 'score' is not defined"
    nb.ok("%%distribute\nif cellspan.rank() in (1, 3):\n    odd = 1\nif cellspan.rank() == 2:\n    two = 2")
    assert last_lines(nb.run("odd"))[1] == "ranks 1,3 have it: %pull odd -r 1,3"
    assert last_lines(nb.run("def f():\n    return two\nf()"))[1] == "rank 2 has it: %pull two -r 2"
    nb.ok("%pull two -r 2\nassert two == 2")


def test_other_errors_and_names_that_nobody_has_stay_as_they_are(nb, gate):
    nb.ok(SCORE)
    assert last_lines(nb.run("nobody_has_this"), 1) == ["NameError: name 'nobody_has_this' is not defined"]
    assert last_lines(nb.run("raise NameError('score')"), 1) == ["NameError: score"]
    assert last_lines(nb.run("%%distribute\nnobody_has_this"), 1) == ["NameError: name 'nobody_has_this' is not defined"]
    cell = nb.run("try:\n    score\nexcept NameError as error:\n    print(error)\nget_ipython().run_cell_magic('distribute', '', 'nothing_there')")
    assert "%pull" not in cell.assert_error("NameError").traceback


def test_ranks_that_are_gone_or_stuck_are_not_waited_for(fresh):
    nb = fresh()
    assert last_lines(nb.run("score"), 1) == ["NameError: name 'score' is not defined"], "there are no ranks yet"
    pids = nb.rank_pids(3)
    nb.ok("%%distribute\nscore = 1")
    nb.ok("import os, signal\nos.kill(%d, signal.SIGSTOP)" % pids[1])
    try:
        assert last_lines(nb.run("score", limit=20))[1] == "ranks 0,2 have it: %pull score"
    finally:
        nb.ok("os.kill(%d, signal.SIGCONT)" % pids[1])
    nb.ok("%ranks stop")
    assert last_lines(nb.run("score"), 1) == ["NameError: name 'score' is not defined"]
