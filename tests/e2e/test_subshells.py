# SPDX-License-Identifier: BSD-3-Clause
"""Subshells (JEP 91): threads of home that run cells beside the main shell's."""

from __future__ import annotations

import re
import uuid

import pytest
from processes import wait_until

COMM = """
import comm
got = []
def target(opened, message):
    opened.on_msg(lambda m: got.append(m["content"]["data"]))
comm.get_comm_manager().register_target("t", target)
"""


class Subshell:
    """A subshell as a client uses it."""

    def __init__(self, nb):
        self.nb = nb
        self.id = nb.control("create_subshell_request")["subshell_id"]

    def start(self, code, answer=None, kind="execute_request", **options):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                   "allow_stdin": answer is not None, "stop_on_error": True, **options}
        return self.nb.send(kind, content, answer=answer, header={"subshell_id": self.id})

    def run(self, code, limit=60, **options):
        return self.nb.wait(self.start(code, **options), limit)

    def ok(self, code, limit=60, **options):
        return self.run(code, limit, **options).assert_ok()

    def ask(self, kind, content):
        return self.nb.request(kind, content, header={"subshell_id": self.id})

    def delete(self):
        return self.nb.control("delete_subshell_request", {"subshell_id": self.id})


@pytest.fixture
def sub(nb):
    subshell = Subshell(nb)
    yield subshell
    subshell.delete()


def listed(nb):
    return nb.control("list_subshell_request")["subshell_id"]


def test_clients_make_list_and_delete_them(nb):
    assert "kernel subshells" in nb.info["supported_features"] and nb.info["protocol_version"] == "5.5"
    before = listed(nb)
    nb.ok("import threading\ndef count(): return sum(t.name.startswith('subshell-') for t in threading.enumerate())")
    a, b = Subshell(nb), Subshell(nb)
    assert listed(nb) == [*before, a.id, b.id]
    assert nb.ok("count()").value == "2"
    assert a.delete() == {"status": "ok"} == b.delete()
    assert nb.ok("count()").value == "0"
    assert listed(nb) == before
    assert nb.control("delete_subshell_request", {"subshell_id": a.id})["status"] == "error"
    gone = a.run("1")
    assert gone.ename == "UnknownSubshellError" and "create another" in str(gone.reply["traceback"]) and not gone.error


def test_cells_run_while_the_main_shell_does(nb, sub, gate):
    main = nb.start("here = 'main'\nprint('begun')\n" + gate.code + "here, threading.current_thread().name")
    nb.wait_shown(main, "begun")
    one = sub.ok("import threading\nhere, threading.current_thread().name")
    assert one.value == repr(("main", "subshell-" + sub.id))
    sub.ok("import threading; here = 'sub'")
    gate.open()
    nb.wait(main).assert_ok()
    assert "'sub'" in main.value and "MainThread" in main.value, main.shown
    assert main.reply["execution_count"] < one.reply["execution_count"]


def test_text_displays_results_and_errors_stand_under_their_own_cells(nb, sub, gate):
    main = nb.start("import time\n" + gate.code.replace("    time", "    print('main'); time") + "6 * 7")
    cell = sub.run("from IPython.display import HTML, display\nimport sys\nprint('one'); print('two', file=sys.stderr)\n"
                   "display(HTML('<b>'), display_id='d'); print('three')\n1 / 0")
    assert cell.ename == "ZeroDivisionError" and "1 / 0" in cell.traceback
    assert cell.kinds == ["execute_input", "stream", "stream", "display_data", "stream", "error"], cell.kinds
    assert cell.stdout == "one\nthree\n" and cell.stderr == "two\n"
    assert sub.ok("print('four');\n'five'").value == "'five'"
    nb.wait(main, until=lambda: "main" in main.stdout)
    gate.open()
    nb.wait(main).assert_ok()
    assert set(main.stdout.split()) == {"main"} and main.value == "42" and not main.error


def test_two_that_print_at_once(nb, sub):
    other = Subshell(nb)
    text = "for i in range(3000): print('%s', i)"
    cells = [each.start(text % name) for each, name in ((sub, "a"), (other, "b"))] + [nb.start(text % "c")]
    for cell, name in zip(cells, "abc"):
        nb.wait(cell).assert_ok()
        assert cell.stdout == "".join(f"{name} {i}\n" for i in range(3000))
    other.delete()


def test_threads_and_commands_of_a_cell_write_under_it(nb, sub, gate):
    main = nb.start(gate.code)
    cell = sub.ok("import threading\nt = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n"
                  "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p: p.submit(print, 'pool').result()\n"
                  "!echo out; echo err >&2; exit 3\n_exit_code")
    assert sorted(cell.stdout.split()) == ["out", "pool", "thread"] and cell.stderr == "err\n" and cell.value == "3"
    late = sub.ok("def later():\n    while not flag: time.sleep(0.01)\n    print('late')\n"
                  "import time; flag = False; t = threading.Thread(target=later); t.start()")
    gate.open()
    nb.wait(main).assert_ok()
    nb.ok("flag = True; t.join(); print('mine')")
    nb.until(lambda: late.stdout, 60)
    assert late.stdout == "late\n"


def test_input_asks_the_client_of_the_cell(nb, sub, gate):
    cell = sub.ok("a = input('name? ')\nimport getpass\nb = getpass.getpass('word? ')\na, b", answer=["x", "y"])
    assert cell.value == "('x', 'y')" and [p["password"] for p in cell.prompts] == [False, True]
    assert sub.run("input()").ename == "StdinNotImplementedError"
    asks = sub.start("input('sub? ')", answer=lambda prompt: None)
    nb.until(lambda: asks.prompts, 60)
    nb.ok("'the main shell begins a cell meanwhile'")
    nb.kc.input("kept")
    assert nb.wait(asks).value == "'kept'"


def test_what_is_shared_and_what_is_not(nb, sub):
    cell = sub.ok("ip = get_ipython(); mine = 5; mine")
    assert nb.ok("mine, get_ipython() is ip, _").value == "(5, True, 5)"
    count = cell.reply["execution_count"]
    assert nb.ok(f"In[{count}], Out[{count}]").value == repr(("ip = get_ipython(); mine = 5; mine", 5))
    assert nb.ok("type(get_ipython()).__name__").value == "'ZMQInteractiveShell'"
    tail = sub.ask("history_request", {"hist_access_type": "tail", "n": 10, "output": False, "raw": True})["history"]
    assert any("mine = 5" in row[2] for row in tail), tail
    assert "mine" in sub.ask("complete_request", {"code": "min", "cursor_pos": 3})["matches"]
    assert sub.ask("inspect_request", {"code": "mine", "cursor_pos": 4, "detail_level": 0})["found"]
    assert sub.ask("is_complete_request", {"code": "if 1:"})["status"] == "incomplete"
    cell = sub.ok("get_ipython().set_next_input('next')", user_expressions={"x": "mine + 1"})
    assert cell.payloads[0]["text"] == "next" and cell.reply["user_expressions"]["x"]["data"]["text/plain"] == "6"
    assert not nb.ok("1").payloads
    count = sub.run("silent = 1", silent=True).reply["execution_count"]
    assert nb.ok("silent").reply["execution_count"] == count + 1


def test_a_cell_awaits_and_its_tasks_go_on(nb, sub, gate):
    main = nb.start(gate.code)
    cell = sub.ok("import asyncio\nasync def ticks():\n    for i in range(3): print('tick', i); await asyncio.sleep(0.01)\n"
                  "task = asyncio.create_task(ticks()); await asyncio.sleep(0.001); 'first'")
    assert cell.value == "'first'"
    assert sub.ok("await task; task.done(), asyncio.get_running_loop() is task.get_loop()").value == "(True, True)"
    nb.until(lambda: "tick 2" in cell.stdout, 60)
    assert cell.stdout == "tick 0\ntick 1\ntick 2\n", cell.stdout
    gate.open()
    nb.wait(main).assert_ok()


def test_an_error_aborts_only_the_cells_behind_it(nb, sub, gate):
    fails, behind = sub.start(gate.code + "1 / 0"), sub.start("1")
    main = nb.start("'main'")
    nb.wait(main).assert_ok()
    gate.open()
    assert nb.wait(fails).status == "error" and nb.wait(behind).status == "aborted"
    assert sub.ok("2").value == "2"


@pytest.mark.parametrize("code", [
    "while True: pass", "import time\nwhile True: time.sleep(0.02)", "import asyncio\nawait asyncio.sleep(1000)", "input('? ')",
    "!sleep 1000", "import threading\nwhile not threading.Event().wait(0.02): pass"])
def test_an_interrupt_ends_it_where_the_main_shell_is_idle(nb, sub, code):
    cell = sub.start("print('begun', flush=True)\n" + code, answer=lambda prompt: None)
    nb.until(lambda: cell.stdout and ("input" not in code or cell.prompts), 60)
    nb.km.interrupt_kernel()
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert sub.ok("1 + 1").value == "2"


def test_an_interrupt_is_for_the_main_shell_first(nb, sub, gate):
    cell = sub.start("print('begun', flush=True)\n" + gate.code + "'whole'")
    main = nb.start("import time\nprint('begun', flush=True)\ntime.sleep(1000)")
    nb.until(lambda: cell.stdout and main.stdout, 60)
    nb.km.interrupt_kernel()
    nb.wait(main).assert_error("KeyboardInterrupt")
    gate.open()
    assert nb.wait(cell).assert_ok().value == "'whole'"


def test_deleted_in_mid_cell(nb, gate):
    sub = Subshell(nb)
    cell, behind = sub.start("print('begun', flush=True)\n" + gate.code + "print('end')\n'whole'"), sub.start("1")
    nb.until(lambda: cell.stdout, 60)
    assert sub.delete() == {"status": "ok"} and sub.id not in listed(nb)
    assert nb.wait(behind).status == "aborted"
    gate.open()
    assert nb.wait(cell).assert_ok().value == "'whole'" and "end" in cell.stdout
    assert nb.ok("import time\nuntil = time.monotonic() + 10\n"
                 f"while any(t.name == 'subshell-{sub.id}' for t in threading.enumerate()) and time.monotonic() < until: time.sleep(0.01)\n"
                 f"any(t.name == 'subshell-{sub.id}' for t in threading.enumerate())").value == "False"


def test_an_endless_loop_that_is_deleted_ends_with_an_interrupt(nb):
    sub = Subshell(nb)
    cell = sub.start("print('begun', flush=True)\nwhile True: pass")
    nb.until(lambda: cell.stdout, 60)
    sub.delete()
    assert nb.ok("'lives'").value == "'lives'"
    nb.km.interrupt_kernel()
    nb.wait(cell).assert_error("KeyboardInterrupt")


def test_fifty_of_them(nb):
    subs = [Subshell(nb) for _ in range(50)]
    nb.ok("import threading; barrier = threading.Barrier(50)")
    cells = [sub.start(f"print('sub', {k}); barrier.wait(30); {k}") for k, sub in enumerate(subs)]
    for k, cell in enumerate(cells):
        nb.wait(cell).assert_ok()
        assert cell.value == str(k) and cell.stdout == f"sub {k}\n"
    numbers = [cell.reply["execution_count"] for cell in cells]
    assert len(set(numbers)) == 50
    for sub in subs:
        sub.delete()


def test_it_outlives_its_home(fresh, gate):
    nb = fresh()
    sub = Subshell(nb)
    main = nb.start("import time; time.sleep(1000)")
    dies = sub.start(gate.code + "os._exit(3)")
    behind = sub.start("1")
    assert nb.request("kernel_info_request")["status"] == "ok"  # so the kernel has read what was sent before
    gate.open()
    assert nb.wait(dies).status == "error" and nb.wait(main).status == "error"
    assert nb.wait(behind).status == "aborted"
    assert nb.until(lambda: f"subshell list: ['{sub.id}']" in nb.ok("%subshell").stdout, 60)
    assert sub.ok("import threading; threading.current_thread().name").value == repr("subshell-" + sub.id)
    assert nb.ok("2").value == "2"


def test_the_kernel_restarts_while_a_cell_runs(fresh):
    nb = fresh()
    sub = Subshell(nb)
    cell = sub.start("print('begun', flush=True)\nimport time; time.sleep(1000)")
    nb.until(lambda: cell.stdout, 60)
    nb.km.restart_kernel(now=False)
    nb.ready()
    assert listed(nb) == []
    assert nb.ok("1 + 1").value == "2"
    assert sub.run("1").ename == "UnknownSubshellError"
    assert Subshell(nb).ok("3").value == "3"


def test_a_distributed_cell(nb, sub, gate):
    main = nb.start(gate.code + "'main'")
    sub.ok("big = list(range(100_000)); small = 3")
    cell = sub.ok("# a comment\n\n%%distribute -n 2 --gather\nprint('rank', small)\nimport string\nsum(big) + string.digits if 0 else sum(big)")
    total = sum(range(100_000))
    assert cell.value == str([total, total]) and cell.stdout.count("rank 3") >= 1
    assert sub.ok("_").value == str([total, total])
    assert sub.ok("import cellspan\ncellspan.run(lambda: small + 1, n=2)").value in ("4", "[4, 4]")
    failed = sub.run("%%distribute -n 2\n1 / 0")
    assert failed.ename == "ZeroDivisionError" and failed.error
    assert "rank" in sub.ok("%ranks").shown
    gate.open()
    nb.wait(main).assert_ok()
    assert nb.ok("%%distribute -n 2\nsmall").value == "3"


def test_a_distributed_cell_shows_what_it_shows_in_the_main_shell(nb, sub):
    assert nb.ok("%%distribute -n 2 --into z --gather\nimport cellspan\ncellspan.rank()").value == "[0, 1]"
    cell = sub.ok("%%distribute -n 2 --into y --gather\nimport cellspan\ncellspan.rank()")
    assert cell.value == "[0, 1]" and nb.ok("y").value == "[0, 1]"
    assert sub.ok("%%distribute --into x\ncellspan.rank() + 5").value == "5" and sub.ok("_").value == "5"
    cell = sub.ok("%%distribute --into x\npass")
    assert cell.stdout == cell.stderr == "" and not cell.displays_of_code and cell.value is None, cell.shown
    for where in (nb, sub):
        cell = where.start("%%distribute\nimport time\nprint('go'); time.sleep(1000)")
        nb.wait_ranks(cell, "go", 2)
        nb.km.interrupt_kernel()
        nb.wait(cell).assert_error("KeyboardInterrupt")
        assert "on ranks 0-1 of 2" in cell.traceback and "time.sleep(1000)" in cell.traceback, cell.traceback
        assert "magics.py" not in cell.traceback and "run_cell_magic" not in cell.traceback, cell.traceback


def test_a_deletion_does_not_hold_up_the_others(nb, sub, tmp_path):
    nb.ok("import asyncio, pathlib\nasync def stays(begun):\n    while True:\n        try: await asyncio.sleep(1000)\n"
          "        except asyncio.CancelledError: begun.touch()")
    sub.ok("1")
    at = []

    def meanwhile():
        """The deletion goes on for 2 s after it has begun; on a busy machine the cell may take longer."""
        slow, begun = Subshell(nb), tmp_path / ("begun%d" % len(at))
        slow.ok("task = asyncio.create_task(stays(pathlib.Path(%r))); await asyncio.sleep(0.01)" % str(begun))
        deletion = nb.send("delete_subshell_request", {"subshell_id": slow.id}, "control")
        assert nb.until(begun.exists)
        cell = sub.ok("2")
        nb.wait(deletion, until=lambda: deletion.reply_message)
        at.append([each.reply_message["header"]["date"] for each in (cell, deletion)])
        return cell.value == "2" and at[-1][0] < at[-1][1]

    assert wait_until(meanwhile, 30), at


def test_a_distributed_cell_waits_for_the_group(nb, sub, gate):
    nb.ok("%%distribute -n 2\n1")
    main = nb.start("%%distribute -n 2\nprint('begun')\n" + gate.code + "'main'")
    nb.wait_ranks(main, "begun", 2)
    waits = sub.start("%%distribute -n 2\n'sub'")
    assert not nb.until(lambda: waits.ended, 0.5)
    gate.open()
    assert nb.wait(main).assert_ok().value == "'main'" and nb.wait(waits).assert_ok().value == "'sub'"


def test_what_a_distributed_cell_waits_for(nb, sub, gate):
    from test_calls_at_once import waits_of

    nb.ok("%%distribute -n 2\n1")
    main = nb.start("%%distribute -n 2\nprint('begun')\n" + gate.code + "'main'")
    nb.wait_ranks(main, "begun", 2)
    waits = sub.start("%%distribute -n 2\nprint('begun')\nimport time\ntime.sleep(600)")
    nb.wait(waits, until=lambda: re.match(r"waiting for In \[\d+\] on ranks 0-1 \(0:", waits_of(waits)))
    gate.open()
    assert nb.wait(main).assert_ok().value == "'main'"
    nb.wait_ranks(waits, "begun", 2)
    main = nb.start("%%distribute -n 2\n5")
    nb.wait(main, until=lambda: re.match(r"waiting for In \[\d+\] of a subshell on ranks 0-1 \(0:", waits_of(main)))
    nb.control("interrupt_request")
    nb.wait(main).assert_error("KeyboardInterrupt")
    assert not nb.until(lambda: waits.ended, 0.5), "only the cell that waits has ended"
    nb.control("interrupt_request")
    nb.wait(waits).assert_error("KeyboardInterrupt")


def test_home_runs_cells_while_a_subshells_cell_runs_on_ranks(nb, sub, gate):
    cell = sub.start("%%distribute -n 2\nprint('begun')\n" + gate.code + "5")
    nb.wait_ranks(cell, "begun", 2)
    assert nb.ok("'free'").value == "'free'"
    nb.km.interrupt_kernel()
    nb.wait(cell).assert_error("KeyboardInterrupt")


def opened(nb, sub):
    nb.ok(COMM)
    comm = uuid.uuid4().hex
    nb.send("comm_open", {"comm_id": comm, "target_name": "t", "data": {}}, header={"subshell_id": sub.id})
    return comm


def test_comm_messages_run_in_the_main_shell_in_order(nb, sub):
    comm = opened(nb, sub)
    nb.ok("import threading\nwhere = set()\n"
          f"comm.get_comm_manager().comms['{comm}'].on_msg(lambda m: (got.append(m['content']['data']['k']), where.add(threading.current_thread())))")
    for k in range(200):
        nb.send("comm_msg", {"comm_id": comm, "data": {"k": k}}, header={"subshell_id": [sub.id, None, "no such"][k % 3]})
    assert nb.ok("got == list(range(200)), where == {threading.main_thread()}").value == "(True, True)"


def test_a_setting_runs_them_in_their_subshell(fresh):
    nb = fresh(env={"CELLSPAN_COMMS": "subshell"})
    sub = Subshell(nb)
    comm = opened(nb, sub)
    sub.ok("import threading\nwhere = []\n"
           f"comm.get_comm_manager().comms['{comm}'].on_msg(lambda m: where.append(threading.current_thread().name))")
    main = nb.start("import time\nuntil = time.monotonic() + 20\nwhile not where and time.monotonic() < until: time.sleep(0.01)\nwhere")
    nb.send("comm_msg", {"comm_id": comm, "data": {}}, header={"subshell_id": sub.id})
    assert nb.wait(main).value == str(["subshell-" + sub.id])


def test_comm_messages_do_not_disturb_plots(nb, sub):
    """While cells of the main shell draw, messages of a slider that redraws come with a subshell_id, as JupyterLab sends them."""
    comm = opened(nb, sub)
    nb.ok("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.rcParams['figure.figsize'] = 1, 1  # drawn sixty times\n"
          "%config InlineBackend.print_figure_kwargs = {'bbox_inches': None}  # else each is drawn twice\n"
          "def redraw(m):\n    plt.figure(); plt.plot([0, 1]); plt.title('comm'); plt.close()\n"
          f"comm.get_comm_manager().comms['{comm}'].on_msg(redraw)")
    for turn in range(20):
        cell = nb.start(f"for k in range(3):\n    plt.figure(); plt.plot([k]); plt.title('cell {turn}')\n    assert len(plt.get_fignums()) == 1\n"
                        f"    assert plt.gca().get_title() == 'cell {turn}' and len(plt.gca().lines) == 1\n    plt.show()")
        for _ in range(4):
            nb.send("comm_msg", {"comm_id": comm, "data": {}}, header={"subshell_id": sub.id})
        nb.wait(cell).assert_ok()
        assert len(cell.displays) == 3 and all("image/png" in shown for shown in cell.displays), cell.shown


def test_a_profiler_in_a_subshell(nb, sub):
    sub.ok("import sys; sys.setprofile(lambda *event: None)")
    sub.ok("1")
    sub.ok("sys.setprofile(None)")


def test_endless_text_holds_nobody_up(nb, sub):
    cell = sub.start("k = 0\nwhile True: print('line', k); k += 1")
    nb.until(lambda: "line 2000" in cell.stdout, 30)
    assert nb.ok("print('main'); 1").stdout == "main\n"
    nb.km.interrupt_kernel()
    nb.wait(cell).assert_error("KeyboardInterrupt")
    lines = cell.stdout.splitlines()
    assert lines[:1000] == [f"line {k}" for k in range(1000)]


SLOW = "class Slow(Exception):\n    def %s\ndef thrower():\n    raise Slow('why')\n"
NEVER = "while True:\n            time.sleep(0.01)"


@pytest.mark.parametrize("method", [
    "__str__(self):\n        " + NEVER,
    "__str__(self):\n        for k in range(3):\n            try:\n                while True: time.sleep(0.01)\n            except BaseException: pass\n"
    "        " + NEVER,
    "_render_traceback_(self):\n        " + NEVER,
    "__notes__(self):\n        " + NEVER + "\n    __notes__ = property(__notes__)",
], ids=["text", "catches", "traceback", "notes"])
def test_an_error_whose_formatting_never_ends(nb, sub, gate, method):
    """As in the main shell, which computes meanwhile: its text or its formatting is left out, and what is known of it comes."""
    main = nb.start("print('begun')\n" + gate.code + "'main'")
    nb.wait_shown(main, "begun")
    cell = sub.run("import time\n" + SLOW % method + "thrower()", 120).assert_error("Slow")
    assert cell.error["traceback"] == cell.reply["traceback"] and "in thrower" in cell.traceback, cell.reply
    assert ("<str() failed>" in cell.reply["evalue"]) == ("__str__" in method), cell.reply
    assert "TooSlow" not in cell.shown and "TooSlow" not in cell.traceback
    sub.run("1 / 0").assert_error("ZeroDivisionError")
    assert sub.ok("1 + 1").value == "2"
    gate.open()
    assert nb.wait(main).assert_ok().value == "'main'"


def test_an_interrupt_does_not_replace_an_error_that_is_being_shown(nb, sub):
    cell = sub.start("import time\n" + SLOW % "__str__(self):\n        print('in', flush=True)\n        until = time.monotonic() + 1\n"
                     "        while time.monotonic() < until: time.sleep(0.01)\n        return 'slow'" + "thrower()")
    nb.until(lambda: "in" in cell.stdout, 60)
    nb.km.interrupt_kernel()
    assert nb.wait(cell, 60).assert_error("Slow").reply["evalue"] == "slow"
    assert sub.ok("1 + 1").value == "2"
    cell = sub.start("print(get_ipython().showtraceback)\ntry:\n    thrower()\nexcept Slow:\n    get_ipython().showtraceback()\nwhile True: time.sleep(0.01)")
    nb.until(lambda: "in\n" in cell.stdout, 60)
    nb.km.interrupt_kernel()
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    assert "Slow: slow" in cell.shown, cell.shown


def test_an_error_that_a_thread_shows_and_that_never_ends(nb):
    """Home's own threads, and ranks'."""
    for where in ("", "%%distribute -n 2\n"):
        cell = nb.run(where + "import threading, time\n" + SLOW % ("__str__(self):\n        " + NEVER) +
                      "def shows():\n    try:\n        thrower()\n    except Slow:\n        get_ipython().showtraceback()\n    print('it goes', 'on')\n"
                      "thread = threading.Thread(target=shows)\nthread.start()\nthread.join()", 120).assert_ok()
        assert "it goes on" in cell.stdout and "<str() failed>" in cell.shown and "in thrower" in cell.shown, cell.shown


def test_status_says_busy_while_a_subshell_runs(nb, sub, gate):
    cell = sub.start("print('begun', flush=True)\n" + gate.code)
    nb.until(lambda: cell.stdout, 60)
    nb.strays.clear()
    nb.ok("1")

    def states():
        return [m["content"]["execution_state"] for m in nb.strays if m["msg_type"] == "status"]

    assert nb.until(states, 60)[0] == "busy"  # three seconds later: tests/unit/jupyter/busy.c
    gate.open()
    nb.wait(cell, 30).assert_ok()
