# SPDX-License-Identifier: BSD-3-Clause
"""Zygote and ranks behind sockets and pipes, without an agent and without a kernel."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402
from cellspan._capture import vars_bundle  # noqa: E402
from fake_agent import Home, Zygote, adopt_orphans, end_ranks, free_port, run_on  # noqa: E402


@pytest.fixture
def ranks(zygote):
    ranks = zygote.fork(range(2))
    yield ranks
    end_ranks(ranks)


@pytest.fixture
def script(zygote):
    """run(argv, text=""): two ranks of a script, and the DONE of each, which end then."""

    def run(argv, text=""):
        ends = zygote.fork(range(2), role=2)
        done = run_on(ends, text, flags=_link.RUN_SCRIPT, argv=json.dumps(argv))
        for end in ends:
            end.until(lambda: end.closed)
            os.waitpid(end.pid, 0)
            end.sock.close()
            end.close_pipes()
        run.text = [end.text[1] for end in ends]
        return done

    return run


def values(ranks, code, **more):
    """What the last expression shows on each rank."""
    done = run_on(ranks, code, **more)
    assert [d.fields["status"] for d in done] == ["ok"] * len(ranks), [d.json() for d in done]
    return [d.json("result")["data"]["text/plain"] for d in done]


def test_a_rank_is_a_child_of_the_agent_in_a_session_of_its_own(ranks):
    assert values(ranks, "import os; os.getppid(), os.getsid(0) == os.getpid()") == [str((os.getpid(), True))] * 2
    assert [r.ready.fields["pid"] for r in ranks] == [r.pid for r in ranks]


def test_what_a_rank_prints_comes_through_its_own_pipe(ranks):
    run_on(ranks, "import os\nprint('rank', os.environ['RANK'])\nos.write(2, b'err')")
    assert [(r.text[1], r.text[2]) for r in ranks] == [(b"rank 0\n", b"err"), (b"rank 1\n", b"err")]


def test_the_environment_is_torchruns(ranks):
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "GROUP_RANK"]
    assert values(ranks, f"import os\n[os.environ[n] for n in {names}]") == [
        "['0', '0', '2', '2', '127.0.0.1', '0']",
        "['1', '1', '2', '2', '127.0.0.1', '0']",
    ]


def test_a_variable_of_one_cell_is_gone_in_the_next(ranks):
    code = "import os; os.environ.get('MINE')"
    assert values(ranks, code, env={"MINE": "1"}) == ["'1'"] * 2
    done = run_on(ranks, code, cell=2)
    assert [d.fields["result"] for d in done] == ["", ""]


AFTER = "import cellspan._worker.rank as r\ndef none(*args, **named): raise MemoryError\n"


@pytest.mark.parametrize("broken", ["r.reloads.imported.note = none", "r.torchenv.note_world = none", "r.Rank._explain = none", "r.Rank._add_held_gpu_memory = none",
                                    "r.Origins.gone = none", "r.Origins.assigned = none", "r.torch_errors.explain = none"])
def test_what_a_rank_does_after_a_cell_never_replaces_its_error(ranks, broken):
    """As where the cell has left no memory."""
    done = run_on(ranks, AFTER + broken + "\nraise ValueError('its own')")
    assert [(d.json()["ename"], d.json()["evalue"]) for d in done] == [("ValueError", "its own")] * 2
    assert [r.text[2] for r in ranks] == [b""] * 2


def test_lines_about_newer_files_that_cannot_be_made_keep_no_cell_from_running(ranks):
    run_on(ranks, AFTER + "r.reloads.imported.unsaid = none")
    assert values(ranks, "1 + 1", cell=2, count=2) == ["2"] * 2


def test_variables_stay_from_cell_to_cell(ranks):
    run_on(ranks, "x = 1")
    assert values(ranks, "x + 1", cell=2, count=2) == ["2", "2"]


def test_random_state_differs_by_rank_and_in_each_start(zygote, ranks):
    code = "import random; random.random()"
    again = zygote.fork([1])
    assert len({*values(ranks, code), *values(again, code)}) == 3
    end_ranks(again)


def test_the_value_comes_as_a_bundle_where_it_is_wanted(ranks):
    done = run_on(ranks, "{'a': [1, 2]}", flags=_link.RUN_RESULT, blob=100)
    assert [d.blob for d in done] == [100, 101]
    assert vars_bundle.unpack(done[0].fd, done[0].size, {}) == {"a": [1, 2]}
    assert run_on(ranks, "1", cell=2)[0].fd == -1


@pytest.mark.parametrize("code, word", [("lambda: (yield)\nimport threading; threading.Lock()", "pickle"), ("'x' * 100000", "")])
def test_why_a_value_did_not_travel_is_noted(ranks, code, word):
    done = run_on(ranks, code, flags=_link.RUN_RESULT, blob=100, limit=1000)[0]
    assert done.fields["status"] == "ok" and done.fd == -1 and done.fields["note"] and word in done.fields["note"]


def test_a_value_without_which_the_cell_fails_is_not_made_into_json(ranks):
    """Of a long text that takes seconds, and nobody reads it."""
    options = {"flags": _link.RUN_RESULT | _link.RUN_RESULT_ALWAYS, "limit": 1000}
    done = run_on(ranks, "'x' * 100000", blob=100, **options)[0]
    assert done.fields["note"] and not done.fields["result"], done.fields
    assert "xxx" in run_on(ranks, "'x' * 100", cell=2, blob=102, **options)[0].fields["result"]


def test_a_text_that_is_too_long_to_show_is_not_made_into_json(monkeypatch, capsys):
    from cellspan._worker import publish

    real, made = publish.to_json, []
    monkeypatch.setattr(publish, "SHOWN_MAX", 1000)
    monkeypatch.setattr(publish, "to_json", lambda value: made.append(real(value)) or made[-1])
    shown = json.loads(publish.result_json({"text/plain": "short", "text/html": "x" * 1001, "text/latex": "\\" * 600}, {"a": 1}))
    assert shown == {"data": {"text/plain": "short"}, "metadata": {"a": 1}} and not any("xxx" in text for text in made), made
    told = capsys.readouterr().err
    assert "text/html of" in told and "text/latex of" in told, told
    assert json.loads(publish.result_json({"text/plain": "x" * 1001}, {}))["data"]["text/plain"].startswith("[text/plain of ")


def test_none_travels_only_where_the_list_needs_it(ranks):
    assert run_on(ranks, "None", flags=_link.RUN_RESULT, blob=100)[0].fd == -1
    assert run_on(ranks, "None", cell=2, flags=_link.RUN_RESULT | _link.RUN_RESULT_ALWAYS, blob=102)[0].fd >= 0


def test_an_error_is_the_cells_and_its_line_the_notebooks(ranks):
    done = run_on(ranks, "\n\n\n1/0")
    content = done[0].json()
    assert content["ename"] == "ZeroDivisionError"
    assert re.search(r"(line |--> )4", re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"])))
    assert run_on(ranks, "def f(:", cell=2)[0].json()["ename"] == "SyntaxError"


def test_after_an_error_nothing_keeps_the_frames_variables(ranks):
    code = "class Big: pass\nimport weakref\ndef f():\n    global ref\n    big = Big(); ref = weakref.ref(big)\n    1/0\nf()"
    run_on(ranks, code)
    assert values(ranks, "ref() is None", cell=2, count=2) == ["True", "True"]


def test_displays_come_before_what_was_printed_later_or_not_at_all(ranks):
    run_on(ranks, "print('a'); display(1); print('b')")
    assert [m.text_before[1] for m in ranks[0].published] == [b"a\n"]
    run_on(ranks, "display(2)", cell=2, flags=_link.RUN_NO_DISPLAY)
    assert len(ranks[0].published) == 1


def test_await_at_the_top_works(ranks):
    assert values(ranks, "import asyncio\nawait asyncio.sleep(0.01, 'slept')") == ["'slept'"] * 2


def test_interrupts_end_the_cell_that_they_name(ranks):
    for rank in ranks:
        rank.send("RUN", 5, {"code": "import time; time.sleep(600)", "env": "{}"})
    ranks[0].pump(0.2)
    for rank in ranks:
        rank.send("INTERRUPT", 4)
        rank.send("INTERRUPT", 5)
    done = [r.expect("DONE", 5) for r in ranks]
    assert [d.json()["ename"] for d in done] == ["KeyboardInterrupt"] * 2
    assert values(ranks, "1", cell=6) == ["1", "1"]


def test_an_interrupt_that_comes_before_the_cell_has_begun_ends_it(ranks):
    os.kill(ranks[0].pid, signal.SIGSTOP)
    for rank in ranks:
        rank.send("RUN", 5, {"code": "import time; time.sleep(600)", "env": "{}"})
        rank.send("INTERRUPT", 5)
    os.kill(ranks[0].pid, signal.SIGCONT)
    done = [r.expect("DONE", 5) for r in ranks]
    assert [d.json()["ename"] for d in done] == ["KeyboardInterrupt"] * 2
    assert values(ranks, "1", cell=6) == ["1", "1"]


def test_an_interrupt_does_not_replace_the_error_that_is_being_shown(ranks):
    code = "class E(Exception):\n    def __str__(self):\n        print('showing', flush=True)\n        import time; time.sleep(0.5)\n        return 'mine'\nraise E()"
    ranks[0].send("RUN", 5, {"code": code, "env": "{}"})
    ranks[0].until(lambda: b"showing" in ranks[0].text[1])
    ranks[0].send("INTERRUPT", 5)
    assert ranks[0].expect("DONE", 5).json()["ename"] == "E"
    assert ranks[0].text[2] == b""
    assert values(ranks[:1], "1", cell=6) == ["1"]


def test_names_are_bound_and_a_broken_bundle_fails_the_next_run_only(ranks):
    fd, size = vars_bundle.pack({"x": [1, 2]}, {})
    good = os.pread(fd, size, 0)
    for rank in ranks:
        rank.send("BIND", 1, {"how": _link.BIND_DICT}, blob=9, data=good)
    assert values(ranks, "x", cell=1) == ["[1, 2]"] * 2
    ranks[0].send("BIND", 2, {"how": _link.BIND_DICT}, blob=9, data=b"junk" * 100)
    assert [d.fields["status"] for d in run_on(ranks, "1", cell=2)] == ["error", "ok"]
    assert values(ranks, "x", cell=3) == ["[1, 2]"] * 2


def test_variables_that_did_not_come_are_the_cells_error(ranks):
    ranks[0].send("BIND", 1, {"how": _link.BIND_DICT, "names": "h2 has no room for 400 MiB"}, blob=9)
    done = run_on(ranks, "print('never')", cell=1)
    assert [d.fields["status"] for d in done] == ["error", "ok"]
    assert done[0].json()["ename"] == "OSError" and done[0].json()["evalue"] == "h2 has no room for 400 MiB"
    assert [d.fields["status"] for d in run_on(ranks, "1", cell=2)] == ["ok", "ok"]


def test_fetch_brings_one_name_or_says_in_one_line_that_it_is_missing(ranks):
    run_on(ranks, "x = 5")
    ranks[1].send("FETCH", 2, {"names": "x"}, blob=9)
    done = ranks[1].expect("DONE", 2)
    assert vars_bundle.unpack(done.fd, done.size, {}) == 5
    ranks[1].send("FETCH", 3, {"names": "y"}, blob=9)
    error = ranks[1].expect("DONE", 3).json()
    assert error["ename"] == "NameError" and error["traceback"] == ["NameError: name 'y' is not defined"]
    ranks[1].send("FETCH", 4, {"names": "x,y"}, blob=9)
    assert "'y' is not defined" in ranks[1].expect("DONE", 4).json()["evalue"]
    run_on(ranks, "y = 6", cell=5)
    ranks[1].send("FETCH", 6, {"names": "x,y"}, blob=9)
    done = ranks[1].expect("DONE", 6)
    assert vars_bundle.unpack(done.fd, done.size, {}) == 5
    ranks[1].send("FETCH", 7, {"names": ""})
    assert ranks[1].expect("DONE", 7).fields["status"] == "ok"


def test_files_of_ranks_go_with_the_zygote_if_the_agent_has_no_folder_for_them(tmp_path):
    adopt_orphans()
    zygote = Zygote(env={"TMPDIR": str(tmp_path), "CELLSPAN_PRELOAD": "-torch"})
    ranks = zygote.fork(range(2))
    (done, _) = run_on(ranks, "import os; open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').close()")
    assert done.fields["status"] == "ok"
    (made,) = tmp_path.glob("cellspan-*")
    assert made.stat().st_mode & 0o777 == 0o700 and len(list(made.glob("rank-*/error.json"))) == 2
    end_ranks(ranks)
    zygote.close()
    assert not list(tmp_path.glob("cellspan-*")), "its folder is left"


def test_a_name_that_cannot_be_fetched_is_named(ranks):
    run_on(ranks, "x, y, z = 5, (i for i in []), 7")
    for flags, names in ((_link.FETCH_DICT, "x,y,z"), (_link.FETCH_DICT, "y"), (0, "y")):
        ranks[1].send("FETCH", 2, {"names": names, "flags": flags}, blob=9)
        done = ranks[1].expect("DONE", 2)
        assert done.size == 0 and done.fields["note"].startswith("y can't be sent home: it can't be pickled: "), done.fields
    ranks[1].send("FETCH", 3, {"names": "x,z", "flags": _link.FETCH_DICT}, blob=9)
    done = ranks[1].expect("DONE", 3)
    assert vars_bundle.unpack(done.fd, done.size, {}) == {"x": 5, "z": 7}


def test_input_asks_where_it_may(ranks):
    ranks[0].send("RUN", 1, {"code": "input('? ')", "flags": 0, "env": "{}"})
    ranks[1].send("RUN", 1, {"code": "input('? ')", "flags": _link.RUN_PIPED, "env": "{}"})
    assert ranks[0].expect("DONE", 1).json()["evalue"] == "input was asked for, but this client takes no input requests"
    assert ranks[1].expect("DONE", 1).json()["evalue"] == "standard input is rank 0's: read it there"
    for rank in ranks:
        rank.send("RUN", 2, {"code": "print(input('? '))", "flags": _link.RUN_STDIN, "env": "{}"})
        asked = rank.expect("INPUT", 2).fields
        assert asked["prompt"] == "? " and not asked["over"]
        rank.send("INPUT_REPLY", 2, {"value": "no", "id": asked["id"] + 1})
        rank.send("INPUT_REPLY", 2, {"value": "yes", "id": asked["id"]})
        assert rank.expect("DONE", 2).fields["status"] == "ok" and rank.text[1] == b"yes\n"


def test_a_script_runs_as_main_with_its_arguments_and_its_folder(script, tmp_path):
    (tmp_path / "beside.py").write_text("value = 7")
    path = tmp_path / "script.py"
    path.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.value)\nsys.exit(int(sys.argv[1]))")
    done = script([str(path), "0"])
    assert done[0].fields["status"] == "ok" and script.text[0] == b"__main__ ['0'] 7\n"
    content = script([str(path), "3"])[0].json()
    assert (content["ename"], content["evalue"]) == ("SystemExit", "3")


def test_a_script_that_is_not_here_runs_from_the_text_that_came_along(script):
    text = "import sys\nprint(__name__, sys.argv[0].split('/')[-1], sys.argv[1:])"
    done = script(["there/train.py", "1"], text)
    assert done[0].fields["status"] == "ok" and script.text[0] == b"__main__ train.py ['1']\n"


def test_a_module_runs_as_main(script):
    script(["-m", "json.tool", "--help"])
    assert b"usage" in script.text[0]


def test_the_error_of_a_script_begins_in_the_script(script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text("def f():\n    raise KeyError('k')\nf()")
    text = "\n".join(script([str(path)])[0].json()["traceback"])
    assert "script.py" in text and "runpy" not in text and "cellspan" not in text


@pytest.mark.parametrize("argv", [["/no/such.py"], ["-m", "nosuchmodule"], ["-m", "no.such"]])
def test_a_script_or_module_that_is_not_there_is_one_line(script, argv):
    content = script(argv)[0].json()
    assert content["ename"] == "UsageError" and argv[-1] in content["evalue"]
    assert content["traceback"] == ["UsageError: " + content["evalue"]]


@pytest.mark.parametrize("setting, there", [("", True), ("-numpy", False), ("-torch,-numpy", False), (" json.tool , -nosuch", True)])
def test_a_package_may_be_left_out_of_the_zygote(setting, there):
    from cellspan._worker.wanted import Wanted

    wanted = Wanted(setting).modules
    assert ("numpy" in wanted) == ("numpy.random" in wanted) == there and "cloudpickle" in wanted
    assert ("torch" in wanted) == ("torch.distributed" in wanted) == ("-torch" not in setting)
    assert ("json.tool" in wanted) == ("json" in setting) and not any(name.startswith("-") or not name for name in wanted)


def test_what_the_zygote_was_to_do_at_its_end_is_not_done_by_ranks(tmp_path):
    (tmp_path / "heir.py").write_text(
        "import logging, logging.handlers, multiprocessing.util, tempfile, weakref\n"
        "class Kept: pass\nkept = Kept()\n"
        "loop = Kept(); loop.loop = loop; garbage = weakref.ref(loop); del loop\n"
        "weakref.finalize(kept, print, 'a finalizer')\n"
        "multiprocessing.util.Finalize(None, print, ('multiprocessing',), exitpriority=1)\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "handler = logging.handlers.MemoryHandler(99, target=logging.StreamHandler())\n"
        "handler.buffer.append(logging.makeLogRecord({'msg': 'a record'}))\n"
    )
    adopt_orphans()
    zygote = Zygote(env={"CELLSPAN_PRELOAD": "-torch,heir", "PYTHONPATH": str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", "")})
    (rank,) = zygote.fork([0], role=2, env={"TMPDIR": str(tmp_path)})
    code = "import gc, heir, os, tempfile; print(tempfile.gettempdir() == os.environ['TMPDIR'], heir.garbage(), gc.isenabled())"
    (tmp_path / "main.py").write_text(code)
    run_on([rank], "", flags=_link.RUN_SCRIPT, argv=json.dumps([str(tmp_path / "main.py")]))
    rank.until(lambda: rank.closed)
    os.waitpid(rank.pid, 0)
    assert (rank.text[1], rank.text[2]) == (b"True None True\n", b"")
    zygote.close()


def test_a_cell_may_hold_a_cell_magic_below_the_line_of_its_own(ranks):
    run_on(ranks, "\n%%bash\necho $RANK of $WORLD_SIZE")
    assert [r.text[1] for r in ranks] == [b"0 of 2\n", b"1 of 2\n"]
    run_on(ranks, "\n\n%%capture out\nprint('caught')", cell=2)
    assert values(ranks, "out.stdout", cell=3, count=3) == ["'caught\\n'"] * 2


def test_a_usage_error_is_the_cells_error_and_no_text(ranks):
    content = run_on(ranks, "\n%nosuch")[0].json()
    assert content["ename"] == "UsageError" and len(content["traceback"]) == 1
    assert [r.text[2] for r in ranks] == [b"", b""]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no exception groups before 3.11")
def test_an_exception_group_is_the_cells_error_with_a_traceback_of_its_own(ranks):
    content = run_on(ranks, "\nraise ExceptionGroup('both', [ValueError(1), KeyError(2)])")[0].json()
    text = "\n".join(content["traceback"])
    assert content["ename"] == "ExceptionGroup" and "ValueError: 1" in text and "KeyError: 2" in text
    assert "interactiveshell" not in text and "line 2" in text
    assert ranks[0].text[2] == b""


def test_a_cell_runs_in_the_folder_that_was_asked_for(ranks, tmp_path):
    assert values(ranks, "import os; os.getcwd()", cwd=str(tmp_path)) == [repr(str(tmp_path))] * 2
    error = run_on(ranks, "1", cell=2, cwd="/nosuch")[0].json()
    assert (error["ename"], error["evalue"]) == ("UsageError", "--cwd /nosuch: No such file or directory")


def test_a_rank_that_crashes_leaves_its_stack(zygote):
    (rank,) = zygote.fork([3])
    rank.send("RUN", 1, {"code": "import ctypes; ctypes.string_at(0)", "env": "{}"})
    rank.until(lambda: rank.closed)
    assert os.WTERMSIG(os.waitpid(rank.pid, 0)[1]) == signal.SIGSEGV
    assert b"string_at" in os.read(rank.stack, 1 << 16)


def test_torch_gets_the_threads_of_its_share_and_a_process_group():
    pytest.importorskip("torch")
    adopt_orphans()
    zygote = Zygote()
    ranks = zygote.fork(range(2))
    port = str(free_port())
    code = "import torch, torch.distributed as dist\nt = torch.ones(1) * (dist.get_rank() + 1)\ndist.all_reduce(t)\nt.item(), torch.get_num_threads()"
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert values(ranks, code, init="gloo", env={"MASTER_PORT": port}) == [f"(3.0, {threads})"] * 2
    assert run_on(ranks, "1", cell=2, env={"MASTER_PORT": port})[0].fields["flags"] & _link.DONE_DISTRIBUTED
    end_ranks(ranks)
    zygote.close()


def test_a_home_with_an_old_link_says_that_a_child_has_none(tmp_path):
    home = Home(env={"IPYTHONDIR": str(tmp_path)})
    code = "import os\nif os.fork() == 0:\n    from cellspan import _link\n    try:\n        _link.send('SYNC')\n    except _link.LinkDead as e:\n        print(e, flush=True)\n    display(1)\n    os._exit(0)\n_ = os.wait()"
    assert home.run(code)["status"] == "ok"
    assert b"no link" in home.text[1] and not home.published
    home.close()
