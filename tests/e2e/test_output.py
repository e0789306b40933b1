# SPDX-License-Identifier: BSD-3-Clause
"""Much output, long lines, random bytes: every byte arrives, in few messages, none too large."""

from __future__ import annotations

import re

import pytest
from packages import needs

MIB = 1 << 20
PER_SECOND = 20


def check_rate(cell):
    """No second with more than 20 stream messages, no message over 1 MiB."""
    times = [at for at, m in zip(cell.times, cell.messages) if m["msg_type"] == "stream"]
    sizes = [len(m["content"]["text"].encode()) for m in cell.of("stream")]
    assert max(sizes, default=0) <= MIB
    # The kernel's clock, not this client's: what waited in a socket arrives in a bunch.
    from datetime import datetime

    sent = sorted(
        m["header"]["date"].timestamp() if isinstance(m["header"]["date"], datetime) else
        datetime.fromisoformat(m["header"]["date"].replace("Z", "+00:00")).timestamp()
        for m in cell.of("stream")
    )
    volume = sum(sizes)
    # What is full is sent at once: a message a MiB may come on top.
    allowed = PER_SECOND + 2
    for i in range(len(sent) - allowed):
        within = sent[i + allowed] - sent[i]
        assert within > 0.95 or volume > 18 * MIB, "%d messages in %.2f s" % (allowed, within)
    return times


@pytest.mark.limit(500)
def test_two_hundred_megabytes_of_home_arrive_whole(nb):
    """A million lines of 203 characters, each with its number: reading shorter ones takes the test most of its time."""
    cell = nb.ok(
        "import sys\nline = 'x' * 195\nfor i in range(1_000_000):\n    sys.stdout.write('%07d %s\\n' % (i, line))", limit=400
    )
    text = cell.stdout
    assert len(text) == 1_000_000 * 204
    lines = text.split("\n")
    assert lines[-1] == "" and len(lines) == 1_000_001
    assert all(line.startswith("%07d " % i) for i, line in enumerate(lines[:-1]))
    assert max(len(m["content"]["text"].encode()) for m in cell.of("stream")) <= MIB


@pytest.mark.limit(500)
def test_two_hundred_megabytes_of_four_ranks_arrive_whole(nb):
    cell = nb.ok(
        "%%distribute -n 4 --merge prefix\nimport os, sys\nrank = os.environ['RANK']\nline = 'x' * 190\n"
        "for i in range(250_000):\n    sys.stdout.write('%s %07d %s\\n' % (rank, i, line))",
        limit=400,
    )
    seen = [0] * 4
    for line in cell.stdout.split("\n")[:-1]:
        label, rank, number, rest = line.split(" ")
        assert label == "[%s]" % rank and int(number) == seen[int(rank)] and len(rest) == 190
        seen[int(rank)] += 1
    assert seen == [250_000] * 4
    assert max(len(m["content"]["text"].encode()) for m in cell.of("stream")) <= MIB


@pytest.mark.parametrize("where", ["", "%%distribute -n 2 --ranks 0 --merge raw\n"], ids=["home", "rank"])
def test_one_line_of_fifty_megabytes_arrives_whole(nb, where):
    cell = nb.ok(where + "import sys\n_ = sys.stdout.write('y' * 50_000_000)", limit=200)
    text = cell.stdout.replace("\n", "")
    assert len(text) == 50_000_000 and set(text) == {"y"}
    assert max(len(m["content"]["text"].encode()) for m in cell.of("stream")) <= MIB


@pytest.mark.parametrize("where", ["", "%%distribute -n 2 --ranks 0 --merge raw\n"], ids=["home", "rank"])
def test_binary_junk_is_shown_replaced_and_harms_nobody(nb, where):
    cell = nb.ok(
        where + "import os, random\nr = random.Random(1)\n"
        "for _ in range(50):\n    _ = os.write(1, bytes(r.randrange(256) for _ in range(4000)))\n"
        "_ = os.write(1, b'\\nthe end\\n')"
    )
    assert "\ufffd" in cell.stdout and "the end\n" in cell.stdout
    assert nb.ok("1").value == "1"


def test_characters_that_are_cut_between_writes_arrive_whole(nb):
    cell = nb.ok(
        "import os, time\nfor b in ('\u20ac\U0001f600' * 50).encode():\n"
        "    _ = os.write(1, bytes([b]))\n    time.sleep(0.0005)"
    )
    assert cell.stdout == "\u20ac\U0001f600" * 50


@pytest.mark.parametrize("where", ["", "%%distribute -n 4 --merge prefix\n"], ids=["home", "ranks"])
def test_ten_thousand_flushed_lines_leave_in_few_messages(nb, where):
    cell = nb.ok(where + "import time\nfor i in range(10_000):\n    print('line', i, flush=True)", limit=200)
    numbers = [int(n) for n in re.findall(r"line (\d+)$", cell.stdout, re.M)]
    ranks = 4 if where else 1
    assert len(numbers) == 10_000 * ranks and sorted(numbers) == sorted(list(range(10_000)) * ranks)
    check_rate(cell)
    assert len(cell.of("stream")) <= PER_SECOND * (cell.seconds + 2)


def test_slow_lines_come_one_by_one_and_soon(nb, tmp_path):
    """Each is shown before the next is printed, and without being flushed."""
    cell = nb.start(
        "import os, time\nfor i in range(5):\n    print('tick', i)\n"
        "    while not os.path.exists(os.path.join(%r, str(i))):\n        time.sleep(0.02)" % str(tmp_path)
    )
    for i in range(5):
        nb.wait_shown(cell, "tick %d\n" % i)
        (tmp_path / str(i)).touch()
    nb.wait(cell).assert_ok()
    assert len(cell.of("stream")) == 5
    check_rate(cell)


def test_alternating_streams_stay_in_order_and_within_the_rate(nb):
    cell = nb.ok(
        "import sys\nfor i in range(2000):\n    print(i, flush=True)\n    print(i, file=sys.stderr, flush=True)"
    )
    for text in (cell.stdout, cell.stderr):
        assert text.split() == [str(i) for i in range(2000)]
    check_rate(cell)


def test_a_thousand_displays_arrive_in_order(nb):
    cell = nb.ok(
        "from IPython.display import display\nfor i in range(1000):\n    display({'text/plain': str(i)}, raw=True)"
    )
    assert [d["text/plain"] for d in cell.displays] == [str(i) for i in range(1000)]


def test_a_progress_bar_at_home_stays_one_line(nb):
    cell = nb.ok("import time\nfor i in range(101):\n    print('\\r%3d%%' % i, end='', flush=True)\n    time.sleep(0.005)\nprint()")
    assert cell.stdout.endswith("\r100%\n")
    check_rate(cell)


def test_progress_bars_of_ranks_are_redrawn_one_line_a_rank(nb):
    needs("tqdm")
    cell = nb.ok(
        "%%distribute -n 4\nimport os, time\nfrom tqdm import tqdm\nrank = os.environ['RANK']\n"
        "for _ in tqdm(range(200), desc='bar of rank ' + rank):\n    time.sleep(0.005)",
        limit=200,
    )
    shown = [line for d in cell.displays for line in d.get("text/plain", "").splitlines()]
    shown += [line.split("\r")[-1] for line in (cell.stderr + cell.stdout).split("\n")]
    for rank in range(4):
        bars = [line for line in shown if "bar of rank %d" % rank in line]
        assert len(bars) == 1 and "100%" in bars[0], (rank, shown)
    assert len(cell.of("stream", "display_data", "update_display_data")) <= PER_SECOND * (cell.seconds + 2)


def test_progress_bars_with_positions_are_one_line_a_rank(nb):
    needs("tqdm")
    cell = nb.ok(
        "%%distribute -n 4\nimport os, time\nfrom tqdm import tqdm\nrank = int(os.environ['RANK'])\n"
        "for _ in tqdm(range(100), desc='bar of rank %d' % rank, position=rank):\n    time.sleep(0.01)",
        limit=200,
    )
    for content in [m["content"] for m in cell.of_code("display_data", "update_display_data")]:
        bars = re.findall(r"bar of rank \d", content["data"]["text/plain"])
        assert len(bars) == len(set(bars)), content
    shown = [line for d in cell.displays_of_code for line in d.get("text/plain", "").splitlines()]
    shown += (cell.stderr + cell.stdout).splitlines()
    assert len(shown) == 4 and all("100%" in line for line in shown), shown
    assert sorted(line[:3] for line in shown) == ["[0]", "[1]", "[2]", "[3]"]


def test_a_full_stderr_pipe_does_not_block_a_rank(nb):
    cell = nb.ok("%%distribute -n 2 --merge prefix\nimport sys\nfor i in range(20_000):\n    print('e' * 50, i, file=sys.stderr)")
    assert len(cell.stderr.splitlines()) == 40_000


def test_a_line_that_is_not_ended_is_shown_after_a_while(nb, gate):
    cell = nb.start("%%distribute -n 2\nprint('no newline yet', end='', flush=True)\n" + gate.code + "print()")
    nb.wait_shown(cell, "no newline yet")
    assert not cell.ended
    gate.open()
    nb.wait(cell).assert_ok()


def test_output_of_a_slow_client_is_not_lost(nb):
    """A client that reads nothing for a while: the printing waits, nothing grows, nothing is lost."""
    import processes

    cell = nb.start("for i in range(400_000):\n    print('line', i, 'x' * 80)")
    processes.wait_until(lambda: False, 3)  # this client does not read
    kernel = processes.pss(nb.pid)
    nb.wait(cell, 200).assert_ok()
    assert len(cell.stdout.splitlines()) == 400_000
    assert kernel < 200, "the kernel grew to %.0f MiB" % kernel


def test_a_large_form_of_a_rank_cells_value_is_shown_and_what_is_too_large_is_named(nb):
    nb.ok("%%distribute -n 2\nfrom IPython.display import HTML")
    cell = nb.ok("%%distribute -n 2\nHTML('x' * (9 << 20))")
    assert len(cell.result["text/html"]) == 9 * MIB and "text/plain" in cell.result, cell.stderr
    cell = nb.ok("%%distribute -n 2\nHTML('x' * (65 << 20))")
    assert list(cell.result) == ["text/plain"]
    assert "text/html of 65 MiB is not shown: all that a cell's value shows may have 64 MiB" in cell.stderr, cell.shown


def test_a_list_of_values_that_home_cannot_show_is_there_and_says_why(fresh):
    nb = fresh()  # whose _ is IPython's
    nb.ok("import os\nclass OnRanks:\n    def __repr__(self):\n        if 'RANK' not in os.environ:\n            raise ValueError('no rank')\n"
          "        return 'shown'")  # fmt: skip
    for options in ("--gather", "--gather --into both"):
        cell = nb.ok("%%distribute -n 2 " + options + "\nOnRanks()")
        assert cell.result["text/plain"] == "[_ has the value, which can't be shown here: ValueError: no rank]", cell.shown
        assert nb.ok("[type(v).__name__ for v in _]").value == "['OnRanks', 'OnRanks']"
