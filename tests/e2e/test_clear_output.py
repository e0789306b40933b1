# SPDX-License-Identifier: BSD-3-Clause
"""clear_output() on ranks: each rank clears what it has shown itself."""

from __future__ import annotations

import pytest
from client import by_rank, is_status

HEAD = "import cellspan, os, random, time\nfrom IPython.display import HTML, clear_output, display, update_display\nrank = cellspan.rank()\n"


def form(content):
    data = content.get("data")
    return content["text"] if data is None else data.get("text/html", data["text/plain"]) + "\n"


def page(cell):
    """What a page shows at the end: clear_output(wait=True) clears it when the next output comes."""
    shown, waits = [], False
    for message in cell.of("stream", "display_data", "update_display_data", "clear_output"):
        content = message["content"]
        if is_status(message):
            continue
        if message["msg_type"] == "clear_output":
            waits = content["wait"]
            shown = shown if waits else []
            continue
        if message["msg_type"] == "update_display_data":
            name = content["transient"]["display_id"]
            shown = [(n, form(content) if n == name else text) for n, text in shown]
            continue
        shown, waits = [] if waits else shown, False
        shown.append((content.get("transient", {}).get("display_id"), form(content)))
    return "".join(text for _, text in shown)


def states(*lines):
    return {rank: [line % rank if "%" in line else line for line in lines] for rank in range(3)}


@pytest.mark.parametrize("merge", ["fold", "prefix"])
@pytest.mark.parametrize("how", ["clear_output(wait=True)", "clear_output()"])
def test_the_last_state_of_each_rank_is_left(nb, how, merge):
    cell = nb.ok("%%%%distribute -n 3 --merge %s\n%sprint('begins')\nfor i in range(9):\n    %s\n    print('state', i, 'of', rank)\n"
                 "    print('more', i)\n    time.sleep(random.random() * 0.05 + 0.02 * rank)" % (merge, HEAD, how))
    assert by_rank(page(cell)) == states("state 8 of %d", "more 8"), cell.stdout


def test_a_rank_that_clears_last_leaves_what_the_others_show(nb, tmp_path):
    cell = nb.ok("%%%%distribute -n 3\n%sclear_output()\nprint('at', rank)\ndisplay(HTML('<b>%%d</b>' %% rank))\nopen(%r + str(rank), 'w').close()\n"
                 "while rank == 0 and len(os.listdir(%r)) < 3: time.sleep(0.01)\n"
                 "if rank == 0:\n    clear_output(wait=True)\n    print('last')" % (HEAD, f"{tmp_path}/", str(tmp_path)))
    lines = page(cell).splitlines()
    assert lines[0] == "[0] last" and set(lines[1:]) == {"[1] at 1", "[2] at 2", "[1]", "<b>1</b>", "[2]", "<b>2</b>"}, cell.kinds


def test_displays_and_their_updates_are_shown_again(nb):
    cell = nb.ok("%%distribute -n 3\n" + HEAD + "for i in range(5):\n    clear_output(wait=True)\n    name = '%d-%d' % (rank, i)\n"
                 "    display(HTML('old'), display_id=name)\n    update_display(HTML('new %d' % i), display_id=name)\n    time.sleep(random.random() * 0.05)")
    assert page(cell).count("new 4\n") == 3 and "old" not in page(cell), page(cell)


def test_many_lines_after_a_clear_are_shown_once_each(nb):
    cell = nb.ok("%%distribute -n 3\n" + HEAD + "clear_output()\nfor i in range(500):\n    print('line', i, rank)\n    if i % 50 == 0: time.sleep(0.01)")
    assert by_rank(page(cell)) == {rank: ["line %d %d" % (i, rank) for i in range(500)] for rank in range(3)}
    assert len(cell.of("clear_output")) <= 3, "one for each rank at most, and none for each line"


def test_a_line_without_an_end_and_a_clear_by_some_ranks(nb):
    cell = nb.ok("%%distribute -n 3\n" + HEAD + "for i in range(4):\n    clear_output(wait=True)\n    print('part', rank, end='', flush=True)\n    time.sleep(0.2)")
    assert by_rank(page(cell)) == states("part %d"), page(cell)


def test_one_rank_of_a_world_that_clears_is_as_at_home(nb):
    cell = nb.ok("%%distribute -n 1\n" + HEAD + "for i in range(3):\n    print(i)\n    clear_output(wait=True)\nprint('end')")
    assert page(cell) == "end\n"
    cell = nb.ok("%%distribute -n 3 --merge rank0\n" + HEAD + "for i in range(3):\n    clear_output(wait=True)\n    print(i, rank)")
    assert page(cell) == "2 0\n"


def test_bars_stand_below_what_is_drawn_again(nb):
    cell = nb.ok("%%distribute -n 3\n" + HEAD + "for i in range(4):\n    clear_output(wait=True)\n    print('epoch', i, rank)\n"
                 "    for k in range(5):\n        print('\\r%d of 4' % k, end='', flush=True)\n        time.sleep(0.03)\n    print()")
    assert all("epoch 3 %d" % rank in by_rank(page(cell))[rank] for rank in range(3)) and "epoch 2" not in page(cell), page(cell)
