# SPDX-License-Identifier: BSD-3-Clause
"""Home behind a socket and two pipes, without an agent and without a kernel."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402
from cellspan._capture import vars_bundle  # noqa: E402
from fake_agent import Home, packed  # noqa: E402


def plain(reply):
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))


# ---- cells


def test_a_value_is_published_and_the_reply_says_ok(home):
    assert home.run("1+1") == {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
    assert home.shown("execute_result") == [{"execution_count": 1, "data": {"text/plain": "2"}, "metadata": {}}]


def test_in_and_out_have_the_kernels_numbers_even_after_a_gap(home):
    home.count = 7
    home.run("'a'")
    home.run("In[7], Out[7], _7, _")
    assert home.shown("execute_result")[-1]["data"]["text/plain"] == "(\"'a'\", 'a', 'a', 'a')"


def test_a_silent_cell_shows_and_records_nothing(home):
    home.run("5", silent=True)
    assert home.run("1/0", silent=True)["ename"] == "ZeroDivisionError"
    assert home.published == []
    assert home.ask("history_request", hist_access_type="range", session=0, start=1, raw=True, output=False)["history"] == []


def test_an_error_names_the_line_of_the_notebook(home):
    reply = home.run("\n\n1/0")
    assert (reply["ename"], reply["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert "line 3" in plain(reply) or "----> 3" in plain(reply)
    assert home.shown("error")[0]["traceback"] == reply["traceback"]


def test_an_exception_whose_text_fails_is_still_shown(home):
    reply = home.run("class E(Exception):\n    def __str__(self): raise ValueError\nraise E()")
    assert reply["ename"] == "E"
    assert home.run("1")["status"] == "ok"


def test_what_the_worker_does_after_a_cell_never_replaces_its_error(home):
    """As where the cell has left no memory."""
    home.run("import cellspan._worker.reloads as r\ndef none(path): raise MemoryError\nnow, r._state_of = r._state_of, none\n"
             "import sys, types, importlib.machinery as m\n"
             "sys.modules['made'] = types.ModuleType('made')\nsys.modules['made'].__file__ = '/made.py'\n"
             "sys.modules['made'].__spec__ = m.ModuleSpec('made', None)\n")
    assert home.run("1 / 0")["ename"] == "ZeroDivisionError"
    assert home.run("r._state_of = now")["status"] == "ok"
    assert home.run("assert r.imported.has('made')")["status"] == "ok"


def test_what_comes_after_a_reply_may_fail(home):
    """As where no thread can be started: the history's, jedi's."""
    home.run("import cellspan._base.threads as t\ndef none(*args): raise RuntimeError(\"can't start new thread\")\nt.begin = none")
    assert home.run("1 / 0")["ename"] == "ZeroDivisionError"
    assert home.run("2")["status"] == "ok"
    home.run("import cellspan._worker.home as h\nhome = h.current\nhome.shell.history_manager.save = none")
    assert home.run("3")["status"] == "ok" and home.text[2] == b""


def test_cells_run_where_descriptor_1_leads_to_a_full_disk(home):
    home.run("import os\nkept = os.dup(1)\n_ = os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('held')")
    assert home.run("1 / 0")["ename"] == "ZeroDivisionError"
    assert home.run("_ = os.dup2(kept, 1)")["status"] == "ok"
    assert home.run("print('back')")["status"] == "ok" and home.text[1].endswith(b"back\n")


def test_a_cells_error_stays_if_its_reply_cannot_be_made(home):
    home.run("import cellspan._worker.home as h\nto_json, failed = h.to_json, []\n"
             "def once(value):\n    if failed or not isinstance(value, dict) or value.get('status') != 'error': return to_json(value)\n"
             "    failed.append(1)\n    raise MemoryError\nh.to_json = once")
    assert home.run("raise ValueError('its own')")["evalue"] == "its own"
    assert home.run("len(failed)")["status"] == "ok" and home.shown("execute_result")[-1]["data"]["text/plain"] == "1"


def test_a_display_stands_between_the_text_before_and_after_it(home):
    home.run("print('a'); display(1); print('b'); display(2); print('c')")
    assert [m.text_before[1] for m in home.published] == [b"a\n", b"a\nb\n"]
    assert home.text[1] == b"a\nb\nc\n"


def test_text_is_seen_while_the_cell_still_runs(home):
    cell = home.execute("import time\nprint('early')\ntime.sleep(600)")
    home.until(lambda: home.text[1] == b"early\n")
    home.send("INTERRUPT", cell)
    home.expect("REPLY", cell)


def test_text_of_c_is_seen_too(home):
    home.run("import ctypes; _ = ctypes.CDLL(None).printf(b'from C')")
    assert home.text[1] == b"from C"


def test_a_forked_child_does_not_write_the_parents_text_again(home):
    home.run("import os\nprint('parent', end='')\nif os.fork() == 0:\n    print('child')\n    os._exit(0)\n_ = os.wait()")
    assert home.text[1].count(b"parent") == 1 and b"child" in home.text[1]


def test_a_cell_that_imports_asyncio_finds_a_loop_and_its_tasks_go_on(home):
    home.run("import asyncio\nasync def f():\n    await asyncio.sleep(0.05)\n    print('ran')\ntask = asyncio.create_task(f())")
    home.until(lambda: home.text[1] == b"ran\n")
    home.run("print(task.done(), await asyncio.sleep(0, 'slept'))")
    assert home.text[1] == b"ran\nTrue slept\n"


def test_the_loop_survives_what_users_do_to_it(home):
    home.run("import asyncio\nasyncio.get_event_loop().stop()")
    assert home.run("await asyncio.sleep(0)")["status"] == "ok"
    home.run("asyncio.get_event_loop().call_soon(lambda: 1/0)")
    assert home.run("await asyncio.sleep(0, 1)")["status"] == "ok"


def test_importing_torch_is_told_once(home, tmp_path):
    (tmp_path / "torch.py").write_text("")
    cell = home.execute(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch")
    assert home.expect("REPLY", cell).json("metadata") == {"cellspan_imported_torch": True}
    assert home.expect("REPLY", home.execute("import torch")).json("metadata") == {}


def test_user_expressions_and_payloads_come_with_the_reply(home):
    reply = home.run("get_ipython().set_next_input('next')", user_expressions={"a": "6*7", "b": "1/0"})
    assert reply["user_expressions"]["a"]["data"] == {"text/plain": "42"}
    assert reply["user_expressions"]["b"]["ename"] == "ZeroDivisionError"
    assert reply["payload"] == [{"source": "set_next_input", "text": "next", "replace": False}]


def test_exit_keeps_the_kernel(home):
    assert home.run("exit")["payload"] == [{"source": "ask_exit", "keepkernel": True}]


def test_a_semicolon_at_the_end_hides_the_value(home):
    for code in ("1;", "1; # c", "';' ;"):
        home.run(code)
    assert home.published == []
    home.run("';'")
    home.run("1 # ;")
    assert len(home.published) == 2


def test_numbers_that_json_lacks_are_shown_as_text(home):
    home.run("display({'application/json': {'a': float('nan'), 1: {2}}}, raw=True)")
    assert home.shown("display_data")[0]["data"]["application/json"] == {"a": "nan", "1": [2]}


def test_a_users_module_cannot_keep_home_from_starting(settings, tmp_path, monkeypatch):
    for name in ("logging", "json", "ast"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('mine')")
    (tmp_path / "mine.py").write_text("value = 3")
    monkeypatch.chdir(tmp_path)
    home = Home(env=settings)
    assert home.run("import mine; mine.value")["status"] == "ok"
    home.close()


# ---- interrupts


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(600)",
        "while True: pass",
        "import asyncio\nawait asyncio.sleep(600)",
        "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
        "import threading; a = threading.Lock(); a.acquire(); a.acquire()",
        "!sleep 600",
        "import os; os.system('sleep 600') and None\nwhile True: pass",
    ],
)
def test_an_interrupt_ends_the_cell_and_nothing_else(home, code):
    home.run("kept = 1")
    cell = home.execute("print('started')\n" + code)
    home.until(lambda: b"started" in home.text[1])
    reply, end = None, time.monotonic() + 60
    while time.monotonic() < end:  # the second line of the last case needs a second one
        home.send("INTERRUPT", cell)
        try:
            reply = home.expect("REPLY", cell, limit=3).json()
            break
        except AssertionError:
            continue
    assert reply and reply["ename"] == "KeyboardInterrupt"
    assert home.run("kept")["status"] == "ok"


def test_an_interrupt_that_comes_before_the_cell_has_begun_ends_it(home):
    os.kill(home.process.pid, signal.SIGSTOP)
    cell = home.execute("import time; time.sleep(600)")
    home.request("complete_request", {"code": "prin", "cursor_pos": 4})
    home.send("INTERRUPT", cell)
    os.kill(home.process.pid, signal.SIGCONT)
    reply = home.expect("REPLY", cell).json()
    assert reply["ename"] == "KeyboardInterrupt" and not any("worker.py" in line for line in reply["traceback"]), reply
    assert home.run("1")["status"] == "ok"


def test_interrupts_of_another_cell_or_of_none_are_ignored(home):
    for cell in (1, 77):
        home.send("INTERRUPT", cell)
    cell = home.execute("import time\nfor _ in range(20): time.sleep(0.01)")
    home.send("INTERRUPT", 77)
    assert home.expect("REPLY", cell).json()["status"] == "ok"


def test_an_interrupt_that_comes_too_late_hits_nobody(home):
    for _ in range(100):
        cell = home.execute("pass", silent=True)
        home.send("INTERRUPT", cell)
        assert home.expect("REPLY", cell).json().get("ename") in (None, "KeyboardInterrupt")
        assert home.run("x = 1")["status"] == "ok"


# ---- input


def test_input_asks_and_ctrl_d_is_the_end(home):
    cell = home.execute("name = input('who? ')\nprint(name)", stdin=True)
    assert home.expect("INPUT", cell).fields == {"prompt": "who? ", "password": 0, "id": 1, "over": 0}
    home.send("INPUT_REPLY", cell, {"value": "bob", "id": 1})
    assert home.expect("REPLY", cell).json()["status"] == "ok" and home.text[1] == b"bob\n"
    cell = home.execute("input()", stdin=True)
    home.expect("INPUT", cell)
    home.send("INPUT_REPLY", cell, {"value": "\x04", "id": 2})
    assert home.expect("REPLY", cell).json()["ename"] == "EOFError"


def test_getpass_can_be_interrupted(home):
    cell = home.execute("import getpass\ngetpass.getpass()", stdin=True)
    asked = home.expect("INPUT", cell).fields
    assert asked["password"] == 1
    home.send("INTERRUPT", cell)
    assert home.expect("INPUT", cell).fields == {"prompt": "", "password": 0, "id": asked["id"], "over": 1}, "it is taken back"
    assert home.expect("REPLY", cell).json()["ename"] == "KeyboardInterrupt"


def test_input_without_a_client_that_takes_it_raises(home):
    assert home.run("input()")["ename"] == "StdinNotImplementedError"


# ---- requests


def test_completion_counts_code_points_and_knows_types(home):
    reply = home.ask("complete_request", code="'é𝒳'; impor", cursor_pos=11)
    assert (reply["matches"], reply["cursor_start"], reply["cursor_end"]) == (["import"], 6, 11)
    end = time.monotonic() + 240  # of a machine that is busy with other tests, the thread that prepares jedi gets a fifth of a processor
    while reply["metadata"].get("_jupyter_types_experimental", [{}])[0].get("type") != "keyword":  # jedi knows, once it is ready
        assert time.monotonic() < end, reply
        time.sleep(0.5)  # after each question the thread rests for a tenth of a second
        reply = home.ask("complete_request", code="'é𝒳'; impor", cursor_pos=11)


def test_home_starts_without_what_only_ranks_need(settings):
    home = Home(env=settings)
    home.run("import sys; [m for m in sys.modules if m in ('cloudpickle', 'cellspan._capture.reducers', 'importlib.metadata')]")
    assert home.shown("execute_result")[-1]["data"]["text/plain"] == "[]"
    home.close()


def test_completion_works_without_jedi(settings):
    home = Home(env=settings)
    home.run("import sys; sys.modules['jedi'] = None; get_ipython().Completer.use_jedi = False\nalphabet = 1")
    assert "alphabet" in home.ask("complete_request", code="alpha", cursor_pos=5)["matches"]
    home.close()


def test_inspection_says_what_a_name_is(home):
    reply = home.ask("inspect_request", code="print", cursor_pos=5, detail_level=0)
    assert reply["found"] and "text/plain" in reply["data"] and "text/html" not in reply["data"]
    assert not home.ask("inspect_request", code="nosuch", cursor_pos=3)["found"]


def test_names_are_completed_where_a_magic_takes_names(home):
    home.run("push_one = push_two = 1")
    for line in ("%push push_", "%push push_one push_", "%%distribute -n 4 --into push_", "x\n%pull push_"):
        reply = home.ask("complete_request", code=line, cursor_pos=len(line))
        assert reply["matches"] == ["push_one", "push_two"], line
        assert reply["cursor_start"] == len(line) - 5 and reply["cursor_end"] == len(line)
    line = "%%distribute --capture=push_one,push_t"
    assert home.ask("complete_request", code=line, cursor_pos=len(line))["matches"] == ["push_two"]


def test_libraries_that_look_for_ipykernel_find_a_notebook(home):
    home.run("import sys; shells = sys.modules['ipykernel.zmqshell']")
    reply = home.run("assert isinstance(get_ipython(), shells.ZMQInteractiveShell) and not hasattr(shells, 'NoSuchName')")
    assert reply["status"] == "ok"


def test_is_complete_gives_the_indent(home):
    assert home.ask("is_complete_request", code="for i in x:") == {"status": "incomplete", "indent": "    "}
    assert home.ask("is_complete_request", code="1")["status"] == "complete"
    assert home.ask("is_complete_request", code="a b")["status"] == "invalid"


def test_history_is_in_the_file_that_ipython_reads(home):
    home.run("first = 1")
    home.run("second = 2")
    tail = home.ask("history_request", hist_access_type="tail", n=2, raw=True, output=False)["history"]
    assert [line[1:] for line in tail] == [[1, "first = 1"], [2, "second = 2"]]
    found = home.ask("history_request", hist_access_type="search", pattern="sec*", raw=True, output=False, n=1)["history"]
    assert found[0][2] == "second = 2"
    session = home.ask("history_request", hist_access_type="range", session=0, start=1, stop=2, raw=True, output=False)
    assert session["history"] == [[0, 1, "first = 1"]]


def test_names_in_a_magics_line_are_expanded_as_ipython_does(home):
    home.run("n = 4; count = 3; d = {'k': 'v'}")
    assert home.ask("cellspan_expand", text="-n {n} --log $n {d['k']}")["text"] == "-n 4 --log 4 v"
    for text, why in (
        ("{nosuch} $n", "NameError: name 'nosuch' is not defined"),
        ("-n {countt}", "NameError: name 'countt' is not defined. Did you mean: 'count'?"),
        ("{1/0}", "ZeroDivisionError: division by zero"),
    ):
        reply = home.ask("cellspan_expand", text=text)
        assert (reply["text"], reply["why"]) == (text, why)


# ---- comms


def test_a_comm_that_nobody_knows_is_closed_and_then_ignored(home):
    home.ask("comm_open", comm_id="c", target_name="jupyter.widget.control", data={})
    assert home.shown("comm_close") == [{"comm_id": "c", "data": {}}]
    assert home.ask("comm_msg", comm_id="c", data={})["status"] == "ok"
    assert home.text[2] == b""


def test_comms_go_both_ways_with_buffers_also_while_a_cell_awaits(home):
    pytest.importorskip("comm")
    home.run(
        "from comm import get_comm_manager\nseen = []\n"
        "def opened(comm, message):\n"
        "    comm.on_msg(lambda m: (seen.append(bytes(m['buffers'][0])), comm.send({'n': len(seen)}, buffers=[b'xy'])))\n"
        "get_comm_manager().register_target('t', opened)"
    )
    home.ask("comm_open", comm_id="c", target_name="t", data={})
    cell = home.execute("import asyncio\nwhile not seen: await asyncio.sleep(0.01)\nseen")
    home.expect("REPLY", home.request("comm_msg", {"comm_id": "c", "data": {}}, buffers=[b"abc"]))
    assert home.expect("REPLY", cell).json()["status"] == "ok"
    sent = [m for m in home.published if m.fields["type"] == "comm_msg"][0]
    assert (sent.json()["data"], sent.fields["buffers"]) == ({"n": 1}, [b"xy"])


# ---- what distributed cells need


def test_captured_names_have_versions_that_change_with_their_values(home):
    home.run("x = [1]; y = 2")

    def version(number):
        home.send("CAPTURE", number, {"code": "x"})
        found = home.expect("CAPTURED", number).json("names")
        return {n[0]: n[1] for n in found["names"]}

    first = version(900)
    assert version(901) == first and list(first) == ["x"]
    home.run("x.append(2)")
    assert version(902) != first


def test_a_distributed_cell_stands_in_the_history(home):
    home.send("CAPTURE", 900, {"code": "", "flags": _link.CAPTURE_NONE | _link.CAPTURE_RECORD, "count": 1, "raw": "%%distribute\npass"})
    home.expect("CAPTURED", 900)
    home.count = 2
    home.run("In[1]")
    assert "%%distribute" in home.shown("execute_result")[0]["data"]["text/plain"]


def test_pack_and_bind_carry_values(home):
    home.run("x = {'a': 1}")
    home.send("PACK", 900, {"names": "x"}, blob=5)
    answer = home.expect("PACKED", 900)
    assert vars_bundle.unpack(answer.fd, answer.size, {}) == {"x": {"a": 1}} and answer.blob == 5
    home.send("BIND", 901, {"how": _link.BIND_VALUE, "names": "got", "count": 9}, blob=6, data=packed([7]))
    assert home.expect("REPLY", 901).json()["status"] == "ok"
    home.count = 10
    home.run("got, _, Out[9]")
    assert home.shown("execute_result")[-1]["data"]["text/plain"] == "([7], [7], [7])"


def test_the_values_of_all_ranks_become_one_list(home):
    for value, how in ((1, 2), (2, 2), (3, 3)):
        home.send("BIND", 900, {"how": how, "names": "every", "count": 4}, blob=6, data=packed(value))
        last = home.expect("REPLY", 900).json()
    assert last["data"] == {"text/plain": "[1, 2, 3]"}


def test_the_values_of_several_names_are_bound_together_or_not_at_all(home):
    def gather(cell, junk, last=_link.BIND_LISTS):
        """The status of the last of three ranks' BINDs; junk: of which rank nothing can be unpickled."""
        for rank in range(3):
            data = b"junk" * 100 if rank == junk else packed({"p": rank, "q": -rank})
            how = last if rank == 2 else _link.BIND_MORE
            home.send("BIND", cell, {"how": how, "names": "p,q", "count": 0}, blob=6, data=data)
            reply = home.expect("REPLY", cell).json()
            assert reply["status"] == ("error" if rank == junk else "ok")

    home.run("p = q = 'mine'")
    for junk in range(3):
        gather(904 + junk, junk)
        gather(914 + junk, junk, _link.BIND_LAST)
    home.run("p, q")
    gather(907, None)
    home.run("p, q")
    assert [shown["data"]["text/plain"] for shown in home.shown("execute_result")] == ["('mine', 'mine')", "([0, 1, 2], [0, -1, -2])"]


def test_what_cannot_be_packed_or_unpickled_is_said(home):
    home.run("import threading; lock = threading.Lock()")
    home.send("PACK", 900, {"names": "lock"}, blob=5)
    assert "lock" in home.expect("PACKED", 900).fields["error"]
    home.send("BIND", 901, {"how": _link.BIND_VALUE, "names": "x"}, blob=6, data=b"junk" * 100)
    assert home.expect("REPLY", 901).json()["status"] == "error"


def test_a_value_that_did_not_come_is_an_error(home):
    home.send("BIND", 902, {"how": _link.BIND_VALUE, "names": "the node that had it is gone", "count": 5}, blob=6)
    reply = home.expect("REPLY", 902).json()
    assert reply["status"] == "error" and reply["evalue"] == "the node that had it is gone"


def test_a_list_whose_last_value_did_not_come_is_given_up(home):
    home.send("BIND", 903, {"how": _link.BIND_MORE, "names": "every", "count": 5}, blob=6, data=packed(1))
    assert home.expect("REPLY", 903).json()["status"] == "ok"
    home.send("BIND", 903, {"how": _link.BIND_LAST, "names": "the node that had it is gone", "count": 5}, blob=6)
    assert home.expect("REPLY", 903).json()["status"] == "error"
    home.send("BIND", 903, {"how": _link.BIND_LAST, "names": "every", "count": 5}, blob=6, data=packed(2))
    assert home.expect("REPLY", 903).json()["data"] == {"text/plain": "[2]"}, "what came before it is still held"


def test_pulled_values_live_as_long_as_their_name(home):
    home.send("BIND", 903, {"how": _link.BIND_LAST, "names": "mine"}, blob=6, data=packed("pulled"))
    home.expect("REPLY", 903)
    home.run("print(mine); del mine; import gc\n"
             "print([o for o in gc.get_objects() if type(o) is list and len(o) == 1 and type(o[0]) is str and o[0] == 'pulled'])")
    assert home.text[1] == b"['pulled']\n[]\n"


def test_a_result_that_stayed_on_its_rank_shows_and_says_why(home):
    content = {"rank": 0, "repr": "<big>", "why": "too large", "count": 3}
    assert home.ask("cellspan_handle", **content)["status"] == "ok"
    home.count = 4
    home.run("Out[3]")
    assert "<big>" in home.shown("execute_result")[0]["data"]["text/plain"]


def test_home_looks_for_garbage_among_what_cells_make_alone(home):
    home.run("import gc\nprint(gc.isenabled(), gc.get_freeze_count() > 10_000)\nloop = []\nloop.append(loop)\ndel loop\nprint(gc.collect() > 0)")
    assert home.text[1] == b"True True\nTrue\n"


# ---- threads


def test_a_thread_that_has_ended_lives_no_longer_than_its_cell_keeps_it(home):
    home.run("import gc, threading, weakref\ndone = []\n"
             "for _ in range(3):\n"
             "    t = threading.Thread(target=done.append, args=(1,)); t.start(); t.join(); ended = weakref.ref(t); del t\n"
             "    gc.collect()\n    print(ended(), len(done))")
    assert home.text[1] == b"None 1\nNone 2\nNone 3\n"


# ---- the end


def is_alive(pid):
    """A zombie is not; it is ours if a test before made us the one who gets orphans."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state != "" and not state.startswith("Z")


def test_home_and_its_children_end_with_the_agent(home):
    cell = home.execute("import subprocess; p = subprocess.Popen(['sleep', '600']); p.pid")
    home.expect("REPLY", cell)
    child = int(home.shown("execute_result")[0]["data"]["text/plain"])
    home.sock.close()
    home.process.wait(60)
    end = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_exit_ends_home_politely(home):
    home.run("import atexit; atexit.register(print, 'bye', flush=True)")
    home.send("EXIT")
    assert home.process.wait(60) == 0
    home.drain_pipes()
    assert home.text[1].endswith(b"bye\n")
