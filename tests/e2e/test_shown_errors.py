# SPDX-License-Identifier: BSD-3-Clause
"""What shows an error never replaces it: whatever an exception's class does, however deep its traceback is and whatever the process
lacks, its name, its text and the user's frames come, in the reply and as an `error` message."""

from __future__ import annotations

import os
import re
import resource

import processes
import pytest

LIMIT = 120  # seconds, far off
MOST = 100_000  # bytes
WHERE = pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"], ids=["home", "ranks"])

IN_TURN = (
    "import sys\nsys.setrecursionlimit(20000)\n"
    "def pong(n):\n    return ping(n + 1)\n"
    "def innermost(n):\n    raise RecursionError(f'at {n}')\n"
    "def ping(n):\n    return pong(n + 1) if n < %d else innermost(n)\n"
    "def outermost():\n    ping(0)\n"
    "outermost()"
)
ENDLESS_TEXT = (
    "import time\nclass Slow(Exception):\n    def __str__(self):\n        while True:\n            time.sleep(0.01)\n"
    "def thrower():\n    raise Slow\nthrower()"
)


def fails(nb, code, ename):
    """The cell's one error, which is the same in the reply and as a message."""
    cell = nb.run(code, LIMIT).assert_error(ename)
    assert cell.error["ename"] == cell.reply["ename"] == ename, cell.reply
    assert cell.error["evalue"] == cell.reply["evalue"] and cell.error["traceback"] == cell.reply["traceback"], cell.reply
    assert len("\n".join(cell.error["traceback"]).encode()) < MOST
    return cell


@WHERE
@pytest.mark.parametrize("code, ename", [("assert 1 == 2", "AssertionError"), ("raise KeyboardInterrupt", "KeyboardInterrupt")])
def test_an_exception_without_text_has_none(nb, where, code, ename):
    cell = fails(nb, where + code, ename)
    assert cell.error["evalue"] == "" and "str() failed" not in "".join(cell.error["traceback"]), cell.error


@WHERE
def test_an_exception_without_text_whose_traceback_cannot_be_formatted(nb, where):
    render = "class Odd(Exception):\n    def _render_traceback_(self):\n        1/0\nraise Odd"
    cell = fails(nb, where + render, "Odd")
    assert cell.error["evalue"] == "" and cell.error["traceback"][-1] == "Odd", cell.error


@WHERE
@pytest.mark.parametrize("depth", [200, 15000])
def test_functions_that_call_each_other(fresh, where, depth):
    cell = fails(fresh(), where + IN_TURN % depth, "RecursionError")
    assert "at %d" % depth in cell.reply["evalue"]
    for name in ("outermost", "innermost", "ping at line", "pong at line"):
        assert name in cell.traceback, cell.traceback
    assert "shell.py" not in cell.traceback and "time_limit.py" not in cell.traceback, cell.traceback


@WHERE
def test_functions_that_call_each_other_for_ever(fresh, where):
    """Python itself ends them, with a traceback of 20,000 frames of which no two neighbours are alike."""
    code = IN_TURN.replace("if n < %d else innermost(n)", "")
    cell = fails(fresh(), where + code, "RecursionError")
    assert "maximum recursion depth exceeded" in cell.reply["evalue"] and "outermost()" in cell.traceback, cell.traceback
    assert cell.traceback.count("pong(n + 1)") > 1 and cell.traceback.rstrip().splitlines()[-1].startswith("RecursionError: "), cell.traceback
    assert "shell.py" not in cell.traceback and "time_limit.py" not in cell.traceback, cell.traceback


@WHERE
def test_source_lines_that_cannot_be_read_in_time(fresh, tmp_path, where):
    """As on a disk that hangs: the file of a frame is a pipe by now, to which nobody writes."""
    module = tmp_path / "from_a_slow_disk.py"
    module.write_text("def of_the_module(call):\n    return call()\n")
    own = fresh()
    own.ok(where + "import sys\nsys.path.insert(0, %r)\nimport from_a_slow_disk\ndef innermost():\n    raise ValueError('why')\n"
                   "def outermost():\n    from_a_slow_disk.of_the_module(innermost)" % str(tmp_path))
    module.unlink()
    os.mkfifo(module)
    for _ in range(2):
        cell = fails(own, where + "outermost()", "ValueError")
        assert cell.reply["evalue"] == "why" and cell.traceback.rstrip().endswith("ValueError: why"), cell.traceback
        for name in ("in outermost", "in of_the_module", "in innermost"):
            assert name in cell.traceback, cell.traceback
    own.ok(where + "2")


@WHERE
def test_an_exception_whose_text_never_comes(nb, where):
    cell = fails(nb, where + ENDLESS_TEXT, "Slow")
    assert "<str() failed>" in cell.traceback and "thrower" in cell.traceback, cell.traceback
    nb.run(where + "1 / 0", LIMIT).assert_error("ZeroDivisionError")


@WHERE
@pytest.mark.parametrize("body, text", [
    ("def __getattribute__(self, name):\n        raise RuntimeError('no ' + name)", "why"),
    ("def __getattr__(self, name):\n        return getattr(self.inner, name)", "why"),
    ("__traceback__ = __cause__ = __context__ = __notes__ = 5", "why"),
    ("@property\n    def __class__(self):\n        raise ValueError", "why"),
    ("def __str__(self):\n        raise ValueError", "<str() failed>"),
    ("def __str__(self):\n        return 3", "<str() failed>"),
], ids=["getattribute", "getattr", "parts", "class", "str", "number"])
def test_an_exception_whose_class_is_broken(nb, where, body, text):
    code = "class Odd(Exception):\n    %s\ndef thrower():\n    raise Odd('why')\n" % body
    cell = fails(nb, where + code + "thrower()", "Odd")
    assert cell.error["evalue"] == text and "Odd: " + text in cell.traceback and "in thrower" in cell.traceback, cell.error
    cell = fails(nb, where + code + "try:\n    thrower()\nfinally:\n    1 / 0", "ZeroDivisionError")
    assert "Odd" in cell.traceback and "in thrower" in cell.traceback, cell.traceback


@WHERE
def test_a_chain_of_many_exceptions(nb, where):
    code = ("error = None\nfor i in range(3000):\n    try:\n        try:\n            if error: raise error\n        finally:\n"
            "            raise ValueError(f'number {i}')\n    except ValueError as one:\n        error = one\nraise error")
    cell = fails(nb, where + code, "ValueError")
    for i in (0, 2999):
        assert "number %d\n" % i in cell.traceback + "\n", cell.traceback
    assert "are left out" in cell.traceback, cell.traceback


@WHERE
def test_a_long_text_is_shown_in_part(nb, where):
    cell = fails(nb, where + "raise ValueError('first ' + 'x' * 3_000_000 + ' last')", "ValueError")
    for text in (cell.reply["evalue"], cell.traceback):
        assert "first xx" in text and "xx last" in text and "characters are left out" in text


@WHERE
def test_without_memory_and_threads(fresh, where):
    """No thread, and no large allocation."""
    own = fresh()
    own.ok(where + "import resource\nnow = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
             "import _thread\ndef none(*args, **named): raise RuntimeError(\"can't start new thread\")\n"
             "_thread.start_new_thread = _thread.start_joinable_thread = none\n"
             "resource.setrlimit(resource.RLIMIT_AS, (now + (16 << 20),) * 2)")
    for _ in range(2):
        fails(own, where + "x = bytearray(1 << 30)", "MemoryError")
        cell = fails(own, where + "1 / 0", "ZeroDivisionError")
        assert "1 / 0" in cell.traceback, cell.traceback


@pytest.mark.parametrize("value", ["b'x' * (96 << 20)", "['y' * (96 << 20)]", "__import__('numpy').ones(12 << 20)"], ids=["bytes", "text", "array"])
def test_values_that_do_not_fit_into_a_ranks_memory(nb, value):
    nb.ok("%%distribute -n 2\nimport resource\nnow = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
          "before = resource.getrlimit(resource.RLIMIT_AS)\nresource.setrlimit(resource.RLIMIT_AS, (now + (16 << 20), before[1]))")
    nb.ok("of_home = " + value)
    cell = fails(nb, "%%distribute\nlen(of_home)", "MemoryError")
    assert re.match(r"96[.\d]* MiB of values do not fit into the memory of this process: .*ulimit -v", cell.reply["evalue"]), cell.reply
    assert "vars_bundle.py" not in cell.traceback and "rank.py" not in cell.traceback, cell.traceback
    nb.ok("%%distribute\nresource.setrlimit(resource.RLIMIT_AS, before)")
    assert nb.ok("%%distribute\nlen(of_home) > 0").value == "True"


def test_values_that_do_not_fit_into_homes_memory(fresh):
    """Not those that come, nor copies of those that go."""
    nb = fresh()
    nb.ok("%%distribute -n 2\nof_ranks = 'x' * (96 << 20)")
    nb.ok("import cellspan, resource\nof_home = 'x' * (96 << 20)\nnow = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
          "resource.setrlimit(resource.RLIMIT_AS, (now + (16 << 20), resource.RLIM_INFINITY))")
    for code, ename in (("%pull of_ranks -r 0", "MemoryError"), ("cellspan.run(lambda: 'y' * (96 << 20), ranks=[0])", "MemoryError"),
                        ("%push of_home", "CaptureError"), ("cellspan.run(len, of_home)", "TypeError"), ("cellspan.map(len, [of_home])", "TypeError")):
        said = fails(nb, code, ename).reply["evalue"]
        want = r"96[.\d]* MiB of values do not fit into the memory of this process" if ename == "MemoryError" else "there is no memory for its pickle"
        assert re.search(want + ": .*ulimit -v", said), said
    cell = nb.run("%%distribute\nlen(of_home)", LIMIT)
    assert "of_home was not sent: MemoryError: there is no memory for its pickle: " in cell.shown, cell.shown


@WHERE
def test_where_the_system_gives_no_thread(fresh, where):
    """As in a container with a limit of processes: not only Python's functions refuse. Root has no such limit."""
    own = fresh()
    own.ok(where + "import os, resource, threading\nif not os.geteuid():\n    os.setgid(65534)\n    os.setuid(65534)\n"
                   "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))")
    fails(own, where + "threading.Thread(target=print).start()", "RuntimeError")
    cell = fails(own, where + "def outermost():\n    return {}['no']\noutermost()", "KeyError")
    assert cell.reply["evalue"] == "'no'" and "outermost()" in cell.traceback and "in outermost" in cell.traceback, cell.traceback
    cell = fails(own, where + ENDLESS_TEXT, "Slow")
    assert "<str() failed>" in cell.traceback and "thrower" in cell.traceback, cell.traceback


@WHERE
def test_an_interrupt_while_an_error_is_formatted(nb, where):
    nb.run(where + "class Slow(Exception):\n    def __str__(self):\n        import time\n        print('in', flush=True)\n"
           "        time.sleep(1)\n        return 'slow'", LIMIT)
    cell = nb.start(where + "raise Slow")
    nb.wait_shown(cell, "in", LIMIT)
    nb.km.interrupt_kernel()
    nb.wait(cell, LIMIT).assert_error("Slow")
    nb.ok(where + "2")


def test_the_debugger_at_an_error_has_no_time_limit(nb):
    nb.ok("%pdb on")
    try:
        cell = nb.run("1 / 0", LIMIT, answer=["import time; time.sleep(7)", "p 'still', 'here'", "q"])
        assert "('still', 'here')" in cell.stdout, cell.shown
    finally:
        nb.ok("%pdb off")


@WHERE
def test_a_library_that_shows_errors_itself(fresh, where):
    """What it shows is not ours to count. What it can't show we do."""
    nb = fresh()
    nb.ok(where + "import rich.traceback\nrich.traceback.install()\nNone", LIMIT)
    cell = fails(nb, where + ENDLESS_TEXT, "Slow")
    assert "thrower" in cell.traceback, cell.traceback
    cell = nb.start(where + "class Slow(Exception):\n    def __str__(self):\n        import time\n        print('in', flush=True)\n"
                            "        time.sleep(1)\n        return 'slow'\nraise Slow")
    nb.wait_shown(cell, "in", LIMIT)
    nb.km.interrupt_kernel()
    cell = nb.wait(cell, LIMIT).assert_error("Slow")
    assert "Slow: slow" in cell.shown, cell.shown
    cell = nb.start(where + "def waits():\n    import time\n    print('waits', flush=True)\n    while True:\n        time.sleep(0.01)\nwaits()")
    nb.wait_shown(cell, "waits", LIMIT)
    nb.km.interrupt_kernel()
    cell = nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "in waits" in cell.shown and cell.shown.rstrip().splitlines()[-1].startswith("KeyboardInterrupt"), cell.shown
    nb.run(where + IN_TURN % 300, LIMIT).assert_error("RecursionError")
    nb.ok(where + "2")


@pytest.mark.parametrize("end", ["sys.exit(3)", "sys.exit('done')", "raise SystemExit"])
def test_an_exit_on_ranks_brings_no_hint_on_how_to_leave_ipython(nb, end):
    cell = nb.run("%%distribute -n 2\nimport sys\n" + end, LIMIT).assert_error("SystemExit")
    assert "Ctrl-D" not in cell.shown and "UserWarning" not in cell.shown, cell.shown


def test_ranks_that_a_limit_keeps_from_starting_name_it(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 1\n1")
    nb.ok("%ranks stop")
    zygote, = [pid for pid in processes.marked(nb.marker) if " zygote " in processes.command(pid)]
    pages = int(processes.read(zygote, "statm").split()[0])
    resource.prlimit(zygote, resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), resource.RLIM_INFINITY))
    cell = nb.run("%%distribute -n 2\n1", LIMIT).assert_error("RankNotStarted")
    assert "RLIMIT_AS, ulimit -v" in cell.reply["evalue"] and "runpy" not in cell.shown, cell.shown
    resource.prlimit(zygote, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 2\n1")


def test_a_crash_shows_the_users_lines_and_few_of_c(nb):
    cell = nb.run("%%distribute -n 2\nimport ctypes\ndef crashes():\n    return ctypes.string_at(0)\ncrashes()", LIMIT).assert_error("RankDied")
    lines = cell.traceback.splitlines()
    user = next(k for k, line in enumerate(lines) if "in crashes" in line)
    frames = [k for k, line in enumerate(lines) if "[0x" in line]
    assert user < frames[0] and len(frames) == 10 and "%ranks logs shows all of it" in cell.traceback, cell.traceback
    assert "gsignal" not in cell.traceback and "_link.abi3.so" not in cell.traceback, cell.traceback
    logged = nb.ok("%ranks logs -r 0").shown
    assert "in crashes" in logged and logged.count("[0x") > 10, logged


def test_the_last_error_is_there_in_the_next_cell(nb):
    """But not what the functions that failed had in their variables."""
    nb.run("%%distribute -n 2\nimport weakref\nclass Large:\n    pass\ndef fails():\n    large = Large()\n    global ref\n"
           "    ref = weakref.ref(large)\n    raise ValueError('mine')\nfails()", LIMIT).assert_error("ValueError")
    cell = nb.ok("%%distribute -n 2\nimport sys, traceback\n"
                 "print(sys.last_type.__name__, sys.last_value, traceback.extract_tb(sys.last_traceback)[-1].name, ref(),\n"
                 "      getattr(sys, 'last_exc', sys.last_value) is sys.last_value)")
    assert "ValueError mine fails None True" in cell.stdout, cell.stdout
    nb.ok("%ranks free")
    assert "False" in nb.ok("%%distribute -n 2\nprint(hasattr(sys, 'last_value'))").stdout
