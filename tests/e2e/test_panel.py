# SPDX-License-Identifier: BSD-3-Clause
"""--merge panel: a tab for each rank. These are the messages; test_panel_page.py looks at the page."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess

import pytest
from client import KERNEL, all_print, by_rank
from jupyter_client.kernelspec import KernelSpecManager
from packages import needs
from test_nbclient import execute  # noqa: F401 - a fixture
from test_page import SERVER, check_window

RANK = "import cellspan, sys, time\nfrom IPython.display import HTML, Image, clear_output, display\nrank = cellspan.rank()\n"
PANEL = "%%distribute -n 4 --merge panel\n" + RANK
TEXTS = "cellspan-panel-"  # the id of the display with the texts of all tabs


def texts_of(cell):
    """Every state of the texts: (when it was sent, in seconds; the bundle)."""
    return [
        (m["header"]["date"].timestamp(), m["content"]["data"])
        for m in cell.messages
        if m["content"].get("transient", {}).get("display_id", "").startswith(TEXTS)
    ]


def tabs(bundle):
    """{tab: (what stands above its lines, its lines)}: the last state."""
    found = {}
    for head, rest in re.findall(r'<div class="cs\S+-b [^"]*"><div class="cellspan-says">(.*?)</div>(.*?)</div>\n(?=<div|$)', bundle["text/html"], re.S):
        name, _, state = re.sub(r"<.*?>", "", head).partition(" ")
        if name == "rank":
            name, _, state = state.partition(" ")
        pre = re.search(r"<pre>(.*)</pre>", rest, re.S)
        found[name] = (state, html.unescape(re.sub(r"<.*?>", "", pre[1])) if pre else None)
    return found


def last(cell):
    return tabs(texts_of(cell)[-1][1])


def bars(cell):
    return [m for m in cell.of_code("display_data") if "<form" in m["content"]["data"].get("text/html", "")]


def test_each_rank_has_a_tab_and_all_is_in_front_as_fold_shows_it(nb):
    cell = nb.run_until(PANEL + "print('all print this')\nprint('<b>only</b> &', rank)\nprint('bad', file=sys.stderr)\nrank * 10",
                        lambda cell: "[0-3] all print this" in texts_of(cell.assert_ok())[-1][1]["text/plain"])
    assert cell.stdout == cell.stderr == "", "lines of ranks stand in the tabs alone"
    bar, = bars(cell)
    assert cell.messages.index(bar) < cell.messages.index(cell.of_code("display_data")[1])
    assert set(bar["content"]["data"]) == {"text/html"} and "display_id" not in bar["content"].get("transient", {})
    text = texts_of(cell)[-1][1]["text/plain"]
    want = {r: ["<b>only</b> & %d" % r, "all print this", "bad"] for r in range(4)}  # the two streams come in any order
    assert {r: sorted(lines) for r, lines in by_rank(text).items()} == want
    shown = last(cell)
    assert shown.pop("All") == ("ranks 0-3 done", text)
    assert {name: (state, sorted(lines.splitlines())) for name, (state, lines) in shown.items()} == {str(r): ("done", want[r]) for r in range(4)}
    assert cell.value == "0"


def test_one_rank_and_the_other_ways_have_no_tabs(nb):
    assert nb.ok("%%distribute -n 1 --merge panel\nprint('one')").stdout == "one\n"
    assert nb.ok("%%distribute -n 4 -r 2 --merge panel\nprint('two')").stdout == "two\n"
    assert not nb.ok("%%distribute -n 4\nprint('folded')").of_code("display_data")
    assert not nb.ok("%%distribute -n 4 --merge panel\n1").of_code("display_data"), "a cell that shows nothing has no tabs"


def test_the_texts_are_sent_twice_a_second_and_only_when_they_change(nb, gate):
    cell = nb.start(PANEL + "for i in range(30):\n    print('line', i)\n    time.sleep(0.1)\n" + gate.code + "print('end')")
    nb.wait(cell, until=lambda: texts_of(cell) and all_print(last(cell)["All"][1] or "", "line 29", 4)
            and all("line 29\n" in (last(cell)[str(rank)][1] or "") for rank in range(4)))
    shown = len(texts_of(cell))
    nb.until(lambda: len(texts_of(cell)) > shown, 2)
    assert len(texts_of(cell)) == shown, "nothing has changed"
    gate.open()
    nb.wait(cell).assert_ok()
    times = [at for at, _ in texts_of(cell)]
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert len(bars(cell)) == 1 and 4 <= len(times) <= 2 * (times[-1] - times[0]) + 3, times
    assert sorted(gaps)[1] > 0.3, gaps  # the last one is sent at once, when the cell is over
    assert last(cell)["3"][1] == "".join("line %d\n" % i for i in range(30)) + "end\n"


def test_a_failed_rank_is_named_in_front_and_in_its_tab(nb):
    cell = nb.run(PANEL + "print('begun')\nassert rank != 2, 'two'").assert_error("AssertionError")
    shown = last(cell)
    assert shown["All"][0].startswith("rank 2 failed, ") and shown["2"] == ("failed", "begun\n")
    assert 'b2 jp-RenderedText cellspan-bad"' in texts_of(cell)[-1][1]["text/html"]


def test_a_rank_that_dies_is_named(fresh):
    nb = fresh()
    cell = nb.run(PANEL + "import os\nprint('begun', flush=True)\ntime.sleep(0.3)\nif rank == 1: os._exit(3)\nprint('more')")
    assert cell.status == "error" and last(cell)["1"] == ("dead", "begun\n"), last(cell)
    assert last(nb.ok("%%distribute -n 4 --merge panel\nprint('again')"))["1"] == ("done", "again\n")


def test_the_tab_of_a_rank_that_ends_silently_says_so_before_the_cell_is_over(nb, gate):
    cell = nb.start(PANEL + "print('begun')\nif rank == 0:\n    " + gate.code.replace("\n", "\n    "))
    nb.until(lambda: texts_of(cell) and last(cell)["3"][0] == "done" and last(cell)["1"][0] == "done")
    assert last(cell)["0"][0] == "running" and cell.reply_message is None
    gate.open()
    nb.wait(cell)


def test_an_interrupt_leaves_the_last_state(nb):
    cell = nb.start(PANEL + "print('waits')\ntime.sleep(600)")
    nb.until(lambda: texts_of(cell))
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert {state for name, (state, _) in last(cell).items() if name != "All"} == {"interrupted"}


def marks(cell):
    """What stands on the page behind the texts: [(rank, is it alone?, the bundle)]."""
    found = []
    for bundle in cell.displays_of_code[2:]:
        mark = re.match(r'<div class="cellspan-whose cs\S+-m (?:(cs\S+-n) )?cs\S+-m(\d+)">\[\2\]</div>\n', bundle.get("text/html", ""))
        found.append((int(mark[2]), bool(mark[1]), bundle) if mark else (None, False, bundle))
    return found


def test_displays_are_outputs_of_their_own_with_the_mark_of_their_rank(nb):
    cell = nb.ok(PANEL + "if rank in (1, 2): display(HTML('<i>own %d</i>' % rank))\nif rank == 3: display({'image/png': 'iVBORw0KGgo='}, raw=True)\nif rank == 0: display('only text')")
    found = marks(cell)
    assert sorted(b["text/html"].split("\n")[1] for r, alone, b in found if r in (1, 2) and not alone) == ["<i>own 1</i>", "<i>own 2</i>"]
    at = [(r, alone) for r, alone, _ in found].index((3, True))
    assert "image/png" in found[at + 1][2], "the mark stands before what has no HTML"
    assert last(cell)["0"][1] == "'only text'\n", "a display that is only text is printed"


def test_a_display_that_its_rank_updates_keeps_its_id(nb):
    cell = nb.ok(PANEL + "if rank == 2:\n    h = display(HTML('first'), display_id='mine')\n    h.update(HTML('second'))")
    assert [(r, alone) for r, alone, _ in marks(cell)] == [(2, True), (None, False)]
    assert cell.displays_of_code[-1]["text/html"] == "second"


def test_a_widget_stands_behind_the_mark_of_its_rank(nb):
    needs("ipywidgets")
    cell = nb.ok(PANEL + "import ipywidgets\nif rank == 1: display(ipywidgets.IntSlider(value=7))")
    assert [(r, alone) for r, alone, _ in marks(cell)] == [(1, True), (None, False)]
    assert "application/vnd.jupyter.widget-view+json" in cell.displays_of_code[-1] and len(cell.of("comm_open")) == 3


def test_clear_output_empties_the_tab_and_the_next_display_takes_the_place(nb):
    cell = nb.ok(
        PANEL + "print('old')\nfor i in range(30):\n    clear_output(wait=True)\n    print('step', i)\n"
        "    display(HTML('<b>frame %d of %d</b>' % (i, rank)))\nif rank == 1: clear_output()", limit=60)
    assert not cell.of("clear_output") and len(cell.of_code("display_data")) == 6
    assert sorted(b["text/html"].split("\n")[1] for _, _, b in marks(cell) if "text/html" in b) == ["<b>frame 29 of %d</b>" % r for r in (0, 2, 3)]
    assert last(cell)["0"] == ("done", "step 29\n") and last(cell)["1"] == ("done", None)


def test_clear_output_empties_a_display_that_its_rank_has_named(nb):
    cell = nb.ok(PANEL + "display(HTML('old'), display_id='mine-%d' % rank)\nclear_output()\ndisplay(HTML('new'))\nif rank == 3: clear_output(wait=True)")
    shown = [b for _, _, b in marks(cell) if b != {"text/plain": ""}]
    assert sorted(b["text/html"].split("\n")[1] for b in shown) == ["new"] * 4, "a clear that waits for an output which never comes does nothing"


def test_a_script_has_tabs_too(nb, tmp_path):
    (tmp_path / "script.py").write_text("import os\nprint('rank', os.environ['RANK'], 'of the script')\n")
    shown = last(nb.ok("%%distribute -n 2 --merge panel %s" % (tmp_path / "script.py")))
    assert {name: shown[name] for name in "01"} == {str(r): ("done", "rank %d of the script\n" % r) for r in range(2)}


def test_a_question_stands_below_the_lines_that_came_before_it(nb):
    cell = nb.ok(PANEL + "print('before')\nif rank == 1: print('hello', input('who? '))", answer="Ada")
    assert [p["prompt"] for p in cell.prompts] == ["[1] who? "] and last(cell)["1"] == ("done", "before\nhello Ada\n")


def test_a_page_gets_at_most_40_outputs_and_what_is_left_out_is_counted(nb):
    cell = nb.ok(PANEL + "for i in range(20): display(HTML('<b>%d</b>' % i))")
    assert len(cell.of_code("display_data")) == 40
    assert "42 displays are left out" in texts_of(cell)[-1][1]["text/html"]


def test_progress_bars_stand_below_the_lines(nb, gate):
    needs("tqdm")
    waits = "def waits():\n    " + gate.code.replace("\n", "\n    ") + "\n"
    cell = nb.start(PANEL + waits + "from tqdm import tqdm\nprint('before')\nfor i in tqdm(range(5)):\n    time.sleep(0.2)\n    if i == 3: waits()")
    nb.wait(cell, until=lambda: any(re.search(r"^before\n +[2468]0%\|", tabs(bundle)["2"][1] or "") for _, bundle in texts_of(cell)))
    gate.open()
    nb.wait(cell).assert_ok()
    assert re.fullmatch(r"before\n100%\|.*\| 5/5 .*\n", last(cell)["2"][1])


@pytest.mark.limit(300)
def test_a_flood_shows_the_last_lines_and_a_server_lets_all_through(fresh):
    nb = fresh(env=SERVER)
    cell = nb.ok(PANEL + "for i in range(40_000): print('line', i, 'of', rank, 'x' * 50)", limit=250)
    check_window(cell)
    for _, bundle in texts_of(cell):
        assert len(repr(bundle)) < 1 << 20
    for rank in range(4):
        lines = last(cell)[str(rank)][1].splitlines()
        assert lines == ["line %d of %d %s" % (i, rank, "x" * 50) for i in range(40_000 - len(lines), 40_000)] and len(lines) > 500
    said = re.findall(r"(\d+) earlier lines: <code>(.*?)</code>", texts_of(cell)[-1][1]["text/html"])
    assert said[2] == (str(40_000 - len(last(cell)["1"][1].splitlines())), "%%ranks logs -r 1 --cell %d" % cell.reply["execution_count"])
    assert nb.ok(said[2][1], limit=100).stdout.startswith("line 0 of 1 x")


@pytest.mark.limit(300)
def test_the_last_frame_of_each_rank_is_shown_though_a_server_lets_few_through(fresh):
    nb = fresh(env=SERVER)
    cell = nb.ok(PANEL + "for i in range(200):\n    clear_output(wait=True)\n    display(HTML('<b>frame %d</b>' % i + 'x' * 20_000))", limit=250)
    check_window(cell)
    assert [(r, b["text/html"].split("\n")[1][:16]) for r, _, b in sorted(marks(cell), key=lambda m: m[0])] == [(r, "<b>frame 199</b>") for r in range(4)]
    assert "displays are left out" in texts_of(cell)[-1][1]["text/html"]


@pytest.mark.limit(300)
def test_a_display_that_waits_is_shown_as_its_rank_has_updated_it(fresh):
    nb = fresh(env=SERVER)
    cell = nb.ok(PANEL + "big = 'x' * 20_000\nfor i in range(100):\n    clear_output(wait=True)\n    display(HTML('<b>frame %d</b>' % i + big))\n"
                 "h = display(HTML('<b>first</b>' + big), display_id=f'of {rank}')\nfor i in range(20):\n    h.update(HTML('<b>update %d</b>' % i + big))", limit=250)
    check_window(cell)
    for rank in range(4):
        mine = [m for m in cell.of("display_data", "update_display_data") if m["content"].get("transient", {}).get("display_id") == f"of {rank}"]
        assert mine and mine[0]["msg_type"] == "display_data", rank
        assert "<b>update 19</b>" in mine[-1]["content"]["data"]["text/html"], rank


def test_a_setting_makes_it_the_default(fresh):
    nb = fresh(env={"CELLSPAN_MERGE": "panel"})
    assert last(nb.ok("%%distribute -n 2\nprint('hello')"))["1"] == ("done", "hello\n")
    nb.ok_folded("%%distribute -n 2 --merge fold\nprint('hello')", "[0-1] hello\n")
    call = "import cellspan\ndef hello(): print('from a function')\ncellspan.run(hello, n=2%s)"
    nb.ok_folded(call % "", "[0-1] from a function\n")  # calls may be many
    assert last(nb.ok(call % ", merge='panel'"))["0"] == ("done", "from a function\n")


def test_a_setting_that_is_wrong_is_named(fresh):
    nb = fresh(env={"CELLSPAN_MERGE": "tabs"})
    cell = nb.ok("%%distribute -n 2\nprint('hello')")
    assert "CELLSPAN_MERGE=tabs: fold, prefix, rank0, panel or raw is wanted; fold is used" in cell.stderr
    assert by_rank(cell.stdout) == {0: ["hello"], 1: ["hello"]}, cell.shown
    nb.ok_folded("%%distribute -n 2\nprint('hello')", "[0-1] hello\n")


def test_a_terminal_gets_lines(tmp_path, jupyter_env):
    (tmp_path / "script.py").write_text("print('hello')\n")
    done = subprocess.run(
        ["cellspan", "run", "-n", "2", "--merge", "panel", "script.py"], cwd=tmp_path, env=jupyter_env, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and by_rank(done.stdout) == {0: ["hello"], 1: ["hello"]}, done


def test_a_notebook_without_a_page_keeps_the_last_state(execute):  # noqa: F811
    cell = execute(PANEL + "for i in range(10):\n    clear_output(wait=True)\n    display(HTML('%d' % i))\n    print('line', i)\n    time.sleep(0.05)\nclear_output(wait=True)").cells[0]
    outputs = [o for o in cell.outputs if "cellspan-status" not in o.data.get("text/html", "")]  # it may be slow
    assert [o.output_type for o in outputs] == ["display_data"] * 6
    lines = by_rank(outputs[1].data["text/plain"])
    assert [lines[rank][-1] for rank in range(4)] == ["line 9"] * 4 and tabs(outputs[1].data)["3"][1] == "line 9\n"


@pytest.mark.clients
@pytest.mark.parametrize("clean", [False, True])
def test_nbconvert_writes_the_tabs_or_all_texts_under_headings(tmp_path, jupyter_env, clean):
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PANEL + "print('text of', rank)")])
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "", "language": "python"}
    nbformat.write(notebook, str(tmp_path / "n.ipynb"))
    command = ["jupyter", "nbconvert", "--execute", "--to", "html", "n.ipynb"] + ["--sanitize-html"] * clean
    done = subprocess.run(command, cwd=tmp_path, env=dict(jupyter_env, PYTHONWARNINGS="ignore"), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "n.html").read_text()
    page = page[page.index("text of") :]  # behind the cell itself
    assert page.count("<b>rank 2</b> done") == 1 and "text of 2" in page and "<b>All</b> ranks 0-3 done" in page
    assert ("<form" in page) is not clean and "&lt;label" not in page and (":checked" in page) is not clean


def test_tabs_and_the_status_are_displays_and_need_no_comm(fresh):
    nb = fresh(env=SERVER)
    cell = nb.ok(PANEL + "time.sleep(4)\nprint('end')")
    assert not cell.of("comm_open", "comm_msg"), cell.kinds
    kinds = {}
    for message in cell.of("display_data", "update_display_data"):
        kinds.setdefault(message["content"].get("transient", {}).get("display_id"), []).append(message["msg_type"])
    kinds.pop(None)  # the bar of the tabs is never updated
    assert len(kinds) == 2 and all(sent == ["display_data"] + ["update_display_data"] * (len(sent) - 1) for sent in kinds.values()), kinds


@pytest.mark.parametrize("between", [False, True], ids=["the server starts the kernel", "a script between them starts it"])
def test_a_server_that_runs_the_cell_itself_gets_lines_for_it_may_not_update_a_display(fresh, tmp_path, between):
    options = {}
    if between:  # as the kernelspec of an environment that `conda run` enters
        ours = KernelSpecManager().get_kernel_spec(KERNEL)
        (tmp_path / "between").mkdir()
        spec = {"argv": ["/bin/sh", "-c", '"$@"; exit $?', "sh", *ours.argv], "display_name": "between", "language": "python"}
        (tmp_path / "between" / "kernel.json").write_text(json.dumps(spec))
        options = {"kernel": "between", "kernel_spec_manager": KernelSpecManager(kernel_dirs=[str(tmp_path)])}
    nb = fresh(env=SERVER, **options)
    content = {"code": PANEL + "time.sleep(4)\nprint('end')", "silent": False, "store_history": True, "allow_stdin": False}
    cell = nb.send("execute_request", content, header={"msg_id": "session_%d_1" % os.getpid()})  # as jupyter_client makes it
    nb.wait(cell).assert_ok()
    assert by_rank(cell.stdout) == {rank: ["end"] for rank in range(4)} and not cell.of("display_data", "update_display_data"), cell.shown
