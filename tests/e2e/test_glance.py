# SPDX-License-Identifier: BSD-3-Clause
"""Error texts and completions at home for names that exist only on ranks."""

from __future__ import annotations

import time

from client import ANSI, values

SCORE = "%%distribute -n 4\nimport cellspan\nscore = cellspan.rank() / 2"


def complete(nb, code, limit=60):
    """What Tab offers at the cursor (the end, or where `|` stands)."""
    at = code.find("|") if "|" in code else len(code)
    code = code.replace("|", "", 1)
    return nb.request("complete_request", {"code": code, "cursor_pos": at}, limit=limit)


def completed(nb, code, holds):
    """The reply to Tab once holds(reply): home waits 300 ms for ranks, and on a busy machine they may answer later."""
    replies = []

    def look():
        replies.append(complete(nb, code))
        return holds(replies[-1])

    assert nb.until(look), replies[-1]
    return replies[-1]


def offered(nb, code, *wanted):
    """The reply to Tab that offers all that is wanted."""
    return completed(nb, code, lambda reply: set(wanted) <= set(names(reply)))


def matched(nb, code, *matches):
    """Whether Tab offers these alone."""
    return completed(nb, code, lambda reply: reply["matches"] == list(matches))


def last_lines(cell, n=2):
    return cell.assert_error("NameError").traceback.splitlines()[-n:]


def said(nb, code, line):
    """The cell whose error ends with the line of what ranks have: home waits as long for it."""
    return nb.run_until(code, lambda cell: last_lines(cell, 1) == [line])


def test_a_name_that_only_ranks_have_says_who_has_it(nb):
    nb.ok(SCORE)
    cell = said(nb, "1 + score", "ranks 0-3 have it: %pull score")
    assert last_lines(cell)[0] == "NameError: name 'score' is not defined"
    assert cell.reply["traceback"][-1].endswith("%pull score") and cell.error["evalue"] == "name 'score' is not defined"
    nb.ok("%%distribute\nif cellspan.rank() in (1, 3):\n    odd = 1\nif cellspan.rank() == 2:\n    two = 2")
    said(nb, "odd", "ranks 1,3 have it: %pull odd -r 1,3")
    said(nb, "def f():\n    return two\nf()", "rank 2 has it: %pull two -r 2")
    nb.ok("%pull two -r 2\nassert two == 2")


def test_a_module_that_only_ranks_have_imported_is_not_pulled(nb):
    nb.ok("%%distribute -n 2\nimport colorsys, sched as when")
    said(nb, "colorsys.ONE_THIRD", "ranks have imported it: import colorsys")
    said(nb, "when.Event", "ranks have imported it: import sched as when")


def test_other_errors_and_names_that_nobody_has_stay_as_they_are(nb, gate):
    nb.ok(SCORE)
    assert last_lines(nb.run("nobody_has_this"), 1) == ["NameError: name 'nobody_has_this' is not defined"]
    assert last_lines(nb.run("raise NameError('score')"), 1) == ["NameError: score"]
    assert last_lines(nb.run("%%distribute\nnobody_has_this"), 1) == ["NameError: name 'nobody_has_this' is not defined"]
    for name in ("exit", "_ih"):
        nb.ok("kept = get_ipython().user_ns.pop(%r)" % name)
        assert last_lines(nb.run("print(%s)" % name), 1) == ["NameError: name '%s' is not defined" % name], "nobody's variable"
        nb.ok("get_ipython().user_ns[%r] = kept" % name)
    cell = nb.run("try:\n    score\nexcept NameError as error:\n    print(error)\nget_ipython().run_cell_magic('distribute', '', 'nothing_there')")
    assert "%pull" not in cell.assert_error("NameError").traceback


def test_ranks_that_are_gone_or_stuck_are_not_waited_for(fresh):
    nb = fresh()
    assert last_lines(nb.run("score"), 1) == ["NameError: name 'score' is not defined"], "there are no ranks yet"
    pids = nb.rank_pids(3)
    nb.ok("%%distribute\nscore = 1")
    nb.ok("import os, signal\nos.kill(%d, signal.SIGSTOP)" % pids[1])
    try:
        said(nb, "score", "ranks 0,2 have it: %pull score")
    finally:
        nb.ok("os.kill(%d, signal.SIGCONT)" % pids[1])
    nb.ok("%ranks stop")
    assert last_lines(nb.run("score"), 1) == ["NameError: name 'score' is not defined"]


# ---- Tab and Shift-Tab ---------------------------------------------------------------------------------------------------

MODEL = (
    "%%distribute -n 2\nclass Model:\n    '''A model of ranks.'''\n    def training_step(self, batch, scale=1.0):\n        '''One step.'''\n"
    "model = Model()\nmodel.rate = 0.5\nranks_alone = {'key_of_theirs': 1}")


def names(reply):
    return [match.rpartition(".")[2] for match in reply["matches"]]


def test_tab_in_a_distributed_cell_offers_what_rank_0_has(nb):
    nb.ok("at_home = 1")
    nb.ok(MODEL)
    for head in ("%%distribute\n", "# why\n\n%%time\n%%distribute -n 2 --merge raw\nx = 1\n"):
        reply = offered(nb, head + "ranks_al", "ranks_alone")
        assert (reply["cursor_start"], reply["cursor_end"]) == (len(head), len(head) + 8)
        offered(nb, head + "y = model.", "training_step", "rate")
        offered(nb, head + "ranks_al|\nprint(1)", "ranks_alone")
        offered(nb, head + "at_ho", "at_home")  # what would travel is offered as well
        completed(nb, head + "ranks_alone['", lambda reply: "key_of_theirs" in "".join(reply["matches"]))
    assert "ranks_alone" not in names(complete(nb, "ranks_al")), "a cell at home runs at home"


def test_inspection_in_a_distributed_cell_tells_of_rank_0s_objects(nb):
    nb.ok(MODEL)
    code = "%%distribute\nmodel.training_step("
    told = []

    def look():
        reply = nb.request("inspect_request", {"code": code, "cursor_pos": len(code), "detail_level": 0})
        told.append(ANSI.sub("", reply["data"].get("text/plain", "")))
        return "model.training_step(batch, scale=1.0)" in told[-1] and "One step." in told[-1]

    assert nb.until(look), told[-1]  # as with Tab
    assert not nb.request("inspect_request", {"code": "model", "cursor_pos": 5, "detail_level": 0})["found"]


def test_pull_completes_the_ranks_names_and_push_homes(nb):
    nb.ok("ranks_at_home = 1")
    nb.ok(MODEL)
    matched(nb, "%pull ranks_", "ranks_alone")
    matched(nb, "x = 1\n%pull model ranks_al", "ranks_alone")
    assert complete(nb, "%push ranks_")["matches"] == ["ranks_at_home"]
    assert complete(nb, "%pull model --into ranks_")["matches"] == ["ranks_at_home"]


def test_tab_does_not_wait_for_ranks_that_run_or_take_long(nb, gate):
    nb.ok(MODEL)
    nb.ok("%%distribute\nclass Slow:\n    def __dir__(self):\n        while True:\n            pass\nslow = Slow()")
    complete(nb, "%%distribute\nslow.", limit=60)
    assert nb.ok("%%distribute\n'still there'").value == "'still there'", "the rank was stopped in it"
    cell = nb.start("%%distribute\n" + gate.code)
    complete(nb, "%%distribute\nranks_al", limit=60)
    assert not cell.ended
    gate.open()
    nb.wait(cell).assert_ok()
    tab = nb.send("complete_request", {"code": "%%distribute\nslow.", "cursor_pos": 18})
    assert nb.ok("%%distribute\n'at once'").value == "'at once'", "a cell ends the question"
    nb.wait(tab, 60)


def test_tab_on_lines_of_magics(nb, tmp_path):
    (tmp_path / "train_it.py").write_text("")
    assert complete(nb, "%%time\n%%distribute --m")["matches"] == ["--merge"]
    assert complete(nb, "# a comment\n\n%%time\n%%distribute --merge f")["matches"] == ["fold"]
    for line in ("%distribute {}/tra", "%distribute -n 2 {}/tra", "x = 1\n%distribute {}/tra"):
        reply = complete(nb, line.format(tmp_path))
        assert [m for m in reply["matches"] if m.endswith("train_it.py")], (line, reply)
    nb.ok("import os\nbefore = os.getcwd()\nos.chdir(%r)" % str(tmp_path))
    try:
        assert "./train_it.py" in complete(nb, "%distribute ./")["matches"]
    finally:
        nb.ok("os.chdir(before)")


STUCK = """
import jedi, os, sys, time
kept, over = jedi.Interpreter.__init__, False
def stuck(*args, **names):
    open(%r, 'w').close()
    while not over:
        time.sleep(0.01)
        %s
    kept(*args, **names)
jedi.Interpreter.__init__ = stuck
"""
WATCHED = """
import os, sys
idle, home = sys.modules['cellspan._jupyter.prepare_jedi'], sys.modules['cellspan._worker.home'].current
class Watched(type(home.jedi)):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == 'warm':
            open(%r, 'w').close()
home.jedi.__class__, idle.IDLE = Watched, %r
"""
TYPES = {"output": False, "raw": True, "hist_access_type": "tail", "n": 1}  # a history_request, as editors send it when they connect


def appears(nb, path):
    assert nb.until(path.exists, 60), "%s never came" % path.name


ONLY_JEDI = "import os; os.path.isab"  # IPython alone finds nothing here


def test_the_first_tabs_wait_for_jedi_if_there_is_nothing_without(fresh):
    nb = fresh()
    nb.ok("import sys\nsys.modules['cellspan._jupyter.prepare_jedi'].FIRST_TAB = 1000")  # on a busy machine jedi may need longer than usual
    tabs = [nb.send("complete_request", {"code": ONLY_JEDI, "cursor_pos": len(ONLY_JEDI)}) for _ in range(3)]
    for tab in tabs:
        nb.wait(tab, 60, lambda tab=tab: tab.reply_message is not None)
        assert names(tab.reply) == ["isabs"]


LATER = """
class Later:
    now = time.monotonic()
    def __getattr__(self, name):
        return (lambda: self.now) if name == 'monotonic' else getattr(time, name)
later = sys.modules['cellspan._worker.home'].time = Later()
"""


def test_a_tab_waits_for_jedi_as_long_as_a_busy_machine_needs(fresh, tmp_path):
    nb = fresh()
    nb.ok("1" + STUCK % (str(tmp_path / "begun"), "later.now += 40; globals().update(over=True)") + LATER)
    assert names(complete(nb, "import posixpath; posixpath.isab", 120)) == ["isabs"]


def test_a_cell_and_an_interrupt_end_the_wait_of_a_tab(fresh, tmp_path):
    nb = fresh()
    nb.ok("1" + STUCK % (str(tmp_path / "begun"), "jedi.cache.clear_time_caches(True)") + "sys.modules['cellspan._jupyter.prepare_jedi'].FIRST_TAB = 1000")
    for end in (lambda: nb.start("'at once'"), nb.km.interrupt_kernel):
        tab = nb.send("complete_request", {"code": "import posixpath; posixpath.isab", "cursor_pos": 32})
        appears(nb, tmp_path / "begun")
        (tmp_path / "begun").unlink()
        cell = end()
        nb.wait(tab, 30, lambda: tab.reply_message is not None)
        assert tab.reply["status"] == "ok" and tab.reply["matches"] == []
        assert cell is None or nb.wait(cell, 30).value == "'at once'"
    nb.ok("jedi.Interpreter.__init__, over = kept, True", limit=30)


PAUSED = """
prepare = sys.modules['cellspan._jupyter.prepare_jedi']
prepare.PAUSE, ticks, seen = 1000, [0], []
def tick():
    ticks[0] += 1
class Slow:
    def __dir__(self):
        before = ticks[0]
        time.sleep(0.5)
        seen.append(ticks[0] - before)
        return ['attribute']
slow = Slow()
"""


def test_jedi_is_not_prepared_while_a_request_is_served(fresh, tmp_path):
    nb = fresh()
    nb.ok("1" + STUCK % (str(tmp_path / "begun"), "tick()") + PAUSED)
    complete(nb, "slow.")
    appears(nb, tmp_path / "begun")
    assert nb.until(lambda: complete(nb, "slow.")["matches"])
    assert max(values(nb.ok("seen"))) <= 2, "a call may be under way when the request comes"
    nb.ok("jedi.Interpreter.__init__, over = kept, True", limit=30)


BUSY = """
prepare.PAUSE, prepare.RESTS, seen[:] = 1, 1000, []
class Busy:
    def __dir__(self):
        before, end = ticks[0], time.thread_time() + 2.5
        while time.thread_time() < end:
            pass
        seen.append(ticks[0] - before)
        return ['attribute']
busy = Busy()
"""


def test_jedi_is_not_prepared_while_a_request_computes_however_long(fresh, tmp_path):
    nb = fresh()
    nb.ok("1" + STUCK % (str(tmp_path / "begun"), "tick()") + PAUSED + BUSY)
    complete(nb, "busy.")
    appears(nb, tmp_path / "begun")
    assert nb.until(lambda: complete(nb, "busy.")["matches"])
    assert values(nb.ok("seen"))[-1] <= 2, "a call may be under way when the request comes"
    nb.ok("jedi.Interpreter.__init__, over = kept, True", limit=30)


def test_pygments_is_ready_before_jedi(fresh, tmp_path):
    nb = fresh()
    nb.ok("1" + STUCK % (str(tmp_path / "begun"), "pass"))
    complete(nb, "os.pa")
    appears(nb, tmp_path / "begun")
    assert nb.ok("'pygments.formatters.html' in sys.modules and 'pygments.lexers.python' in sys.modules").value == "True"
    nb.ok("jedi.Interpreter.__init__, over = kept, True", limit=30)


def test_the_first_tab_does_not_wait_for_jedi_and_a_cell_does_not_either(fresh, tmp_path):
    nb = fresh()
    nb.ok("data = {'key': 1}\n" + STUCK % (str(tmp_path / "begun"), "pass"))
    assert "items" in names(complete(nb, "data.", limit=30))
    assert nb.ok("%%distribute -n 1\n1 + 1", limit=30).value == "2", "it gets ready beside the cells"
    assert "items" in names(complete(nb, "data.", limit=30))
    nb.ok("jedi.Interpreter.__init__, over = kept, True", limit=30)
    assert nb.until(lambda: names(complete(nb, "[].app")) == ["append"], 60)
    assert "items" in names(complete(nb, "data."))
    nb.ok("import os\nchild = os.fork()\nif not child:\n    os._exit(0)\nos.waitpid(child, 0)")
    assert nb.until(lambda: "jedi" not in nb.ok("import threading; print(threading.enumerate())").stdout)


def test_jedi_gets_ready_while_nothing_runs_where_somebody_may_press_tab(fresh, tmp_path):
    nb = fresh()
    nb.ok(WATCHED % (str(tmp_path / "ready"), 0.05))
    time.sleep(0.5)
    assert nb.ok("'jedi' in sys.modules").value == "False", "a client that only runs cells does not pay for it"
    nb.wait(nb.send("history_request", TYPES))
    appears(nb, tmp_path / "ready")
    assert names(complete(nb, "[].app")) == ["append"], "the first Tab is jedi's"


def test_jedi_is_given_up_when_a_cell_comes(fresh, tmp_path):
    nb = fresh()
    nb.ok(WATCHED % (str(tmp_path / "ready"), 0.05) + STUCK % (str(tmp_path / "begun"), "jedi.cache.clear_time_caches(True)"))
    nb.wait(nb.send("history_request", TYPES))
    appears(nb, tmp_path / "begun")
    nb.ok("idle.IDLE = 1000")
    assert nb.until(lambda: "jedi" not in nb.ok("import threading; print(threading.enumerate())").stdout), "the thread goes on"
    assert nb.ok("home.jedi.warm").value == "False"
    (tmp_path / "begun").unlink()
    nb.ok("idle.IDLE = 0.05")
    appears(nb, tmp_path / "begun")
    nb.ok("%%distribute -n 1\n1")
    nb.ok("jedi.Interpreter.__init__, over, idle.IDLE = kept, True, 0.05")
    appears(nb, tmp_path / "ready")
    assert names(complete(nb, "[].app")) == ["append"]
