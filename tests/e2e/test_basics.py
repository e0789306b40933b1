# SPDX-License-Identifier: BSD-3-Clause
"""What every notebook does: run, complete, inspect, page, restart, shut down."""

from __future__ import annotations

import datetime
import os
import pathlib
import signal
import tempfile

import processes
import pytest
from client import KERNEL, values
from jupyter_client.kernelspec import get_kernel_spec
from packages import needs
from processes import wait_until


def test_a_cell_has_a_result_and_out_is_kept(nb):
    cell = nb.ok("[1, 2, 3]")
    assert cell.value == "[1, 2, 3]"
    assert nb.ok("_").value == "[1, 2, 3]"
    assert nb.ok("Out[%d]" % cell.reply["execution_count"]).value == "[1, 2, 3]"
    assert nb.ok("In[%d]" % cell.reply["execution_count"]).value == "'[1, 2, 3]'"


def test_variables_stay_and_names_are_in_main(nb):
    nb.ok("class Thing:\n    pass\nthing = Thing()")
    assert nb.ok("type(thing).__module__, __name__").value == "('__main__', '__main__')"


def test_an_empty_cell_is_fine(nb):
    for code in ("", "   \n", "# only a comment"):
        assert nb.ok(code).result is None


def test_a_semicolon_hides_the_result(nb):
    assert nb.ok("41 + 1;").result is None


def test_a_syntax_error_points_at_the_place(nb):
    cell = nb.run("x = (1,\ny = 2").assert_error("SyntaxError")
    assert "y = 2" in cell.traceback or "x = (1," in cell.traceback


def test_a_traceback_shows_the_line_and_leaves_out_the_kernel(nb):
    cell = nb.run("def f(a):\n    return a / 0\n\nf(3)").assert_error("ZeroDivisionError")
    assert "return a / 0" in cell.traceback and "f(3)" in cell.traceback
    assert "cellspan" not in cell.traceback


@pytest.mark.parametrize("where", ["", "%%distribute -n 1\n"])
@pytest.mark.parametrize("code", ["%timeit -n1 -r1 1/0", "%load_ext no_such_extension", "%run /no/such/file.py"])
def test_the_traceback_of_a_magic_leaves_out_the_kernel(nb, code, where):
    cell = nb.run(where + code)
    assert cell.status == "error" and "/cellspan/_" not in cell.traceback and "must be the first line" not in cell.traceback, cell.traceback


def test_sys_exit_does_not_end_the_kernel(nb):
    nb.ok("kept = 'here'")
    cell = nb.run("import sys; sys.exit(3)")
    assert cell.status in ("ok", "error")
    assert nb.ok("kept").value == "'here'"


def test_exit_asks_to_leave_and_keeps_the_kernel(nb):
    cell = nb.run("exit")
    asked = [p for p in cell.payloads if p["source"] == "ask_exit"]
    assert asked and asked[0]["keepkernel"] is True
    assert nb.ok("1").value == "1"


def test_the_magics_of_ipython_work(nb):
    assert "done" in nb.ok("%%bash\necho done").stdout
    assert nb.ok("!echo from the shell").stdout.strip() == "from the shell"
    assert nb.ok("files = !echo a; echo b\nlist(files)").value == "['a', 'b']"
    assert "Wall time" in nb.ok("%%time\nsum(range(10))").stdout
    assert "loop" in nb.ok("%timeit -n 1 -r 1 1").stdout
    assert nb.ok("%%capture grabbed\nprint('inside')").stdout == ""
    assert nb.ok("grabbed.stdout").value == r"'inside\n'"


def test_an_unknown_magic_is_a_usage_error_of_one_line(nb):
    cell = nb.run("%%no_such_magic\n1")
    assert cell.status == "error" or "no_such_magic" in cell.shown


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("written, meant", [("%%distributed\n1", "%%distribute"), ("%%distrbute -n 2\n1", "%%distribute"), ("%rank", "%ranks"), ("%pul x", "%pull"),
                                            ("%%timeti\n1", "%%timeit"), ("x = %pwdd", "%pwd")])
def test_an_unknown_magic_is_told_with_the_one_that_was_meant(nb, where, written, meant):
    cell = nb.run(where + written, 90).assert_error("UsageError")
    assert cell.reply["evalue"].endswith("; did you mean %s?" % meant) and "did you mean %s?" % meant in cell.shown, cell.shown


def test_a_magic_of_the_users_own_is_no_mistake(nb):
    nb.ok("get_ipython().register_magic_function(lambda line, cell: print('mine', line), 'cell', 'distributed')\n"
          "get_ipython().register_magic_function(lambda line: print('my rank', line), 'line', 'rank')")
    try:
        assert nb.ok("%%distributed a\n1").stdout == "mine a\n" and nb.ok("%rank 3").stdout == "my rank 3\n"
    finally:
        nb.ok("magics = get_ipython().magics_manager.magics\ndel magics['cell']['distributed'], magics['line']['rank'], magics")


def test_a_figure_is_shown_as_a_picture(nb):
    needs("matplotlib")
    cell = nb.ok("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
    assert any("image/png" in d for d in cell.displays)
    cell = nb.ok("plt.plot([1, 2, 3]);")  # without show(): at the cell's end
    assert any("image/png" in d for d in cell.displays)


def test_rich_representations_come_whole(nb):
    cell = nb.ok("class R:\n    def _repr_html_(self): return '<b>r</b>'\n    def __repr__(self): return 'r'\nR()")
    assert cell.result["text/html"] == "<b>r</b>" and cell.result["text/plain"] == "r"


def test_question_marks_show_help_in_the_pager(nb):
    cell = nb.ok("def documented():\n    'Words of wisdom.'\ndocumented?")
    pages = [p for p in cell.payloads if p["source"] == "page"]
    assert pages and "Words of wisdom." in pages[0]["data"]["text/plain"]


def test_set_next_input_is_a_payload(nb):
    cell = nb.ok("get_ipython().set_next_input('y = 2')")
    assert [p["text"] for p in cell.payloads if p["source"] == "set_next_input"] == ["y = 2"]


def test_completion_knows_variables_attributes_and_types(nb):
    nb.ok("wonderful_value = {'first_key': 1}")
    def complete(code):
        return nb.request("complete_request", {"code": code, "cursor_pos": len(code)})

    found = complete("wonderf")
    assert found["matches"] == ["wonderful_value"]
    types = found["metadata"]["_jupyter_types_experimental"]
    assert types[0]["text"] == "wonderful_value" and types[0]["type"]
    assert [m.lstrip(".") for m in complete("[].app")["matches"]] == ["append"]
    assert nb.until(lambda: complete("[].app")["matches"] == ["append"]), "once jedi is ready it is as jedi says it"
    assert any("first_key" in m for m in complete("wonderful_value['fi")["matches"])


@pytest.mark.only_names
def test_completion_offers_what_is_public_in_cellspan(nb):
    def matches(code):
        return [m.lstrip(".") for m in nb.request("complete_request", {"code": code, "cursor_pos": len(code)})["matches"]]

    nb.ok("import cellspan")
    modules = ["horovod", "maggy", "px", "tensorflow", "torch"]
    assert matches("import cellspan.") == matches("x = 1\nfrom cellspan.") == modules
    assert matches("from cellspan import ") == values(nb.ok(f"sorted([*cellspan.__all__, *{modules}])"))
    assert matches("from cellspan import rank, lo") == ["local_rank"] and matches("from cellspan.to") == ["torch"]
    assert matches("import cellspan.horovod.") == ["torch"] and "config" in matches("from cellspan.maggy.")
    assert nb.until(lambda: set(matches("cellspan.")) == set(values(nb.ok("cellspan.__all__"))).union(modules))
    assert matches("from cellspan.torch import ") == values(nb.ok("cellspan.torch.__all__")), "neither private names nor modules that it imports"
    assert matches("x = 1; from cellspan.maggy import (Searchspace,\n    e") == ["experiment", "experiment_config"]
    assert nb.until(lambda: matches("cellspan.torch.") == values(nb.ok("cellspan.torch.__all__")))
    private = matches("import cellspan._")
    assert "_api" in private and len(private) == len(set(private)), "each once"
    assert "_api" in matches("from cellspan import _") and "check_call" in matches("from cellspan._api import ")
    assert matches("from cellspan import rank\nloca")[0] == "locals", "the next line is another statement"
    assert matches("from cellspan.absent import ") == []


def test_completion_does_not_wait_for_a_busy_cell(nb, gate):
    cell = nb.start("print('begun', flush=True)\n" + gate.code)
    nb.wait_shown(cell, "begun")
    nb.request("complete_request", {"code": "%%distrib", "cursor_pos": 9})
    assert cell.reply_message is None
    gate.open()
    nb.wait(cell).assert_ok()


def test_inspection_shows_signature_then_source(nb):
    nb.ok("def plain(alpha, beta=2):\n    'Says nothing.'\n    return alpha")
    for level, text in ((0, "plain(alpha, beta=2)"), (1, "return alpha")):
        found = nb.request("inspect_request", {"code": "plain", "cursor_pos": 3, "detail_level": level})
        from client import ANSI

        assert found["found"] and text in ANSI.sub("", found["data"]["text/plain"])
    found = nb.request("inspect_request", {"code": "not_there", "cursor_pos": 3, "detail_level": 0})
    assert found == {"status": "ok", "found": False, "data": {}, "metadata": {}}


def test_is_complete_tells_whether_enter_runs_the_cell(nb):
    wanted = {"1 + 1": "complete", "for i in x:": "incomplete", "1 = 2": "invalid"}
    for code, status in wanted.items():
        found = nb.request("is_complete_request", {"code": code})
        assert found["status"] == status, code
    assert nb.request("is_complete_request", {"code": "for i in x:"})["indent"] == "    "


def test_kernel_info_is_answered_before_home_is_ready(fresh):
    notebook = fresh()
    assert notebook.info["status"] == "ok"
    assert notebook.ok("1").value == "1"


def test_kernel_info_on_shell_does_not_wait_for_the_running_cell(nb, gate):
    """Also for the client whose cell it is: a page that lost its connection comes back under the same identity."""
    cell = nb.start("print('begun', flush=True)\n" + gate.code)
    nb.wait_shown(cell, "begun")
    nb.request("kernel_info_request")
    assert cell.reply_message is None
    gate.open()
    nb.wait(cell).assert_ok()


def test_two_hundred_queued_cells_are_run_in_order(nb):
    nb.ok("seen = []")
    cells = [nb.start("seen.append(%d)" % i) for i in range(200)]
    for cell in cells:
        nb.wait(cell).assert_ok()
    assert nb.ok("seen == list(range(200))").value == "True"


def test_an_interrupt_aborts_what_is_queued_behind_it(nb):
    first = nb.start("print('begun', flush=True)\nimport time; time.sleep(600)")
    queued = nb.start("1")
    nb.wait_shown(first, "begun")
    nb.request("kernel_info_request")  # what was sent before it is there, too
    nb.control("interrupt_request")
    nb.wait(first).assert_error("KeyboardInterrupt")
    assert nb.wait(queued).status == "aborted"


def test_an_interrupt_does_not_hit_the_next_cell(nb):
    for _ in range(10):
        cell = nb.start("pass")
        nb.control("interrupt_request")
        assert nb.wait(cell).status in ("ok", "error", "aborted")
        nb.quiet(0.05)
        assert nb.ok("1").value == "1"


def test_a_restart_gives_a_new_home_on_the_same_ports(fresh):
    notebook = fresh()
    notebook.ok("gone_soon = 1")
    ports = notebook.km.ports
    notebook.km.restart_kernel()
    notebook.ready()
    assert notebook.km.ports == ports
    notebook.run("gone_soon").assert_error("NameError")


def test_a_restart_in_the_middle_of_a_cell_leaves_nobody(fresh):
    notebook = fresh()
    cell = notebook.start("print('begun', flush=True)\nimport time; time.sleep(600)")
    notebook.wait_shown(cell, "begun")
    before = processes.marked(notebook.marker)
    notebook.km.restart_kernel(now=True)
    notebook.ready()
    assert notebook.ok("1").value == "1"
    assert wait_until(lambda: not [p for p in before if processes.alive(p)], 30), processes.described(before)


def test_the_kernel_ends_when_its_parent_dies(fresh, tmp_path):
    """A server that is killed leaves no kernel behind (JPY_PARENT_PID)."""
    import subprocess
    import sys
    import uuid

    from client import KERNEL

    marker = uuid.uuid4().hex
    code = (
        "from jupyter_client.manager import KernelManager\nimport sys\n"
        "km = KernelManager(kernel_name=%r); km.start_kernel()\n"
        "kc = km.client(); kc.start_channels(); kc.wait_for_ready(60)\n"
        "print('up', flush=True); sys.stdin.read()" % KERNEL
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, **{processes.MARKER: marker}),
    )
    try:
        assert parent.stdout.readline() == b"up\n"
        assert processes.named(marker, "cellspan-kernel")
        parent.kill()
        parent.wait()
        assert processes.gone(marker) == []
    finally:
        processes.kill_all(marker)


def test_a_kernel_whose_starter_is_not_on_this_machine_stays(tmp_path):
    """As of a kernelspec that begins with srun, or in a container that gets the environment."""
    import subprocess
    import time

    from jupyter_client.connect import write_connection_file

    path, _ = write_connection_file(str(tmp_path / "kernel.json"))
    argv = get_kernel_spec(KERNEL).argv
    kernel = subprocess.Popen([word.replace("{connection_file}", path) for word in argv], stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, JPY_PARENT_PID="4194304", CELLSPAN_LOG="warn"))  # the largest there is, plus 1
    try:
        assert "JPY_PARENT_PID=4194304 is no process here" in kernel.stderr.readline()
        end = time.monotonic() + 3  # it looked each second
        while time.monotonic() < end:
            assert kernel.poll() is None
            time.sleep(0.1)
    finally:
        kernel.terminate()
        assert kernel.wait(30) == 0


def test_sigterm_ends_the_kernel_and_all_that_came_of_it(fresh):
    notebook = fresh()
    os.kill(notebook.pid, signal.SIGTERM)
    assert processes.gone(notebook.marker) == []


def test_nothing_is_left_in_the_runtime_directory(fresh):
    with tempfile.TemporaryDirectory(prefix="e2e-", dir="/tmp") as folder:  # short: the path of a socket is limited
        runtime = pathlib.Path(folder)
        notebook = fresh(env={"XDG_RUNTIME_DIR": folder})
        assert wait_until(lambda: list(runtime.glob("cellspan-*")), 30)
        mode = next(runtime.glob("cellspan-*")).stat().st_mode & 0o777
        assert mode == 0o700
        notebook.control("shutdown_request", {"restart": False})
        assert processes.gone(notebook.marker) == []
        assert list(runtime.glob("cellspan-*")) == []


def test_nothing_is_left_in_the_runtime_directory_of_a_killed_kernel(fresh):
    with tempfile.TemporaryDirectory(prefix="e2e-", dir="/tmp") as folder:
        runtime = pathlib.Path(folder)
        notebook = fresh(env={"XDG_RUNTIME_DIR": folder})
        notebook.ok("1")
        os.kill(notebook.pid, signal.SIGKILL)
        assert processes.gone(notebook.marker) == []
        assert list(runtime.glob("cellspan-*")) == []


def test_secrets_stand_in_no_command_line(nb):
    key = nb.km.session.key.decode()
    assert all(key not in processes.command(pid) for pid in processes.marked(nb.marker))


def test_sys_executable_and_multiprocessing_work_as_in_python(nb):
    assert "python" in nb.ok("import sys, os; os.path.basename(sys.executable)").value
    cell = nb.ok(
        "import multiprocessing as mp\n"
        "with mp.get_context('spawn').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))",
        limit=100,
    )
    assert cell.stdout == "[1, 2]\n"


def test_widgets_are_shown_and_change(nb):
    needs("ipywidgets")
    cell = nb.ok("import ipywidgets\ns = ipywidgets.IntSlider(3)\ndisplay(s)")
    assert any("application/vnd.jupyter.widget-view+json" in d for d in cell.displays)
    comm_id = cell.displays[0]["application/vnd.jupyter.widget-view+json"]["model_id"]
    change = {"method": "update", "state": {"value": 9}, "buffer_paths": []}
    told = nb.send("comm_msg", {"comm_id": comm_id, "data": change})
    nb.wait(told, until=lambda: told.idle_at is not None)
    assert nb.ok("s.value").value == "9"


def test_a_reply_says_when_its_cell_began(nb):
    """Notebooks show how long a cell ran, not how long it waited."""

    def times(cell):
        began = cell.reply_message["metadata"]["started"]
        return datetime.datetime.fromisoformat(began.replace("Z", "+00:00")), cell.reply_message["header"]["date"]

    first = nb.start("import time; time.sleep(0.2)")
    second = nb.wait(nb.start("1"))
    nb.wait(first)
    assert times(first)[0] < times(first)[1] <= times(second)[0] < times(second)[1]
    began, ended = times(nb.ok("%%distribute -n 1\n1"))
    assert began < ended
