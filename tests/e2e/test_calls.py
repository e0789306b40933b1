"""cellspan.run(): an exception of a rank is raised again at home; what can't be sent is an error before anything runs."""

from __future__ import annotations

import sys

import pytest

OURS = ("_cellspan", "cellspan._worker.calls", "hidden", "api.py", "home.py", "run_code")


@pytest.fixture
def two(nb):
    nb.ok("import cellspan\ncellspan.run(abs, 1, n=2)")
    return nb


def shows_only_theirs(cell):
    assert not [text for text in OURS if text in cell.traceback], cell.traceback


def test_an_exception_of_a_module_is_caught_by_its_class(two):
    cell = two.ok(
        "import json, subprocess\n"
        "def bad(): json.loads('{')\n"
        "try: cellspan.run(bad)\nexcept json.JSONDecodeError as e:\n"
        "    print(isinstance(e, cellspan.RemoteError), e.pos, e.doc, str(e), 'on ranks 0-1 of 2' in e.traceback[0])\n"
        "def ends(): subprocess.run('exit 5', shell=True, check=True)\n"
        "try: cellspan.run(ends)\nexcept subprocess.CalledProcessError as e: print(e, e.returncode, e.cmd)")
    text = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    assert cell.stdout == f"True 1 {{ {text} True\nCommand 'exit 5' returned non-zero exit status 5. 5 exit 5\n"


def test_an_exception_of_the_notebooks_own_is_caught_by_its_class(two):
    cell = two.ok(
        "class Mine(Exception):\n"
        "    class Inner(Exception): pass\n"
        "    def __init__(self, a, *, b): super().__init__(a); self.b = b\n"
        "    def __str__(self): return f'{self.args} and {self.b}'\n"
        "def raises(): raise Mine(1, b={'x': [2]})\n"
        "try: cellspan.run(raises)\nexcept Mine as e: print(e, e.args, e.b, repr(e))\n"
        "def inner(): raise Mine.Inner('in')\n"
        "try: cellspan.run(inner)\nexcept Mine.Inner as e: kept = e; print(e)")
    assert cell.stdout == "(1,) and {'x': [2]} (1,) {'x': [2]} Mine(1)\nin\n"
    assert two.ok("%%distribute\nstr(kept)").value == "'in'"


def test_what_home_does_not_have_is_of_the_class_above_it(two):
    two.ok("%%distribute\nclass Theirs(KeyError): pass\ndef theirs(): raise Theirs('k')")
    cell = two.ok("def calls():\n    import __main__; __main__.theirs()\n"
                  "try: cellspan.run(calls)\nexcept KeyError as e: print(type(e).__name__, e, e.args)")
    assert cell.stdout == "Theirs 'k' ('k',)\n"


def test_the_text_and_the_attributes_are_the_ranks(two):
    cell = two.ok(
        "def b(): '\\xe9'.encode('ascii')\n"
        "try: cellspan.run(b)\nexcept UnicodeEncodeError as e: print(e.start, e.encoding, e)\n"
        "def o(): open('/no such file')\n"
        "try: cellspan.run(o)\nexcept FileNotFoundError as e: print(e.errno, e.filename, e)\n"
        "def d():\n    error = ValueError(object, 'x'); error.lock = print; error.plain = 7; raise error\n"
        "try: cellspan.run(d)\nexcept ValueError as e: print(e.args, hasattr(e, 'lock'), e.plain)")
    assert cell.stdout.splitlines() == [
        "0 ascii 'ascii' codec can't encode character '\\xe9' in position 0: ordinal not in range(128)",
        "2 /no such file [Errno 2] No such file or directory: '/no such file'",
        "(\"(<class 'object'>, 'x')\",) False 7",
    ]


def test_an_exit_of_a_rank_is_a_system_exit_with_its_code(two, tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(4)\n")
    cell = two.ok("import sys\ndef leaves(): sys.exit(3)\n"
                  "for what in (leaves, %r):\n    try: cellspan.run(what)\n    except SystemExit as e: print(e, e.code)"
                  % str(tmp_path / "leaves.py"))
    assert cell.stdout == "3 3\n4 4\n" and not cell.stderr, cell.shown
    cell = two.run("cellspan.run(leaves)").assert_error("SystemExit")
    assert cell.traceback.split() == "SystemExit on ranks 0-1 of 2 SystemExit: 3".split() and not cell.stderr, cell.shown


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups of exceptions")
def test_of_a_group_each_exception_is_of_its_class(two):
    cell = two.ok("import json\ndef many():\n    raise ExceptionGroup('g', [ValueError(1), json.JSONDecodeError('m', 'd', 0)])\n"
                  "try: cellspan.run(many)\nexcept ExceptionGroup as e:\n"
                  "    print(e, [one.args for one in e.split(json.JSONDecodeError)[0].exceptions])")
    assert cell.stdout == "g (2 sub-exceptions) [('m: line 1 column 1 (char 0)',)]\n"


def test_a_traceback_of_a_call_begins_in_the_users_function(two):
    count = two.ok("def f(x):\n    return 1 / x").reply["execution_count"]
    cell = two.run("cellspan.run(f, 0)").assert_error("ZeroDivisionError")
    shows_only_theirs(cell)
    assert f"Cell In[{count}], line 2, in f(x)" in cell.traceback and cell.traceback.count("Cell In") == 1, cell.traceback
    for call, ename, told in (("int, 'x'", "ValueError", "invalid literal"),
                              ("compile, '1+', 'f', 'exec'", "SyntaxError", "invalid syntax")):
        cell = two.run(f"cellspan.run({call})").assert_error(ename)
        shows_only_theirs(cell)
        assert f"{ename} on ranks 0-1 of 2" in cell.traceback and told in cell.traceback, cell.traceback


def test_what_is_for_home_alone_is_not_in_a_cells_error(two):
    cell = two.run("%%distribute\n1 / 0").assert_error("ZeroDivisionError")
    assert "raised" not in cell.error and "raised" not in cell.reply, cell.reply


def test_the_traceback_of_a_refused_call_ends_in_the_users_line(two):
    for call in ("run(3)", "run(abs, 1, 2)", "run(abs, 1, env={'A': 'b\\n'})", "call(abs, (1,), what=3)", "group().pull('a b')"):
        cell = two.run(f"cellspan.{call}")
        assert cell.status == "error" and cell.traceback.count("Cell In") == 1, cell.shown
        shows_only_theirs(cell)
    cell = two.run("try:\n    cellspan.run(int, 'x')\nexcept ValueError:\n    1 / 0").assert_error("ZeroDivisionError")
    shows_only_theirs(cell)


@pytest.mark.parametrize("call, told", [
    ("str, threading.Lock()", "str(): argument 1 can't be sent to the ranks: cannot pickle '_thread.lock' object"),
    ("print, 1, end=threading.Lock()", "print(): argument end= can't be sent to the ranks: cannot pickle"),
    ("holds()", "inner(): the function itself can't be sent to the ranks: cannot pickle"),
])
def test_what_can_not_be_sent_is_one_error_before_anything_runs(two, call, told):
    two.ok("import threading\ndef holds():\n    lock = threading.Lock()\n    def inner(): return lock\n    return inner")
    cell = two.run(f"cellspan.run({call})").assert_error("TypeError")
    assert cell.reply["evalue"].startswith(told) and not cell.stderr and not cell.stdout, cell.shown
    assert f"1 cellspan.run({call})" in cell.traceback, cell.traceback
    shows_only_theirs(cell)
    assert two.ok("cellspan.run(abs, -2)").value == "2"
