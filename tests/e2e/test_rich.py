# SPDX-License-Identifier: BSD-3-Clause
"""Output of ranks that is drawn with characters, by rich and others: in colour, complete, and without a terminal's control sequences."""

from __future__ import annotations

import re

import pytest
from client import ANSI, by_rank, rank_values
from packages import needs

needs("rich")

RANK = "import cellspan\nrank = cellspan.rank()\n"
TABLE = RANK + """
from rich.console import Console
from rich.table import Table
def table(*numbers):
    t = Table("rank", "loss")
    for n in numbers:
        t.add_row(str(n), "[red]0.5[/red]")
    Console().print(t)
"""
FIRST, LAST = "┏", "└"
NAMES = ("FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS")


def environment(nb, names=NAMES, options=""):
    return rank_values(nb, "import os\n[os.environ.get(n) for n in %r]" % (names,), n=2, options=options)


def tables(text):
    """[(label, rows)] of tables as they are shown, top to bottom; each must be whole."""
    found = []
    for label, line in re.findall(r"^\[([0-9,-]+)\] (.*)$", text, re.M):
        if line.startswith(FIRST):
            found.append((label, []))
        assert found and found[-1][0] == label and not (found[-1][1] and found[-1][1][-1].startswith(LAST)), text
        found[-1][1].append(line)
    assert all(rows[-1].startswith(LAST) for _, rows in found), text
    return found


@pytest.mark.parametrize("merge", ["fold", "prefix"])
def test_tables_of_ranks_are_whole_and_in_colour(nb, merge):
    nb.ok("%%distribute -n 4\n" + TABLE)
    for _ in range(3):
        cell = nb.ok("%%%%distribute -n 4 --merge %s\ntable(rank, 7)\ntable(-rank, 7)" % merge)
        shown = [(label, rows) for label, rows in tables(cell.stdout)]
        if merge == "fold":  # the second tables of rank 0 and the first are alike
            assert sorted(label for label, _ in shown) == ["0", "0", "1", "1", "2", "2", "3", "3"], cell.stdout
        for label, rows in shown:
            assert len(rows) == 6 and "\x1b[31m0.5" in rows[3], rows
            assert ANSI.sub("", rows[3]).split()[1].lstrip("-") == label and ANSI.sub("", rows[4]).split()[1] == "7"


def test_equal_tables_are_one(nb):
    table = "\n".join("[0-3] " + row for row in ("┏━━━┓", "┃ a ┃", "┡━━━┩", "│ 1 │", "└───┘")) + "\n"
    nb.ok_folded("%%distribute -n 4\nfrom rich.table import Table\nfrom rich.console import Console\n"
                 "t = Table('a', header_style='')\nt.add_row('1')\nConsole(highlight=False).print(t)", table)


def test_a_table_is_in_the_logs_as_it_was_drawn(nb):
    nb.ok("%%distribute -n 2\n" + TABLE)
    nb.ok("%%distribute -n 2\ntable(rank)")
    logs = ANSI.sub("", nb.ok("%ranks logs -r 1").stdout)
    assert "│ 1    │ 0.5  │" in logs and logs.count(FIRST) == logs.count(LAST) == 1


def test_rich_is_as_wide_on_ranks_as_at_home(nb):
    nb.ok("from rich.console import Console\nsize = Console().size")
    assert rank_values(nb, "from rich.console import Console\ntuple(Console().size) == tuple(size)", n=2) == [True, True]
    assert rank_values(nb, "Console().size.width", n=2, options="--env COLUMNS=44") == [44, 44]


@pytest.mark.parametrize("options, label", [("-n 2", "[%d] "), ("-n 1", ""), ("-n 2 --merge rank0", "")])
def test_richs_bars_are_redrawn_in_place(nb, options, label):
    cell = nb.ok(
        "%%distribute " + options + "\n" + RANK + "import time\nfrom rich.progress import Progress\nwith Progress() as p:\n"
        "    outer, inner = p.add_task('outer of %d' % rank, total=5), p.add_task('inner', total=10)\n"
        "    for _ in range(5):\n        p.advance(outer)\n        p.advance(inner)\n        time.sleep(0.2)",
        limit=100,
    )
    drawn = [m["content"]["data"]["text/plain"] for m in cell.of_code("display_data", "update_display_data")]
    drawn = [text for text in drawn if "outer" in text]
    assert len(drawn) > 2 and "\x1b[" in drawn[-1], drawn
    both = [text for text in drawn if text.count("outer") == text.count("inner")]
    assert len(both) >= len(drawn) - 2, drawn  # at the start one may be there alone
    assert not re.search(r"\x1b\[[0-9?]*[A-Zhl]", cell.stdout + "".join(drawn)), (cell.stdout, drawn)
    lines = ANSI.sub("", cell.stdout).splitlines()
    for rank in range(2 if label else 1):
        assert len([x for x in lines if x.startswith(label and label % rank) and "outer of %d" % rank in x and "100%" in x]) == 1, lines
    assert all("outer" in line or "inner" in line for line in lines), lines


def test_libraries_are_told_of_colours_and_nobody_of_a_width(fresh):
    nb = fresh(env={"TERM": "dumb"})
    assert environment(nb) == [["1", "1", "xterm-256color", None]] * 2
    assert environment(nb, options="--env FORCE_COLOR=0 --env TERM=vt100") == [["0", "1", "vt100", None]] * 2


@pytest.mark.parametrize("env, told", [({"NO_COLOR": "1"}, [None, None]), ({"FORCE_COLOR": "0"}, ["0", "1"])])
def test_the_users_own_word_on_colours_holds(fresh, env, told):
    nb = fresh(env=env)
    assert environment(nb, NAMES[:2]) == [told] * 2
    cell = nb.ok("%%distribute -n 2\n" + TABLE + "table(7)")
    assert "\x1b[31m" not in cell.stdout or told[0] == "0", cell.stdout  # any value of FORCE_COLOR forces rich


def test_scripts_are_not_told_of_colours(nb, tmp_path):
    script = tmp_path / "names.py"
    script.write_text("import os\nprint([os.environ.get(n) for n in %r])" % (NAMES[:2],))
    assert by_rank(nb.ok("%%distribute -n 2 %s" % script).stdout) == {0: ["[None, None]"], 1: ["[None, None]"]}


def test_pips_colours_make_no_lines(nb):
    code = "import sys\nsys.stdout.write('\\x1b[33mwarning\\n\\x1b[0m')\nsys.stdout.flush()\nimport time\ntime.sleep(0.6)"
    cell = nb.ok("%%distribute -n 2\n" + code)
    assert ANSI.sub("", cell.stdout).splitlines() in (["[0-1] warning"], ["[0] warning", "[1] warning"], ["[1] warning", "[0] warning"])
