# SPDX-License-Identifier: BSD-3-Clause
"""The published conformance suite, jupyter_kernel_test, with every optional sample, and tests of what the suite omits."""

from __future__ import annotations

import os
import signal
import unittest

import jupyter_kernel_test
import pytest
import zmq
from client import KERNEL, LIMIT
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_kernel_test.msgspec_v5 import validate_message
from processes import gone, wait_until


class Limited(unittest.TestCase):
    """Some waits of the suite have no limit of their own; this gives each test one. Others have 0.1 s, which a busy
    machine misses; this makes them longer."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for channel in (cls.kc.shell_channel, cls.kc.iopub_channel):
            channel.get_msg = cls.patient(channel.get_msg)

    @staticmethod
    def patient(get_msg):
        return lambda timeout=None: get_msg(timeout=None if timeout is None else max(timeout, LIMIT))

    def run(self, result=None):
        signal.signal(signal.SIGALRM, self.out_of_time)
        signal.alarm(200)
        try:
            return super().run(result)
        finally:
            signal.alarm(0)

    @staticmethod
    def out_of_time(*_):
        raise TimeoutError("the test took longer than 200 s")

    def flush_channels(self):
        """As the suite's, which takes 0.1 s of silence for the end: takes what came before the answer to a question."""
        asked = self.kc.kernel_info()

        def take(get_msg, kind, state=None):
            while True:
                message = get_msg()
                validate_message(message)
                if message["parent_header"].get("msg_id") == asked and message["msg_type"] == kind:
                    if message["content"].get("execution_state") == state:
                        return

        take(self.kc.get_shell_msg, "kernel_info_reply")
        take(self.kc.get_iopub_msg, "status", "idle")


class Published(Limited, jupyter_kernel_test.KernelTests):
    kernel_name = KERNEL
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import os, sys; sys.stderr.write('test\\n')"
    completion_samples = [
        {"text": "enumer", "matches": {"enumerate"}},
        {"text": "import math; math.isin", "matches": {"isinf"}},
        {"text": "no_name_is_like_this_one", "matches": set()},
    ]
    complete_code_samples = ["x = 1", "print('hello')", "class A:\n    pass\n\n\n"]
    incomplete_code_samples = ['"""a text', "while True:", "def f(a,\n      b"]
    invalid_code_samples = ["1 +* 2", "def = 1", "x)"]
    code_page_something = "len?"
    code_generate_error = "raise KeyError('as wanted')"
    code_execute_result = [
        {"code": "7*6", "result": "42"},
        {"code": "{'a': [1]}", "result": "{'a': [1]}"},
        {"code": "x = 3\nx", "result": "3"},
    ]
    code_display_data = [
        {"code": "import IPython.display as d; d.display(d.HTML('<i>x</i>'))", "mime": "text/html"},
        {"code": "import IPython.display as d; d.display(d.Latex('$x$'))", "mime": "text/latex"},
        {"code": "import IPython.display as d; d.display(d.SVG('<svg/>'))", "mime": "image/svg+xml"},
    ]
    code_history_pattern = "7?6*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "len"
    code_clear_output = "from IPython.display import clear_output; clear_output(wait=True)"

    @classmethod
    def setUpClass(cls):
        """The first Tab waits for jedi for 10 s, in which a busy machine may not get it ready."""
        super().setUpClass()
        code = "import sys; sys.modules['cellspan._jupyter.prepare_jedi'].FIRST_TAB = 1000"
        assert cls.kc.execute(code, store_history=False, reply=True, timeout=LIMIT)["content"]["status"] == "ok"


class Welcome(Limited, jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = KERNEL
    support_iopub_welcome = True


@pytest.mark.parametrize("silent", [False, True])
def test_every_message_has_a_parent_that_is_an_object(fresh, silent):
    notebook = fresh()
    notebook.run("print(1)", silent=silent)
    notebook.quiet()
    everything = notebook.strays + [m for c in notebook.cells.values() for m in c.messages]
    assert all(isinstance(m["parent_header"], dict) for m in everything)


def test_messages_of_a_cell_come_in_order_and_agree_on_the_count(nb):
    cell = nb.ok("import sys\nprint('out')\nsys.stderr.write('err\\n')\n1 + 1")
    assert cell.kinds[0] == "execute_input"
    assert set(cell.kinds[1:]) == {"stream", "execute_result"}
    counts = {m["content"]["execution_count"] for m in cell.of("execute_input", "execute_result")}
    assert counts == {cell.reply["execution_count"]}
    assert cell.busy_at <= cell.times[0] and cell.idle_at >= cell.times[-1]


def test_no_message_repeats_a_signature_or_id(nb):
    cells = [nb.ok("print(%d)" % i) for i in range(5)]
    messages = [m for c in cells for m in c.messages] + [c.reply_message for c in cells]
    ids = [m["header"]["msg_id"] for m in messages]
    assert len(ids) == len(set(ids))
    assert all(m["header"]["version"] >= "5.5" for m in messages)


def test_a_silent_cell_shows_nothing_and_counts_nothing(nb):
    before = nb.ok("1").reply["execution_count"]
    assert nb.ok("41 + 1", silent=True).kinds == []
    assert nb.ok("1").reply["execution_count"] == before + 1


def test_store_history_off_neither_counts_nor_stores(nb):
    before = nb.ok("1").reply["execution_count"]
    nb.ok("not_in_the_history = 1", store_history=False)
    assert nb.ok("1").reply["execution_count"] == before + 1
    found = nb.request("history_request", {"hist_access_type": "tail", "n": 3, "raw": True, "output": False})
    assert all("not_in_the_history" not in entry[2] for entry in found["history"])


def test_user_expressions_are_evaluated_each_for_itself(nb):
    cell = nb.ok("n = 20", user_expressions={"good": "n + 1", "bad": "1/0"})
    found = cell.reply["user_expressions"]
    assert found["good"]["status"] == "ok" and found["good"]["data"]["text/plain"] == "21"
    assert found["bad"]["status"] == "error" and found["bad"]["ename"] == "ZeroDivisionError"


def test_the_error_message_and_the_reply_say_the_same(nb):
    cell = nb.run("{}['missing']").assert_error("KeyError")
    for content in (cell.reply, cell.error):
        assert (content["ename"], content["evalue"]) == ("KeyError", "'missing'")
        assert content["traceback"] and all(isinstance(line, str) for line in content["traceback"])


def test_queued_cells_are_aborted_after_an_error(nb, gate):
    first = nb.start(gate.code + "1/0")
    queued = [nb.start("ran = %d" % i) for i in range(3)]
    nb.request("kernel_info_request")  # what was sent before it is there, too
    gate.open()
    nb.wait(first).assert_error("ZeroDivisionError")
    assert [nb.wait(c).status for c in queued] == ["aborted"] * 3
    assert all("execute_input" not in c.kinds for c in queued)
    assert nb.ok("2").value == "2"


def test_queued_cells_run_when_stop_on_error_is_off(nb, gate):
    first = nb.start(gate.code + "1/0", stop_on_error=False)
    queued = nb.start("5")
    nb.request("kernel_info_request")
    gate.open()
    nb.wait(first).assert_error("ZeroDivisionError")
    assert nb.wait(queued).assert_ok().value == "5"


def test_a_display_is_updated_by_its_id(nb):
    cell = nb.ok(
        "from IPython.display import display\n"
        "h = display({'text/plain': 'old'}, raw=True, display_id='place')\n"
        "h.update({'text/plain': 'new'}, raw=True)"
    )
    assert cell.kinds[1:] == ["display_data", "update_display_data"]
    assert {m["content"]["transient"]["display_id"] for m in cell.messages[1:]} == {"place"}
    assert [d["text/plain"] for d in cell.displays] == ["new"]


def test_clear_output_keeps_its_place_among_the_outputs(nb):
    cell = nb.ok("from IPython.display import clear_output\nprint('a')\nclear_output(wait=True)\nprint('b')")
    assert cell.kinds[1:] == ["stream", "clear_output", "stream"]
    assert cell.of("clear_output")[0]["content"] == {"wait": True}


def test_bytes_on_the_descriptors_reach_the_client(nb):
    cell = nb.ok("import os\n_ = os.write(1, b'from fd 1\\n'), os.write(2, b'from fd 2\\n')")
    assert cell.stdout == "from fd 1\n" and cell.stderr == "from fd 2\n"


def test_output_of_a_child_process_reaches_the_client(nb):
    cell = nb.ok("import subprocess, sys\n_ = subprocess.run([sys.executable, '-c', 'print(6 * 7)'])")
    assert cell.stdout == "42\n"


def test_output_of_c_stdio_reaches_the_client(nb):
    cell = nb.ok("import ctypes\n_ = ctypes.CDLL(None).puts(b'from C')")
    nb.wait_shown(cell, "from C\n")


def test_output_of_a_thread_reaches_the_client(nb):
    cell = nb.ok("import threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()")
    assert cell.stdout == "thread\n"


def test_output_of_a_thread_after_the_cell_still_arrives(nb):
    cell = nb.ok(
        "import threading\ngo = threading.Event()\n"
        "t = threading.Thread(target=lambda: (go.wait(), print('late', flush=True))); t.start()"
    )
    other = nb.ok("go.set(); t.join()")

    def arrived():
        strays = "".join(m["content"].get("text", "") for m in nb.strays if m["msg_type"] == "stream")
        return "late\n" in cell.stdout + other.stdout + strays

    nb.wait(other, until=arrived)


def test_prints_and_displays_keep_their_order(nb):
    cell = nb.ok(
        "from IPython.display import display\nfor i in range(5):\n"
        "    print('line', i)\n    display({'text/plain': 'shown %d' % i}, raw=True)"
    )
    words = cell.shown.split()
    assert words == [w for i in range(5) for w in ("line", str(i), "shown", str(i))]


def test_top_level_await_works_and_tasks_go_on_between_cells(nb, tmp_path):
    ticked = tmp_path / "ticked"
    nb.ok(
        "import asyncio, pathlib\nticks, goal = 0, None\n"
        "async def tick():\n    global ticks\n    while True:\n        ticks += 1\n        await asyncio.sleep(0.01)\n"
        "        if ticks == goal:\n            pathlib.Path(%r).touch()\n"
        "task = asyncio.create_task(tick())\nwhile ticks < 2:\n    await asyncio.sleep(0.05)" % str(ticked)
    )
    nb.ok("goal = ticks + 20")
    assert wait_until(ticked.exists, LIMIT), "the task stands still"  # nothing runs in home meanwhile but it
    nb.ok("task.cancel()")


def test_positions_count_code_points(nb):
    code = "x = '\U0001d7d8'; enumer"
    found = nb.request("complete_request", {"code": code, "cursor_pos": len(code)})
    assert "enumerate" in found["matches"]
    assert code[found["cursor_start"] : found["cursor_end"]] == "enumer"


def test_text_survives_in_every_script(nb):
    text = "\U0001d7d8 é \u4f60\u597d \U0001f600"
    cell = nb.ok("print(%r)\n%r" % (text, text))
    assert cell.stdout == text + "\n" and text in cell.value


def test_history_is_found_in_each_way(nb):
    nb.ok("marker_of_history = 'x'\nmarker_of_history")
    ways = (
        {"hist_access_type": "tail", "n": 5},
        {"hist_access_type": "search", "pattern": "marker_of_*", "n": 5},
        {"hist_access_type": "range", "session": 0, "start": 1, "stop": 1000},
    )
    for way in ways:
        found = nb.request("history_request", dict(way, raw=True, output=False))["history"]
        assert "marker_of_history = 'x'\nmarker_of_history" in [entry[2] for entry in found], way
    found = nb.request("history_request", dict(ways[2], raw=True, output=True))["history"]
    assert ("marker_of_history = 'x'\nmarker_of_history", "'x'") in [tuple(entry[2]) for entry in found]


@pytest.mark.parametrize(
    "code, secret", [("input('name? ')", False), ("__import__('getpass').getpass('name? ')", True)]
)
def test_input_asks_the_client_that_runs_the_cell(nb, code, secret):
    cell = nb.ok("print('got', %s)" % code, answer="Ada")
    assert cell.prompts == [{"prompt": "name? ", "password": secret}]
    assert "got Ada" in cell.stdout


def test_input_that_is_not_allowed_raises(nb):
    nb.run("input()").assert_error("StdinNotImplementedError")


def test_an_interrupt_ends_a_wait_for_input(nb):
    cell = nb.start("input('never answered ')", answer=lambda prompt: None)
    nb.wait(cell, until=lambda: cell.prompts)
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert nb.ok("1").value == "1"


def test_a_comm_is_opened_answers_and_closes(nb):
    nb.ok(
        "from comm import get_comm_manager\n"
        "def opened(comm, message):\n"
        "    comm.on_msg(lambda m: comm.send({'twice': m['content']['data']['n'] * 2}, buffers=m['buffers']))\n"
        "get_comm_manager().register_target('e2e', opened)"
    )
    def known():
        return nb.request("comm_info_request", {"target_name": "e2e"})["comms"]

    def tell(kind, content, buffers=None):
        cell = nb.send(kind, dict(content, comm_id="c1"), buffers=buffers)
        return nb.wait(cell, until=lambda: cell.idle_at is not None)

    tell("comm_open", {"target_name": "e2e", "data": {}})
    assert known() == {"c1": {"target_name": "e2e"}}
    answers = tell("comm_msg", {"data": {"n": 7}}, [b"\0binary\xff"]).of("comm_msg")
    assert [m["content"]["data"] for m in answers] == [{"twice": 14}]
    assert [bytes(b) for b in answers[0]["buffers"]] == [b"\0binary\xff"]
    tell("comm_close", {"data": {}})
    assert known() == {}


def test_a_comm_for_nobody_is_closed(nb):
    cell = nb.send("comm_open", {"comm_id": "c2", "target_name": "nobody", "data": {}})
    nb.wait(cell, until=lambda: cell.idle_at is not None)
    assert "comm_close" in cell.kinds


def test_a_comm_that_home_opens_reaches_the_client(nb):
    cell = nb.ok("from comm import create_comm\nc = create_comm(target_name='front', data={'a': 1})")
    opened = cell.of("comm_open")[0]["content"]
    assert (opened["target_name"], opened["data"]) == ("front", {"a": 1})


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(600)", "await __import__('asyncio').sleep(600)"])
@pytest.mark.parametrize("way", ["kernelspec", "message"])
def test_an_interrupt_ends_the_cell(nb, code, way):
    cell = nb.start("print('begun', flush=True)\n" + code)
    nb.wait_shown(cell, "begun")
    if way == "message":
        assert nb.control("interrupt_request")["status"] == "ok"
    else:
        nb.km.interrupt_kernel()
    nb.wait(cell)
    assert cell.status == "error" and cell.ename in ("KeyboardInterrupt", "CancelledError")
    assert nb.ok("1").value == "1"


def test_sigint_is_harmless_when_idle(nb):
    nb.ok("kept = 1")
    os.kill(nb.pid, signal.SIGINT)
    nb.control("interrupt_request")
    nb.quiet(0.2)
    assert nb.ok("kept").value == "1"


def test_control_answers_while_a_cell_runs(nb):
    cell = nb.start("print('begun', flush=True)\nwhile True: pass")
    nb.wait_shown(cell, "begun")
    assert nb.control("kernel_info_request")["status"] == "ok"
    nb.control("interrupt_request")
    nb.wait(cell)


@pytest.fixture
def valve(tmp_path):
    """A fifo: who opens it to read waits until let() has opened its other end."""

    def opened():
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody waits (yet)
            return False
        return True

    path = tmp_path / "valve"
    os.mkfifo(path)
    yield path, lambda: wait_until(opened, LIMIT)
    opened()


def test_control_and_heartbeat_answer_while_c_code_holds_the_interpreter(nb, valve):
    path, let = valve
    cell = nb.start("import ctypes\nprint('begun', flush=True)\n_ = ctypes.PyDLL(None).open(%r, 0)" % bytes(path))
    nb.wait_shown(cell, "begun")
    nb.control("kernel_info_request")
    socket = nb.kc.connect_hb()
    try:
        socket.send(b"ping")
        assert socket.poll(1000 * LIMIT) and socket.recv() == b"ping"
    finally:
        socket.close(linger=0)
    assert cell.reply_message is None
    assert let()
    nb.wait(cell).assert_ok()


def test_usage_is_told(nb):
    found = nb.control("usage_request")
    assert set(found) >= {"hostname", "pid", "kernel_cpu", "kernel_memory", "cpu_count", "host_virtual_memory"}


def test_an_unknown_request_does_no_harm(nb):
    nb.send("no_such_request")
    nb.send("no_such_request", channel="control")
    assert nb.ok("1").value == "1"


def test_kernel_info_says_what_clients_read(nb):
    info = nb.info
    assert info["status"] == "ok" and info["implementation"] == "cellspan"
    assert tuple(int(part) for part in info["protocol_version"].split(".")) >= (5, 5)
    language = info["language_info"]
    assert language["name"] == "python" and language["file_extension"] == ".py"
    assert {"version", "mimetype", "pygments_lexer", "codemirror_mode", "nbconvert_exporter"} <= set(language)
    assert isinstance(info["banner"], str) and isinstance(info["help_links"], list)
    announced = info.get("supported_features", [])
    assert "debugger" in announced and "kernel subshells" in announced


def test_the_heartbeat_echoes(nb):
    socket = nb.kc.connect_hb()
    try:
        socket.send_multipart([b"a", b"\0\xff"])
        assert socket.poll(1000 * LIMIT) and socket.recv_multipart() == [b"a", b"\0\xff"]
    finally:
        socket.close(linger=0)


def test_connect_request_tells_the_ports(nb):
    found = nb.request("connect_request")
    assert found["shell_port"] == nb.km.shell_port and found["iopub_port"] == nb.km.iopub_port


def test_the_channels_are_encrypted_on_request(fresh):
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    assert "curve" in spec.metadata.get("supported_encryption", [])
    notebook = fresh(transport_encryption="required")
    assert notebook.ok("1 + 1").value == "2"
    plain = zmq.Context.instance().socket(zmq.DEALER)
    try:
        plain.connect("tcp://%s:%d" % (notebook.km.ip, notebook.km.shell_port))
        message = notebook.kc.session.msg("kernel_info_request")
        plain.send_multipart(notebook.kc.session.serialize(message))
        assert not plain.poll(500), "a client without the keys was answered"
    finally:
        plain.close(linger=0)


def test_the_channels_work_over_ipc(fresh, tmp_path):
    notebook = fresh(transport="ipc", ip=str(tmp_path / "k"))
    assert notebook.ok("1 + 1").value == "2"


def test_shutdown_is_announced_and_the_kernel_ends_by_itself(fresh):
    notebook = fresh()
    cell = notebook.send("shutdown_request", {"restart": False}, "control")
    notebook.wait(cell, until=lambda: cell.reply_message is not None)
    assert cell.reply == {"status": "ok", "restart": False}
    notebook.wait(cell, until=lambda: "shutdown_reply" in cell.kinds + [m["msg_type"] for m in notebook.strays])
    assert gone(notebook.marker) == []


def test_two_kernels_on_one_machine_do_not_meet(fresh):
    one, two = fresh(), fresh()
    one.ok("mine = 1")
    two.run("mine").assert_error("NameError")


del Limited  # pytest would collect the base class as a test of its own
