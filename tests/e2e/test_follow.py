# SPDX-License-Identifier: BSD-3-Clause
"""Ranks follow home: its environment, modules that are loaded again, IPython's options and extensions."""

from __future__ import annotations

import os
import re

import pytest
from client import by_rank, rank_values

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launchers.md")
GET = "[__import__('os').environ.get(name) for name in %r]"


def environ(nb, *names, n=2, options=""):
    """What ranks have under these names: a list for each."""
    return rank_values(nb, GET % (names,), n, options)


@pytest.fixture
def elsewhere(fresh, tmp_path):
    """A notebook, and the option for ranks on other machines: agents of an engine, on this one."""
    with open(DOCS, encoding="utf-8") as file:
        lines = re.search(r"^```sh\n(.*?)^```", file.read(), re.S | re.M).group(1)
    twins = tmp_path / "cellspan-launch-twins"
    twins.write_text(lines, encoding="utf-8")
    twins.chmod(0o755)
    return fresh(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])}), "--on twins"


def test_what_home_changes_in_its_environment_goes_along(fresh):
    nb = fresh(env={"GIVEN": "from outside", "SPARE": "too"})
    assert environ(nb, "GIVEN", "MODE") == [["from outside", None]] * 2
    nb.ok("%env MODE=fast\nimport os\nos.environ['GIVEN'] = 'ours'\ndel os.environ['SPARE']")
    assert environ(nb, "GIVEN", "MODE", "SPARE") == [["ours", "fast", None]] * 2
    assert environ(nb, "GIVEN", "MODE", "SPARE", n=3)[2] == ["ours", "fast", None], "a new rank gets it as well"
    nb.ok("del os.environ['MODE']\nos.environ.update(GIVEN='from outside', SPARE='more')")
    assert environ(nb, "GIVEN", "MODE", "SPARE", n=3) == [["from outside", None, "more"]] * 3
    nb.ok("odd = {'ODD': 'a\\nb=\"c\" \\u00e9 \\udc80'}\nos.environ.update(odd)")
    assert nb.ok("%%distribute\nimport os\nos.environ['ODD'] == odd['ODD']").value == "True"


def test_the_last_writer_of_the_environment_wins_and_env_wins_over_all(nb):
    nb.ok("%env WRITER=home")
    nb.ok("%%distribute -n 2\nimport os\nos.environ['WRITER'] += ' and rank'")
    assert environ(nb, "WRITER") == [["home and rank"]] * 2, "a rank's own change stays"
    assert environ(nb, "WRITER", options="--env WRITER=given") == [["given"]] * 2
    assert environ(nb, "WRITER") == [["home and rank"]] * 2, "--env is for one cell"
    nb.ok("%env WRITER=again")
    assert environ(nb, "WRITER", options="--env WRITER=given") == [["given"]] * 2
    assert environ(nb, "WRITER") == [["again"]] * 2


def test_what_cellspan_sets_stays_its_own(nb):
    nb.ok("import os\nos.environ.update(RANK='9', WORLD_SIZE='9', CUDA_VISIBLE_DEVICES='77', CELLSPAN_MINE='1', OMP_NUM_THREADS='3')")
    found = environ(nb, "RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "CELLSPAN_MINE", "OMP_NUM_THREADS")
    assert [row[:2] + row[3:] for row in found] == [["0", "2", None, "3"], ["1", "2", None, "3"]]
    assert all(row[2] != "77" for row in found)
    nb.ok("for name in ('RANK', 'WORLD_SIZE', 'CUDA_VISIBLE_DEVICES', 'CELLSPAN_MINE', 'OMP_NUM_THREADS'):\n    del os.environ[name]")


def test_it_is_there_before_variables_are(fresh, tmp_path):
    (tmp_path / "early.py").write_text("import os\nMODE = os.environ.get('MODE')\nclass Thing:\n    pass\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%env MODE=fast\nfrom early import Thing\nthing = Thing()")
    assert nb.ok("%%distribute -n 2 --gather\nthing\nimport early\nearly.MODE").value == "['fast', 'fast']"


def test_scripts_and_run_have_it_too(nb, tmp_path):
    (tmp_path / "tell.py").write_text("import os\nprint(os.environ.get('FOR_ALL'))")
    nb.ok("%env FOR_ALL=yes\nimport cellspan\ndef tell():\n    import os\n    return os.environ['FOR_ALL']")
    assert nb.ok("%%distribute -n 2 -r 1 --merge raw %s" % (tmp_path / "tell.py")).stdout == "yes\n"
    assert nb.ok("cellspan.run(tell, n=2, gather=True)").value == "['yes', 'yes']"


def test_ranks_import_from_where_home_does(fresh, tmp_path):
    nb = fresh()
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "beside.py").write_text(f"place = {folder!r}\n")
    nb.ok("%%distribute -n 2\nimport sys\nsys.path.append('/own')")
    nb.ok("import sys\nsys.path.insert(0, %r)" % str(tmp_path / "first"))
    nb.ok("%%distribute\nimport beside\nassert beside.place == 'first'")  # which reads no variable of home
    nb.ok("sys.path.insert(0, %r)" % str(tmp_path / "second"))
    nb.ok("%%distribute\nimport importlib\nassert importlib.reload(beside).place == 'second'")
    nb.ok("del sys.path[:2]")
    assert rank_values(nb, "[p for p in __import__('sys').path if p.startswith(%r) or p == '/own']" % str(tmp_path), 2) == [["/own"]] * 2


def test_what_is_a_machines_own_stays_at_home(elsewhere):
    nb, on = elsewhere
    names = "PATH", "LD_LIBRARY_PATH", "SLURM_JOB_ID", "NCCL_SOCKET_IFNAME", "MODE"
    there = environ(nb, *names, options=on)
    nb.ok("import os\nos.environ.update(dict.fromkeys(%r, 'ours'))" % (names,))
    assert environ(nb, *names) == [row[:-1] + ["ours"] for row in there]
    nb.ok("%ranks stop")
    assert environ(nb, *names, options="--on local --fresh") == [["ours"] * 5] * 2, "on home's machine they go along"


# ---- modules that change -------------------------------------------------------------------------------------------------


class Module:
    """A module of the user's, in the folder where a notebook starts."""

    def __init__(self, folder, name):
        self.path = folder / (name + ".py")
        self.edits = 0

    def write(self, text):
        """Its new text, with a time of its own: two edits within a tick of the clock are two."""
        self.edits += 1
        self.path.write_text(text)
        now = os.stat(self.path).st_mtime + 2 * self.edits
        os.utime(self.path, (now, now))


@pytest.fixture
def module(tmp_path):
    made = Module(tmp_path, "mine")
    made.write("def answer():\n    return 1\nclass Thing:\n    pass\n")
    return made


def test_ranks_follow_a_reload_at_home(fresh, module, tmp_path):
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import mine, importlib")
    assert rank_values(nb, "mine.answer()", 2) == [1, 1]
    module.write("def answer():\n    return 22\nclass Thing:\n    pass\n")
    cell = nb.ok("%%distribute\nmine.answer()")
    assert cell.value == "1"
    assert newer(cell) == {0: 1, 1: 1}, cell.shown
    assert nb.ok("%%distribute\nmine.answer()").stderr == "", "that is said once"
    nb.ok("importlib.reload(mine)\nthing = mine.Thing()")
    cell = nb.ok("%%distribute --gather\nmine.answer(), isinstance(thing, mine.Thing)")
    assert (cell.value, cell.stderr) == ("[(22, True), (22, True)]", "")
    assert rank_values(nb, "mine.answer()", 3) == [22, 22, 22], "a new rank imports it as it is"
    nb.ok("from importlib import reload")
    nb.ok("%%distribute\nimport mine as again\nreload(again) is again")


def test_a_function_from_a_module_that_was_loaded_again_stays_what_it_is_at_home(fresh, module, tmp_path):
    """No conflict comes of it: nobody has changed the function, it is only not the module's any more."""
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import mine, importlib\nfrom mine import answer, Thing")
    assert rank_values(nb, "(answer(), Thing.__name__)", 2) == [(1, "Thing")] * 2
    module.write("def answer():\n    return 22\nclass Thing:\n    new = True\n")
    nb.ok("importlib.reload(mine)")
    assert nb.ok("answer(), hasattr(Thing, 'new')").value == "(1, False)"
    assert rank_values(nb, "(answer(), mine.answer(), hasattr(Thing, 'new'))", 2) == [(1, 22, False)] * 2
    assert rank_values(nb, "answer()", 3) == [1, 1, 1], "a new rank gets home's, too"
    nb.ok("from mine import answer, Thing")
    assert rank_values(nb, "(answer(), Thing.new)", 3) == [(22, True)] * 3


def test_a_function_that_a_module_has_made_of_the_notebooks_is_still_compared(fresh, tmp_path):
    """A decorator's wrapper has a module's globals, but the module has no such name."""
    (tmp_path / "made.py").write_text("import functools\ndef keep(f):\n    @functools.wraps(f)\n    def inner(*args):\n        return f(*args)\n    return inner\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import contextlib, made\nk = 2\n@contextlib.contextmanager\ndef cm():\n    yield k\n@made.keep\ndef scaled():\n    return 10 * k")
    code = "%%distribute -n 2 --gather\nwith cm() as value:\n    pass\nvalue, scaled()"
    assert nb.ok(code).value == "[(2, 20), (2, 20)]"
    nb.ok("k = 3")
    assert nb.ok(code).value == "[(3, 30), (3, 30)]"


def test_a_class_with_a_metaclass_from_a_module_that_was_loaded_again_is_no_conflict(fresh, tmp_path):
    (tmp_path / "based.py").write_text("import abc\nclass A(abc.ABC):\n    kind = 1\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import based, importlib\nfrom based import A")
    assert rank_values(nb, "A.kind", 2) == [1, 1]
    nb.ok("importlib.reload(based)")
    assert rank_values(nb, "A.kind", 2) == [1, 1]


def test_a_value_is_not_sent_again_because_its_module_was_loaded_again(fresh, tmp_path):
    """Nor is it in conflict with what ranks have made of it. What home changes after that is."""
    (tmp_path / "holds.py").write_text("import enum\nclass Kind(enum.Enum):\n    A = 1\nclass Outer:\n    class Inner:\n        pass\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import holds, importlib, numpy\nm, inner = holds.Outer(), holds.Outer.Inner()\nm.w, m.kind, m.i = numpy.ones(100_000), holds.Kind.A, inner\nm.n = 1")
    assert rank_values(nb, "m.n, id(m) == id(globals()['m']), inner is m.i", 2) == [(1, True, True)] * 2
    nb.ok("%%distribute\nm.w[0] = 7\nkept = m")
    for _ in range(2):
        nb.ok("before = holds.Outer\nimportlib.reload(holds)\nassert holds.Outer is not before and holds.Outer.Inner is not type(inner)")
        for _ in range(2):
            assert rank_values(nb, "float(m.w[0]), m is kept, type(inner).__name__", 2) == [(7.0, True, "Inner")] * 2
    nb.ok("m.n = 3")
    nb.run("%%distribute\nm.n").assert_error("VariableConflict")
    nb.ok("%push m")
    assert rank_values(nb, "float(m.w[0]), m is kept, m.n", 2) == [(1.0, False, 3)] * 2


def test_two_versions_of_a_class_are_told_in_both_directions(fresh, tmp_path):
    (tmp_path / "twice.py").write_text("class C:\n    def f(self):\n        return 1\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import twice\nold = twice.C()")
    (tmp_path / "twice.py").write_text("class C:\n    def f(self):\n        return 'two'\n")
    line = "the class twice.C is not the same at home and on ranks (f): the notebook has imported an older twice. importlib.reload(twice) at home"
    told = nb.ok("%%distribute -n 2\nold.f()").stderr
    assert set(by_rank(told)) == {0, 1} and "old: " + line in told, told
    told = nb.ok("%%distribute --into back\ntwice.C()").stderr
    assert told.count("back: " + line) == 1, told
    nb.ok("import importlib\nimportlib.reload(twice)\nnew = twice.C()")
    assert "is not the same" not in nb.ok("%%distribute --into again\nnew").stderr + nb.ok("%%distribute\nnew.f()").stderr


def newer(cell):
    """{rank: how often it says that mine.py is newer}."""
    said = "mine.py is newer than what ranks have imported: importlib.reload(mine) or %autoreload 2 at home"
    found = {rank: sum(said in line for line in lines) for rank, lines in by_rank(cell.stderr).items()}
    return {rank: times for rank, times in found.items() if times}


def test_whoever_has_an_old_module_says_so(fresh, module, tmp_path):
    """Any rank may be the only one that runs the cell, or that has imported the module."""
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%%distribute -n 3\nimport os\nif os.environ['RANK'] != '0':\n    import mine")
    module.write("def answer():\n    return 22\n")
    cell = nb.ok("%%distribute -r 1\nmine.answer()")
    assert cell.value == "1" and "mine.py is newer" in cell.stderr, cell.shown
    assert newer(nb.ok("%%distribute\n1")) == {2: 1}, "rank 1 has said it, and rank 0 has not imported it"
    module.write("def answer():\n    return 333\n")
    assert newer(nb.ok("%%distribute --env LOCAL_RANK=7\n1")) == {1: 1, 2: 1}
    assert nb.ok("%%distribute\n1").stderr == ""


def test_a_reload_that_fails_on_ranks_fails_the_cell(fresh, module, tmp_path):
    nb = fresh(cwd=str(tmp_path))
    nb.ok("import mine, importlib")
    assert rank_values(nb, "mine.answer()", 2) == [1, 1]
    module.write("import os\nif 'RANK' in os.environ:\n    raise OSError('not here')\n")
    nb.ok("importlib.reload(mine)")
    cell = nb.run("%%distribute\nmine.answer()").assert_error("OSError")
    assert "not here" in cell.traceback and "mine.py" in cell.traceback, cell.traceback
    assert "cellspan: ranks can't load mine again, as home has: OSError: not here" in nb.ok("%%distribute\n1").stderr
    module.write("def answer():\n    return 22\n")
    assert rank_values(nb, "mine.answer()", 2) == [22, 22]


def test_ranks_follow_homes_autoreload(fresh, module, tmp_path):
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%load_ext autoreload\n%autoreload 2")
    assert rank_values(nb, "__import__('mine').answer()", 2) == [1, 1], "imported on ranks alone"
    nb.ok("%%distribute\nfrom mine import answer, Thing\nthing = Thing()")
    module.write("def answer():\n    return 333\nclass Thing:\n    def name(self):\n        return 'new'\n")
    assert rank_values(nb, "(answer(), thing.name())", 2) == [(333, "new")] * 2
    for text, failure in (("def answer(:\n", "SyntaxError"), ("import sys\nsys.exit('not now')\n", "SystemExit: not now")):
        module.write(text)
        cell = nb.ok("%%distribute\nanswer()")
        assert cell.value == "333" and f"%autoreload of mine failed: {failure}" in cell.stderr, cell.shown
    module.write("def answer():\n    return 4444\n")
    assert rank_values(nb, "answer()", 2) == [4444] * 2
    nb.ok("%autoreload 0")
    module.write("def answer():\n    return 55555\n")
    cell = nb.ok("%%distribute\nanswer()")
    assert cell.value == "4444" and "mine.py is newer" in cell.stderr, cell.shown
    nb.ok("%aimport os\n%autoreload 1")
    assert nb.ok("%%distribute\nanswer()").value == "4444", "only what is named"
    nb.ok("%aimport mine")
    assert nb.ok("%%distribute\nanswer()").value == "55555"


def test_ranks_own_autoreload_needs_no_line_about_homes(fresh, module, tmp_path):
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%%distribute -n 2\n%load_ext autoreload\n%autoreload 2\nimport mine")
    for answer in (22, 333):
        module.write(f"def answer():\n    return {answer}\n")
        cell = nb.ok("%%distribute --gather\nmine.answer()")
        assert cell.value == f"[{answer}, {answer}]" and cell.stderr == "", cell.shown
    nb.ok("%%distribute -r 1\n%aimport -mine")
    module.write("def answer():\n    return 4444\n")
    cell = nb.ok("%%distribute --gather\nmine.answer()")
    assert cell.value == "[4444, 333]" and newer(cell) == {1: 1}, "rank 1's leaves it out"


# ---- IPython's options and extensions ------------------------------------------------------------------------------------

EXTENSION = """
def load_ipython_extension(ip):
    ip.user_ns["loaded"] = ip.user_ns.get("loaded", 0) + 1
    ip.register_magic_function(lambda line: "%s: " + line, "line", "%s")
def unload_ipython_extension(ip):
    ip.user_ns["unloaded"] = True
"""


def test_ranks_have_homes_extensions_and_options(fresh, tmp_path):
    profile = tmp_path / "ipython" / "profile_default"
    (profile / "startup").mkdir(parents=True)
    (profile / "startup" / "first.py").write_text("from_startup = 1")
    (profile / "ipython_config.py").write_text(
        "c.InteractiveShell.ast_node_interactivity = 'all'\nc.InteractiveShellApp.extensions = ['early']\n"
        "c.InteractiveShellApp.exec_lines = ['from_line = 1']\nc.PlainTextFormatter.max_seq_length = 3\n")
    for name in ("early", "later"):
        (tmp_path / (name + ".py")).write_text(EXTENSION % (name, name))
    nb = fresh(cwd=str(tmp_path), env={"IPYTHONDIR": str(tmp_path / "ipython")})
    nb.ok("pass")
    cell = nb.ok("%%distribute -n 2\n'one'\n'from_startup' in globals(), 'from_line' in globals()\nlist(range(9))\n%early a")
    shown = cell.shown.replace("\n", " ")
    for text in ("'one'", "(False, False)", "[0, 1, 2, ...]", "early: a"):
        assert text in shown, cell.shown
    nb.ok("%load_ext later\n%config InteractiveShell.ast_node_interactivity = 'last_expr'")
    cell = nb.ok("%%distribute\n'one'\n%later b\nlist(range(9))")
    assert cell.value == "[0, 1, 2, ...]" and "'one'" not in cell.shown, cell.shown
    assert rank_values(nb, "(loaded, get_ipython().run_line_magic('later', 'c'))", 3) == [(2, "later: c")] * 3
    nb.ok("%unload_ext later")
    assert rank_values(nb, "unloaded", 3) == [True] * 3


def test_what_fails_before_the_first_cell_is_named_and_home_goes_on(fresh, tmp_path):
    profile = tmp_path / "ipython" / "profile_default"
    (profile / "startup").mkdir(parents=True)
    config = profile / "ipython_config.py"
    config.write_text(
        "c.InteractiveShellApp.extensions = ['quits', 'interrupts']\nc.InteractiveShellApp.exec_lines = ['raise SystemExit(4)', 'line = file']\n"
        "c.InteractiveShellApp.exec_files = ['ends.py', 'absent.py', 'last.py']\n")
    (profile / "startup" / "00.py").write_text("raise KeyboardInterrupt('in 00')")
    (profile / "startup" / "01.py").write_text("file = 5")
    (tmp_path / "ends.py").write_text("import sys\nsys.exit('from ends')")
    (tmp_path / "last.py").write_text("last = line + 1")
    for name, raised in (("quits", "SystemExit(1)"), ("interrupts", "KeyboardInterrupt")):
        (tmp_path / (name + ".py")).write_text("def load_ipython_extension(ip):\n    raise " + raised)
    env = {"IPYTHONDIR": str(tmp_path / "ipython")}
    nb = fresh(cwd=str(tmp_path), env=env)
    nb.request("complete_request", {"code": "fil", "cursor_pos": 3})  # home is up, before there is a cell
    nb.quiet()
    cell = nb.ok("line, last")
    assert cell.value == "(5, 6)", cell.shown
    for told in ("%load_ext quits: SystemExit: 1", "%load_ext interrupts: KeyboardInterrupt", "KeyboardInterrupt: in 00",
                 "SystemExit: 4", "SystemExit: from ends", "there is no absent.py"):
        assert told in cell.shown, cell.shown
    config.write_text("import sys\nsys.exit(2)")
    nb = fresh(cwd=str(tmp_path), env=env)
    nb.request("complete_request", {"code": "fil", "cursor_pos": 3})  # home is up, and has told
    nb.quiet()
    cell = nb.ok("file")
    assert cell.value == "5" and f"{config}: SystemExit: 2" in cell.stderr, cell.shown
    config.write_text("c.InteractiveShellApp.extensions = 7")
    cell = fresh(cwd=str(tmp_path), env=env).ok("file")
    assert cell.value == "5" and "c.InteractiveShellApp.extensions is a list: TypeError" in cell.stderr, cell.shown


def test_ranks_start_whatever_modules_do_that_were_to_be_imported_beforehand(fresh, tmp_path):
    (tmp_path / "quits.py").write_text("import sys\nsys.exit('no')")
    (tmp_path / "interrupts.py").write_text("raise KeyboardInterrupt")
    log = tmp_path / "log"
    nb = fresh(cwd=str(tmp_path), env={"CELLSPAN_PRELOAD": "-torch,-numpy,quits,interrupts", "PYTHONPATH": str(tmp_path), "CELLSPAN_LOG": f"warn:{log}"})
    assert nb.ok("%%distribute -n 2\n7").value == "7"
    for told in ("quits could not be imported beforehand: SystemExit: no", "interrupts could not be imported beforehand: KeyboardInterrupt"):
        assert told in log.read_text()


@pytest.mark.parametrize("raised, told", [("OSError('not here')", "OSError: not here"), ("SystemExit('not here')", "SystemExit: not here")])
def test_an_extension_that_ranks_cannot_load_is_told_and_the_cell_runs(fresh, tmp_path, raised, told):
    text = f"import os\ndef load_ipython_extension(ip):\n    if 'RANK' in os.environ:\n        raise {raised}\n"
    (tmp_path / "picky.py").write_text(text)
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%%distribute -n 2\npass")
    nb.ok("%load_ext picky")
    cell = nb.ok("%%distribute\n'ran'")
    assert cell.value == "'ran'" and f"%load_ext picky on ranks: {told}" in cell.stderr, cell.shown
    assert nb.ok("%%distribute\n'ran'").stderr == "", "once"


# ---- the root logger -----------------------------------------------------------------------------------------------------

LOGS = "import logging, os\nlogging.getLogger('mine').info('told by %s', os.environ['RANK'])\n"


def told(cell):
    return sorted(line for lines in by_rank(cell.stderr).values() for line in lines)


@pytest.mark.parametrize("layout, style", [("%(run)s %(message)s", "%"), ("{run:>3} {message}", "{"), ("$run $message", "$")])
def test_a_format_with_a_field_that_ranks_lack_is_not_theirs(fresh, layout, style):
    nb = fresh()
    nb.ok("import logging, os\nlogging.basicConfig(level=logging.INFO, format=%r, style=%r)\nclass Adds(logging.Filter):\n"
          "    def filter(self, record):\n        record.run = 7\n        return True\nlogging.getLogger().handlers[0].addFilter(Adds())" % (layout, style))
    cell = nb.ok("%%distribute -n 2\n" + LOGS + "\nlogging.getLogger('mine').info('has it', extra={'run': 8})")
    assert "Logging error" not in cell.stderr and "INFO:mine:told by 0" in told(cell), cell.shown
    assert [line.strip() for line in told(cell)].count("8 has it") == 2, cell.shown


def test_ranks_root_logger_follows_homes_until_a_rank_sets_up_its_own(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\nimport os")
    nb.ok("import logging, os\nlogging.basicConfig(level=logging.INFO)")
    assert told(nb.ok("%%distribute -n 2\n" + LOGS)) == ["INFO:mine:told by 0", "INFO:mine:told by 1"]
    null = "import logging\nlogging.getLogger('mine').addHandler(logging.NullHandler())\n"
    assert told(nb.ok("%%distribute -n 2\n" + null + LOGS)) == ["INFO:mine:told by 0", "INFO:mine:told by 1"], "once, as at home"
    nb.ok("logging.basicConfig(level=logging.INFO, format='{name} says {message}', style='{', force=True)")
    assert told(nb.ok("%%distribute -n 2\n" + LOGS)) == ["mine says told by 0", "mine says told by 1"]
    nb.ok("logging.getLogger().setLevel(logging.WARNING)")
    assert told(nb.ok("%%distribute -n 2\n" + LOGS)) == []
    nb.ok("logging.getLogger().setLevel(logging.DEBUG)")
    own = "import logging\nlogging.basicConfig(level=logging.INFO, format='own %(message)s')\n"
    assert nb.ok("%%distribute -n 2 -r 1\n" + own + LOGS).stderr == "own told by 1\n", "no basicConfig does nothing"
    assert told(nb.ok("%%distribute -n 2\n" + LOGS)) == ["mine says told by 0", "own told by 1"]
    state = "import logging\nlogging.root.level, len(logging.root.handlers)"
    assert nb.ok("%%distribute -n 2 --gather\n" + state).value == "[(10, 1), (20, 1)]"
    add = "h = logging.StreamHandler()\nh.setFormatter(logging.Formatter('added %(message)s'))\nlogging.getLogger().addHandler(h)\n"
    assert nb.ok("%%distribute -n 2 -r 0\n" + add + "logging.getLogger().setLevel(logging.INFO)\n" + LOGS).stderr == "added told by 0\n"


def test_a_handler_that_logging_makes_by_itself_is_no_ranks_own(fresh):
    nb = fresh()
    chooses = "if os.environ['RANK'] == '1':\n    logging.getLogger().setLevel(logging.ERROR)"
    cell = nb.ok("%%distribute -n 2\nimport logging, os\nlogging.warning('by itself')\n" + chooses)
    assert told(cell) == ["WARNING:root:by itself"] * 2
    nb.ok("import logging, os\nlogging.basicConfig(level=logging.INFO, format='%(name)s says %(message)s')")
    assert told(nb.ok("%%distribute -n 2\n" + LOGS)) == ["mine says told by 0"], "rank 1 has chosen its level"
    assert nb.ok("%%distribute -n 2 --gather\nlen(logging.root.handlers)").value == "[1, 1]"


def test_a_home_that_logs_into_a_file_leaves_ranks_alone(fresh, tmp_path):
    nb = fresh()
    nb.ok("import logging\nlogging.getLogger().setLevel(logging.INFO)\nlogging.getLogger().addHandler(logging.FileHandler(%r))" % str(tmp_path / "log"))
    cell = nb.ok("%%distribute -n 2 --gather\n" + LOGS + "logging.root.level, len(logging.root.handlers)")
    assert cell.value == "[(30, 0), (30, 0)]" and cell.stderr == "", cell.shown
