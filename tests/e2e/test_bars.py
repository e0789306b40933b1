# SPDX-License-Identifier: BSD-3-Clause
"""Progress bars of ranks: one that has ended stands where it ended, among the lines of its rank. Ranks wait for files of the
test, so that their order is certain on any machine."""

from __future__ import annotations

import re

import pytest
from client import KERNEL, by_rank
from packages import needs
from processes import wait_until
from servers import serving

needs("tqdm")
HEAD = ("%%%%distribute -n %d\nimport cellspan, os, sys, time\nfrom tqdm import tqdm\nrank = cellspan.rank()\n"
        "def wait(name):\n    while not os.path.exists(%r + '/' + name): time.sleep(0.01)\n")
LOOPS = {  # the loop, and its rank's lines at the end
    "print after": ("for _ in tqdm(range(3), 'bar'): pass\nprint('done')", ["bar", "done"]),
    "print within": ("for i in tqdm(range(3), 'bar'): print('loss', i)\nprint('done')", ["loss 0", "loss 1", "loss 2", "bar", "done"]),
    "prints between": ("for e in range(2):\n    for _ in tqdm(range(3), 'bar %d' % e): pass\n    print('epoch', e)",
                       ["bar 0", "epoch 0", "bar 1", "epoch 1"]),
    "write": ("for i in tqdm(range(2), 'bar'): tqdm.write('written %d' % i)\nprint('done')", ["written 0", "written 1", "bar", "done"]),
    "nested": ("for e in tqdm(range(2), 'outer'):\n    for _ in tqdm(range(3), 'inner', leave=False): pass\n    print('epoch', e)\nprint('done')",
               ["epoch 0", "epoch 1", "outer", "done"]),
    "nested, left": ("for e in tqdm(range(2), 'outer'):\n    for _ in tqdm(range(3), 'inner'): pass\nprint('done')",
                     ["inner", "inner", "outer", "done"]),
    "stderr after": ("for _ in tqdm(range(3), 'bar'): pass\nprint('warning', file=sys.stderr)\nprint('done')", ["bar", "warning", "done"]),
    "no newline": ("print('first')\nfor i in range(3): print('\\rstep %d: 100%%' % i, end='', flush=True)", ["first", "step 2"]),
}


def head(n, folder):
    return HEAD % (n, str(folder))


def names(lines):
    """The lines, and of a bar its name alone; a bar is to be at its end."""
    bars = [re.fullmatch(r"(.+?): +(\d+)%.*", line) for line in lines]
    assert all(bar is None or bar[2] == "100" for bar in bars), lines
    return [bar[1] if bar else line for bar, line in zip(bars, lines)]


def text_of(outputs):
    """What a notebook or a cell shows, from the top."""
    return "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


@pytest.mark.parametrize("kernel", ["nb", "paged"])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_bar_that_has_ended_stands_among_the_lines_of_its_rank(request, kernel, loop, tmp_path):
    nb = request.getfixturevalue(kernel)
    code, want = LOOPS[loop]
    cell = nb.ok(head(2, tmp_path) + code, limit=100)
    shown = by_rank("".join(m["content"]["text"] for m in cell.of("stream")))
    order = {rank: names(lines) for rank, lines in shown.items()}
    if loop == "stderr after":  # lines of the two streams may change places; the bar comes before both
        order = {rank: lines[:1] + sorted(lines[1:], reverse=True) for rank, lines in order.items()}
    assert order == {0: want, 1: want}, cell.shown
    assert not any(d.get("text/plain") for d in cell.displays), "nothing is drawn any more"
    on_stderr = kernel == "nb" and loop != "no newline"
    assert ("100%" in cell.stderr) == on_stderr and ("100%" in cell.stdout) != on_stderr, cell.shown


def drawn(cell):
    """The bars that are drawn now."""
    return "".join(d.get("text/plain", "") for d in cell.displays)


def test_bars_that_end_at_different_times_stand_together_in_order_of_rank(paged, tmp_path):
    code = "for i in tqdm(range(2), 'bar of %d' % rank):\n    if i: wait(str(rank))"
    cell = paged.start(head(4, tmp_path) + code)
    for rank in (2, 0, 3, 1):
        paged.wait(cell, until=lambda: all("bar of %d:" % r in drawn(cell) for r in range(4)))
        (tmp_path / str(rank)).touch()
        if rank != 1:
            paged.wait(cell, until=lambda: re.search(r"bar of %d: 100%%" % rank, drawn(cell)))
    paged.wait(cell).assert_ok()
    assert names([line.split("] ")[1] for line in cell.stdout.splitlines()]) == ["bar of %d" % rank for rank in range(4)]


def test_bars_that_go_on_move_below_the_lines_on_a_page(paged, tmp_path):
    code = "for e in range(2):\n    for i in tqdm(range(2), 'bar %d' % e):\n        if i: wait(str(e))\n    print('epoch', e)"
    cell = paged.start(head(2, tmp_path) + code)
    paged.wait(cell, until=lambda: "bar 0:" in drawn(cell))
    (tmp_path / "0").touch()
    paged.wait(cell, until=lambda: "bar 1:" in drawn(cell) and "epoch 0" in cell.stdout)
    paged.wait(cell, until=lambda: "bar 0:" not in drawn(cell))
    kinds = [m["msg_type"] for m in cell.of("stream", "display_data") if "bar 1" in str(m["content"]) or "epoch 0" in str(m["content"])]
    assert kinds[0] == "stream" and kinds[-1] == "display_data", cell.shown
    (tmp_path / "1").touch()
    paged.wait(cell).assert_ok()


def test_a_cell_with_many_bars_makes_few_outputs(paged, tmp_path):
    cell = paged.ok(head(2, tmp_path) + "for e in range(60):\n    for i in tqdm(range(2), 'bar'): pass\n    print('epoch', e); time.sleep(0.05)", limit=200)
    assert len(cell.of_code("display_data")) <= 22
    assert [line for line in by_rank(cell.stdout)[0] if "epoch" in line] == ["epoch %d" % e for e in range(60)]


def test_nbconvert_stores_bars_where_they_ended(nb, tmp_path):
    import nbformat

    nbconvert = pytest.importorskip("nbconvert.preprocessors")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(head(2, tmp_path) + code) for code, _ in LOOPS.values()])
    nbconvert.ExecutePreprocessor(kernel_name=KERNEL, timeout=200, iopub_timeout=60).preprocess(notebook)
    for cell, (loop, (_, want)) in zip(notebook.cells, LOOPS.items()):
        if loop != "stderr after":
            assert {rank: names(lines) for rank, lines in by_rank(text_of(cell.outputs)).items()} == {0: want, 1: want}, (loop, cell.outputs)


@pytest.mark.clients
def test_jupyterlab_shows_bars_and_lines_as_one_block(tmp_path, monkeypatch):
    import nbformat

    from test_lab import CHROMIUM, DRIVER, By, Lab, browser

    if not (CHROMIUM and DRIVER):
        pytest.skip("no Chromium with its driver here")
    monkeypatch.setenv("CELLSPAN_STATUS", "off")  # that of a slow cell would be an output between two lines, empty at the end
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
    nbformat.write(notebook, str(tmp_path / "bars.ipynb"))
    with serving(tmp_path) as url:
        driver = browser(tmp_path)
        try:
            lab = Lab(driver, url + "/lab/workspaces/bars/tree/bars.ipynb?reset")
            lab.run(0, head(2, tmp_path) + "for i in tqdm(range(3), 'bar'): print('loss', i)\nprint('the ' + 'end')")
            assert wait_until(lambda: by_rank(lab.output(0)).keys() == {0, 1} and lab.ready(), 100), lab.output(0)
            assert wait_until(lambda: all(lines[-1] == "the end" for lines in by_rank(lab.output(0)).values()), 60), lab.output(0)
            lines = by_rank(lab.output(0))
            assert {rank: names(text) for rank, text in lines.items()} == {r: ["loss 0", "loss 1", "loss 2", "bar", "the end"] for r in (0, 1)}
            outputs = lab.cell(0).find_elements(By.CSS_SELECTOR, ".jp-OutputArea-child")
            seen = [e for e in outputs if e.rect["height"]]
            assert len(seen) == 1, [(e.rect, e.text) for e in outputs]
            colour = "return getComputedStyle(arguments[0].querySelector('.jp-OutputArea-output')).backgroundColor"
            assert driver.execute_script(colour, seen[0]) == "rgba(0, 0, 0, 0)"
        finally:
            driver.quit()
