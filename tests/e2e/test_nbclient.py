# SPDX-License-Identifier: BSD-3-Clause
"""nbclient executes notebooks: the stored output is complete, and in few pieces."""

from __future__ import annotations

import base64
import os
import re
import time
import uuid

import processes
import pytest
from client import KERNEL, by_rank
from packages import needs

pytestmark = pytest.mark.clients


@pytest.fixture
def execute():
    """Executes cells in a new notebook; nobody may be left."""
    import nbformat
    from nbclient import NotebookClient

    markers = []

    def run(*codes, timeout=100, kind=None, **options):
        marker = uuid.uuid4().hex
        markers.append(marker)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
        # What is shown may come a while after the reply: nbclient's own 4 s are few on a busy machine.
        client = (kind or NotebookClient)(notebook, kernel_name=KERNEL, timeout=timeout, iopub_timeout=60, **options)
        client.execute(env=dict(os.environ, **{processes.MARKER: marker}))
        return notebook

    yield run
    left = [text for marker in markers for text in processes.gone(marker)]
    for marker in markers:
        processes.kill_all(marker)
    assert not left, left


def text_of(cell, name="stdout"):
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == name)


def test_twenty_thousand_flushed_lines_are_all_there_in_few_outputs(execute):
    begin = time.monotonic()
    cell = execute("for i in range(20_000):\n    print('line', i, flush=True)").cells[0]
    seconds = time.monotonic() - begin
    assert text_of(cell) == "".join("line %d\n" % i for i in range(20_000))
    assert len(cell.outputs) <= 20 * (seconds + 1), len(cell.outputs)


def test_two_hundred_thousand_lines_are_all_there(execute):
    begin = time.monotonic()
    cell = execute("for i in range(200_000):\n    print('%079d' % i)").cells[0]
    seconds = time.monotonic() - begin
    assert text_of(cell) == "".join("%079d\n" % i for i in range(200_000))
    assert len(cell.outputs) <= 20 * (seconds + 1) + 16, len(cell.outputs)  # one more a MiB


def test_twenty_thousand_flushed_lines_of_four_ranks_are_all_there(execute):
    cell = execute("%%distribute -n 4 --merge prefix\nfor i in range(5_000):\n    print('line', i, flush=True)").cells[0]
    for rank in range(4):
        found = re.findall(r"^\[%d\] line (\d+)$" % rank, text_of(cell), re.M)
        assert found == [str(i) for i in range(5_000)]


def test_settings_of_ipython_on_the_command_line_reach_home(execute):
    notebook = execute("ip = get_ipython()\n(str(ip.history_manager.hist_file), ip.ast_node_interactivity)",
                       "1\n2", extra_arguments=["--HistoryManager.hist_file=:memory:", "--what-is-this", "x.py",
                                                "--InteractiveShell.ast_node_interactivity", "all"])
    assert notebook.cells[0].outputs[0].data["text/plain"] == "(':memory:', 'all')"
    assert [o.data["text/plain"] for o in notebook.cells[1].outputs] == ["1", "2"]


def test_outputs_are_of_the_right_kinds(execute):
    import nbformat

    notebook = execute(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 + 1",
        "from IPython.display import HTML, clear_output, display\nprint('gone')\nclear_output()\ndisplay(HTML('<b>x</b>'))",
        "h = display('first', display_id=True)\nh.update('second')",
    )
    first, second, third = notebook.cells
    assert [o.output_type for o in first.outputs] == ["stream", "stream", "execute_result"]
    assert [o.output_type for o in second.outputs] == ["display_data"]
    assert third.outputs[0].data["text/plain"] == "'second'"
    nbformat.validate(notebook)


def test_a_figure_of_every_rank_is_stored_under_its_label(execute):
    needs("matplotlib")
    code = "import cellspan, matplotlib.pyplot as plt\nplt.figure(figsize=(2 + 2 * cellspan.rank(), 2))\nplt.plot([1, 2])\nplt.show()"
    cell = execute("%%distribute -n 3\n" + code).cells[0]
    label, found = "[0]", {}  # rank 0's has none where it comes first
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            assert label not in found, cell.outputs
            found[label] = int.from_bytes(base64.b64decode(data["image/png"])[16:20], "big")  # its width
        else:
            label = re.findall(r"\[\d\]", output.get("text", "") + data.get("text/plain", "") + label)[0]
    assert sorted(found) == ["[0]", "[1]", "[2]"], cell.outputs
    assert found["[0]"] < found["[1]"] < found["[2]"], found


def shown(notebook, n):
    """What a cell shows, streams and displays in their order."""
    return "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in notebook.cells[n].outputs)


@pytest.mark.parametrize("leave", ["threading.Thread(target=work).start()", "asyncio.create_task(task())"])
def test_what_a_cell_leaves_behind_at_home_shows_under_the_cell_that_runs(execute, leave):
    """nbclient reads only what belongs to the cell that it waits for."""
    notebook = execute(
        "import asyncio, threading\ngo, over = threading.Event(), threading.Event()\nhandle = display('old', display_id=True)\n"
        "def show():\n    print('late line')\n    display('late display')\n    handle.update('new')\n    over.set()\n"
        "def work():\n    go.wait()\n    show()\n"
        "async def task():\n    while not go.is_set():\n        await asyncio.sleep(0.01)\n    show()\n_ = " + leave,
        "go.set()\nwhile not over.is_set():\n    await asyncio.sleep(0.01)",
    )
    assert shown(notebook, 0) == "'new'"
    assert shown(notebook, 1) == "late line\n'late display'"


def test_what_comes_between_two_cells_shows_under_the_next_one(execute):
    notebook = execute(
        "import threading, time\ndef count():\n    for n in range(300):\n        print(n, end=' ')\n        time.sleep(0.002)\n"
        "t = threading.Thread(target=count)\nt.start()",
        *["pass"] * 10,
        "t.join()",
    )
    assert "".join(shown(notebook, n) for n in range(12)).split() == [str(n) for n in range(300)]


def test_what_a_call_of_a_thread_prints_shows_under_the_cell_that_runs(execute):
    notebook = execute(
        "import cellspan, threading\ngo = threading.Event()\ndef on_ranks():\n    print('from a rank')\n"
        "def work():\n    go.wait()\n    cellspan.run(on_ranks, n=2)\nt = threading.Thread(target=work)\nt.start()",
        "go.set()\nt.join()",
    )
    assert shown(notebook, 0) == "" and "from a rank" in shown(notebook, 1)


def test_what_threads_of_ranks_show_after_their_cell_shows_under_the_cell_that_runs(execute, tmp_path):
    go = str(tmp_path / "go")
    notebook = execute(
        "%%%%distribute -n 2\nimport os, threading, time\nhandle = display('old', display_id=True)\n"
        "def work():\n    while not os.path.exists(%r):\n        time.sleep(0.01)\n"
        "    display('late display')\n    handle.update('new')\n    print('late line')\n    open(%r + os.environ['RANK'], 'w')\n"
        "threading.Thread(target=work).start()" % (go, go),
        "import os, time\nopen(%r, 'w')\nwhile not all(os.path.exists(%r + n) for n in '01'):\n    time.sleep(0.01)\nimport cellspan\ncellspan.run(len, 'x', n=2)" % (go, go),
    )
    assert shown(notebook, 0).count("'new'") == 2, shown(notebook, 0)
    late = shown(notebook, 1)
    assert late.count("'late display'") == 2 and all(re.search(r"\[(%d|0-1)\] late line" % rank, late) for rank in range(2)), late


def test_an_error_stops_the_notebook_and_is_stored(execute):
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute("1/0", "never = 1")


def test_a_failed_rank_stops_the_notebook(execute):
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ValueError"):
        execute("%%distribute -n 2\nimport os\nif os.environ['RANK'] == '1':\n    raise ValueError('one rank')")


def test_a_dead_home_stops_the_notebook_with_a_reason(execute):
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="(?i)sigsegv|segmentation"):
        execute("import ctypes; ctypes.string_at(0)")


def test_errors_that_are_allowed_go_on(execute):
    notebook = execute("1/0", "2", allow_errors=True)
    assert notebook.cells[1].outputs[0].data["text/plain"] == "2"


def test_a_timeout_of_nbclient_interrupts_the_cell(execute):
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    with pytest.raises((CellTimeoutError, CellExecutionError)):
        execute(
            "'home is there'",
            "import time; time.sleep(600)",
            timeout_func=lambda cell: 2 if "sleep" in cell.source else 100,
            interrupt_on_timeout=True,
        )


def test_a_slow_start_leaves_nothing_in_a_stored_notebook(execute, monkeypatch, tmp_path):
    """The status of the start is seen, and withdrawn when ranks begin."""
    from nbclient import NotebookClient

    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(4)\n")
    monkeypatch.setenv("CELLSPAN_PRELOAD", "imported_slowly")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    seen = []

    class Watching(NotebookClient):
        def process_message(self, message, cell, cell_index):
            seen.extend(["status"] if "importing torch" in str(message["content"]) or "starting Python" in str(message["content"]) else [])
            return super().process_message(message, cell, cell_index)

    book = execute("%%distribute -n 2\nprint('from a rank')\n'result'", kind=Watching)
    assert seen, "the start was too fast for a status"
    kinds = [o.output_type for o in book.cells[0].outputs]
    took = any("done in" in str(o) for o in book.cells[0].outputs)  # on a busy machine the cell itself takes long
    text = "".join(o.text for o in book.cells[0].outputs if o.output_type == "stream")
    assert by_rank(text) == {0: ["from a rank"], 1: ["from a rank"]}, text  # two outputs, if the ranks print 100 ms apart
    kinds = [kind for k, kind in enumerate(kinds) if kind != "stream" or kinds[k - 1] != "stream"]
    assert kinds == ["display_data"] * took + ["stream", "execute_result"], book.cells[0].outputs
