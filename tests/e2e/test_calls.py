# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.run(): an exception of a rank is raised again at home; what can't be sent is an error before anything runs."""

from __future__ import annotations

import sys
import time

import pytest

OURS = ("_cellspan", "cellspan._worker.rank_calls", "hidden", "api.py", "home.py", "home_calls.py", "run_code")


@pytest.fixture
def two(nb):
    nb.ok("import cellspan\ncellspan.run(abs, 1, n=2)")
    return nb


def shows_only_theirs(cell):
    assert not [text for text in OURS if text in cell.traceback], cell.traceback


def test_an_exception_of_a_module_is_caught_by_its_class(two):
    text = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    want = f"True 1 {{ {text} %s\nCommand 'exit 5' returned non-zero exit status 5. 5 exit 5\n"

    def alike(cell):
        assert cell.assert_ok().stdout in (want % True, want % False), cell.stdout
        return cell.stdout == want % True

    two.run_until(
        "import json, subprocess\n"
        "def bad(): json.loads('{')\n"
        "try: cellspan.run(bad)\nexcept json.JSONDecodeError as e:\n"
        "    print(isinstance(e, cellspan.RemoteError), e.pos, e.doc, str(e), 'on ranks 0-1 of 2' in e.traceback[0])\n"
        "def ends(): subprocess.run('exit 5', shell=True, check=True)\n"
        "try: cellspan.run(ends)\nexcept subprocess.CalledProcessError as e: print(e, e.returncode, e.cmd)",
        alike)


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
    want = "SystemExit on ranks 0-1 of 2 SystemExit: 3".split()
    cell = two.run_until("cellspan.run(leaves)", lambda cell: cell.assert_error("SystemExit").traceback.split() == want)
    assert not cell.stderr, cell.shown


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
        cell = two.run_until(f"cellspan.run({call})", lambda cell, ename=ename: f"{ename} on ranks 0-1 of 2" in cell.assert_error(ename).traceback)
        shows_only_theirs(cell)
        assert told in cell.traceback, cell.traceback


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


@pytest.mark.parametrize("call, name, first, last", [
    ("cellspan.group().pull('nothing_a')", "NameError", "NameError on ranks 0-1 of 2", "NameError: name 'nothing_a' is not defined"),
    ("cellspan.group().gather('nothing_b')", "NameError", "NameError on ranks 0-1 of 2", "NameError: name 'nothing_b' is not defined"),
    ("cellspan.group().push(k=1, lock_c=threading.Lock())", "CaptureError", "-----", "CaptureError: lock_c was not sent: cannot pickle"),
    ("cellspan.group().scatter('c', [1, threading.Lock()])", "TypeError", "-----", "TypeError: scatter(): the part of rank "),
    ("cellspan.run(os._exit, 3)", "RankDied", "RankDied on ranks 0-1 of 2", "RankDied: rank "),
    ("%pull nothing_d", "NameError", "NameError on ranks 0-1 of 2", "NameError: name 'nothing_d' is not defined"),
])
def test_an_error_without_a_line_of_the_ranks_shows_the_line_that_asks(two, call, name, first, last):
    cell = two.run(f"import os, threading\ny = 1\n{call}\n").assert_error(name)
    lines = cell.traceback.splitlines()
    assert lines[0].startswith(first) and lines[-1].startswith(last), cell.traceback
    line = next(line for line in lines if line.startswith("----> 3 "))
    assert line[8:] == call or call.startswith("%") and "run_line_magic('pull', 'nothing_d')" in line, cell.traceback
    assert sum(line.startswith(last) for line in lines) == 1, cell.traceback
    shows_only_theirs(cell)
    if call[0] != "%":
        cell = two.run(f"def f():\n    return {call}\ntry:\n    f()\nexcept Exception as error:\n    again = error\nraise again").assert_error(name)
        assert cell.traceback.count("----> 2     return " + call) == 1 and "----> 7 raise again" in cell.traceback, cell.traceback


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


# ---- what goes along, and what does not


def test_small_and_large_functions_and_values_are_the_same_to_the_user(two):
    cell = two.ok(
        "import numpy as np\nscale = 3\ndef f(x, k=1): return x * scale * k\n"
        "big = np.arange(300_000.0)\n"
        "print(cellspan.run(f, 2, k=5, n=2, gather=True), cellspan.run(f, 2))\n"
        "r = cellspan.run(f, big, gather=True); print(len(r), all((x == big * 3).all() for x in r))\n"
        "print(cellspan.run(lambda: None, gather=True), cellspan.run(lambda: None))\n"
        "def mixed():\n    import os; return 'x' * (10 if os.environ['RANK'] == '0' else 100_000)\n"
        "print([len(x) for x in cellspan.run(mixed, gather=True)])\n"
        "scale = 4; print(cellspan.run(f, 2))")
    assert cell.stdout == "[30, 30] 6\n2 True\n[None, None] None\n[10, 100000]\n8\n"


def test_what_a_function_changes_of_its_arguments_is_gone_with_the_call(two):
    cell = two.ok("xs = [1]\ndef adds(xs):\n    xs.append(2); return xs\n"
                  "print([cellspan.run(adds, xs) for _ in range(2)], xs)\n"
                  "def reads(): return xs\ncellspan.run(reads)")
    assert cell.stdout == "[[1, 2], [1, 2]] [1]\n"


def test_an_argument_that_shares_memory_with_a_variable_shares_it_on_ranks(two):
    cell = two.ok("import numpy as np\na = np.zeros(2000)\ndef f(b):\n    b[0] = 7; return a[0]\n"
                  "def uses(): return a.sum()\ncellspan.run(uses)\nprint(cellspan.run(f, a))")
    assert cell.stdout == "7.0\n"


GROUPS = "import cellspan._worker.rank as r\n{name: id(bundle) for name, (bundle, _, _) in r.current._call_buffers._of.items()}"


def groups(nb):
    """What rank 0 keeps of large arguments: {name: number of the bundle in which it came}."""
    return nb.ok("%%distribute -r 0-0\n" + GROUPS).value


def test_a_large_argument_goes_to_the_ranks_once_until_home_changes_it(two):
    two.ok("import numpy as np\nbig = np.arange(100_000.0); other = np.ones(100_000)\n"
           "def f(x, y, i):\n    x += i; y[0] = 7; return float(x[0]), float(x[-1])")
    assert two.ok("print([cellspan.run(f, big, other, i) for i in (1, 2)])").stdout == "[(1.0, 100000.0), (2.0, 100001.0)]\n"
    before = groups(two)
    assert before.count("_cellspan_buffers") == 2
    assert two.ok("print(cellspan.run(f, i=5, y=other, x=big), big[0])").stdout == "(5.0, 100004.0) 0.0\n"
    assert groups(two) == before
    assert two.ok("big[0] = 50\nprint(cellspan.run(f, big, other, 1))").stdout == "(51.0, 100000.0)\n"
    after = groups(two)
    assert after != before and after.count("_cellspan_buffers") == 2
    assert two.ok("%ranks restart -r 1\nprint(cellspan.run(f, big, other, 1, gather=True))").stdout == f"{[(51.0, 100000.0)] * 2}\n"
    two.ok("del big, other")
    assert groups(two) == "{}"


def test_a_large_model_and_what_shares_its_memory_are_arguments_as_at_home(two):
    two.ok("import torch\nmodel = torch.nn.Sequential(*[torch.nn.Linear(100, 100) for _ in range(20)])\n"
           "opt = torch.optim.SGD(model.parameters(), lr=1.0)\n"
           "def step(model, opt, x):\n"
           "    before = model[0].bias.sum().item(); model(x).sum().backward(); opt.step()\n"
           "    return before != model[0].bias.sum().item()\n"
           "x = torch.ones(400, 100)")
    assert two.ok("w = model[0].bias.sum().item()\n"
                  "print([cellspan.run(step, model, opt, x) for _ in range(2)], model[0].bias.sum().item() == w)").stdout == "[True, True] True\n"
    assert two.ok("print(cellspan.run(lambda a, b: (a is b, a.flags.writeable), *[np.zeros(50_000)] * 2))").stdout == "(True, True)\n"
    assert two.ok("print(cellspan.run(lambda xs: xs.append(1) or len(xs), list(range(100_000))))").stdout == "100001\n"


def test_a_value_that_home_can_not_load_is_one_error_whatever_its_size(two):
    two.ok("class Bad:\n    def __reduce__(self): return eval, (\"int('no') if 'cellspan._worker.home' in __import__('sys').modules else 1\", {})\n"
           "def f(n): return [Bad(), 'x' * n]")
    for call in ("f, 1", "f, 200_000", "f, 1, gather=True", "f, 200_000, gather=True"):
        cell = two.run(f"cellspan.run({call})").assert_error("ValueError")
        assert cell.reply["evalue"] == "home could not load the value: invalid literal for int() with base 10: 'no'", call
        shows_only_theirs(cell)


def test_true_for_an_option_that_needs_a_value_is_an_error_in_words_of_python(two):
    cell = two.ok("import inspect\nfor name, one in inspect.signature(cellspan.run).parameters.items():\n"
                  "    if one.kind is one.KEYWORD_ONLY and name not in ('init', 'gather'):\n"
                  "        value = 1.5 if one.default is False else True\n"
                  "        try: print(name, 'ran', cellspan.run(abs, -1, **{name: value}))\n"
                  "        except ValueError as error: print(error)")
    told = dict(line.split("=", 1) for line in cell.stdout.splitlines())
    assert told["ranks"] == "True: a rank, a list of ranks, or text such as '0,3-5', is wanted" and told["share"] == "1.5: True or False is wanted"
    assert len(told) > 12 and [name for name, text in told.items() if not text.endswith(" is wanted")] == ["seed"], told


def test_a_conflict_of_an_argument_is_told_in_words(two):
    two.ok("import numpy as np\na = np.zeros(40_000)\ndef f(b):\n    b[0] += 7; return a[0]\ndef uses(): return a.sum()\ncellspan.run(uses)")
    assert two.ok("print(cellspan.run(f, a))").stdout == "7.0\n"
    text = two.run("cellspan.run(f, a)").assert_error("VariableConflict").reply["evalue"]
    assert text == ("an argument of the call shares memory with a, which ranks 0-1 have changed: `%push a` sends home's, "
                    "`%pull a -r 0` fetches rank 0's, and a copy as argument shares nothing")
    assert two.ok("print(cellspan.run(f, a.copy()))").stdout == "7.0\n"
    text = two.run("a[1] = 5\ncellspan.run(f, a)").assert_error("VariableConflict").reply["evalue"]
    assert text.startswith("an argument of the call and a, which share memory, were changed in place at home and by ranks 0-1: `%push a` "), text


def test_what_functions_of_ranks_read_goes_along_with_a_call_that_uses_them(two):
    two.ok("scale = 2\nshift = 0\ndef inner(x): return 'home has another'")
    two.ok("%%distribute\ndef inner(x): return x * scale\ndef rf(x): return inner(x) + shift\nrf(1)")
    two.ok("def through(x): return rf(x)")
    cell = two.ok("scale = 5; shift = 1\nprint(cellspan.run(lambda: rf(3), gather=True))\n"
                  "scale = 6\nprint(cellspan.run(through, 3))\nscale = 7")
    assert cell.stdout == "[16, 16]\n19\n"
    assert two.ok("%%distribute\nthrough(3)").value == "22"
    two.ok("def rf(x): return -x")  # home's own counts from now on
    assert two.ok("cellspan.run(lambda: rf(3))").value == "-3"


def test_hooks_of_ipython_run_around_a_function_too(two):
    two.ok("%%distribute\nran = []\n"
           "get_ipython().events.register('pre_run_cell', lambda info: ran.append('pre'))\n"
           "get_ipython().events.register('post_run_cell', lambda result: ran.append(result.result))")
    two.ok("def five(): return 5\ncellspan.run(five)")
    assert two.ok("%%distribute\nran[-3:-1]").value == "['pre', 5]"


# ---- threads


def test_threads_of_a_cell_that_waits_for_them_may_call(two):
    cell = two.ok(
        "import threading\nbase = 100\nfound = {}\n"
        "def f(x): return x + base\n"
        "def go(x): found[x] = cellspan.run(f, x, gather=True)\n"
        "ts = [threading.Thread(target=go, args=(x,)) for x in range(5)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "found[9] = cellspan.run(f, 9)\nprint(sorted(found.items()))\n"
        "t = threading.Thread(target=lambda: found.update(m=cellspan.map(f, range(3)))); t.start(); t.join(); print(found['m'])")
    assert cell.stdout == f"{[(x, [x + 100] * 2) for x in range(5)] + [(9, 109)]}\n[100, 101, 102]\n"


def test_threads_may_push_the_same_variable(two):
    cell = two.ok("from concurrent.futures import ThreadPoolExecutor\ng = cellspan.group()\nkept = 5\n"
                  "def push(i): g.push(thrown=i, kept=i)\n"
                  "with ThreadPoolExecutor(6) as pool: list(pool.map(push, range(30)))\n"
                  "print('thrown' in globals(), kept, g.pull('thrown') == g.pull('kept'))")
    assert cell.stdout == "False 5 True\n"


def test_cells_run_at_home_while_a_thread_calls(two, gate):
    two.ok("import threading\ndef slow():\n    " + gate.code.replace("\n", "\n    ") + "return 'slow'\n"
           "got = []\nt = threading.Thread(target=lambda: got.append(cellspan.run(slow))); t.start()")
    assert two.ok("got, t.is_alive()").value == "([], True)"
    gate.open()
    two.ok("t.join()")
    assert two.ok("got").value == "['slow']"


def test_an_interrupt_ends_the_call_that_runs_and_those_that_wait(two):
    two.ok("import threading, time\ndef slow():\n    print('runs', flush=True); time.sleep(600)\n"
           "ends = []\ndef go():\n    try: cellspan.run(slow)\n    except KeyboardInterrupt: ends.append(1)\n")
    cell = two.start("ts = [threading.Thread(target=go) for _ in range(2)]\n[t.start() for t in ts]\nprint('started', flush=True)\ncellspan.run(slow)")
    two.wait_shown(cell, "runs")
    two.wait_shown(cell, "started")  # the first thread's call may run before the second thread is there
    two.control("interrupt_request")
    two.wait(cell)
    assert cell.ename == "KeyboardInterrupt"
    for _ in range(60):  # a thread may only now come to its call
        if two.ok("[t.join(0.5) for t in ts]; len(ends)").value == "2":
            return
        two.control("interrupt_request")
    pytest.fail("a call of a thread goes on after interrupts")


def test_an_interrupt_is_for_the_cell_also_while_a_threads_call_begins(two, gate):
    two.ok("import threading, time\nasked = threading.Event()\n"
           "class Slow:\n    def __reduce__(self):\n        asked.set()\n        " + gate.code.replace("\n", "\n        ") + "return int, ()\n"
           "slow = Slow()\nt = threading.Thread(target=get_ipython().run_cell_magic, args=('distribute', '', 'slow'))")
    cell = two.start("t.start(); asked.wait(60); print('waits', flush=True)\ntime.sleep(600)")
    two.wait_shown(cell, "waits")
    two.control("interrupt_request")
    assert two.wait(cell).ename == "KeyboardInterrupt"
    gate.open()
    two.ok("t.join(30)")
    assert two.ok("t.is_alive(), cellspan.run(abs, -2)").value == "(False, 2)"


def test_home_outlives_interrupts_of_calls_with_large_arguments(two):
    two.ok("import gc, numpy as np\nbig = np.zeros(40_000_000, dtype='u1')\ndef f(a, b=None, c=()): return len(a)\ncellspan.run(f, big)")
    for k in range(8):
        cell = two.start("x = big + 1, [big + 2, big + 3]\ncellspan.run(f, big, b=x[0], c=x[1])")
        two.until(lambda cell=cell: cell.busy_at, 60)
        time.sleep(0.06 + 0.015 * k)
        two.control("interrupt_request")
        assert two.wait(cell).ename in ("KeyboardInterrupt", None)
        two.ok("_ = gc.collect()")
    assert two.ok("len(big)").value == "40000000"
