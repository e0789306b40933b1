# SPDX-License-Identifier: BSD-3-Clause
"""Cells that close the descriptors of their own output, and how many descriptors stay open after many cells."""

from __future__ import annotations

import os

import pytest

LIMIT = 90  # seconds, far off
WHERE = ["", "%%distribute -n 2\n"]
REOPENED = "cellspan: descriptor %d was closed, and is open again"


@pytest.mark.parametrize("fd", [1, 2])
@pytest.mark.parametrize("where", WHERE)
def test_a_descriptor_that_a_cell_closed_is_there_again(nb, where, fd):
    cell = nb.run(where + "import os, sys\nprint('before')\nos.close(%d)" % fd, LIMIT).assert_ok()
    assert REOPENED % fd in cell.stderr and "before" in cell.stdout, cell.shown
    cell = nb.ok(where + "f = open(os.devnull)\nprint('out', f.fileno() > 2, file=sys.stdout)\nprint('err', file=sys.stderr)",
                 limit=LIMIT)
    assert "out True" in cell.stdout and "err" in cell.stderr and "cellspan" not in cell.stderr, cell.shown
    assert "child" in nb.ok(where + "!echo child").stdout


@pytest.mark.parametrize("where", WHERE)
def test_both_descriptors(nb, where):
    cell = nb.run(where + "import os, sys\nos.closerange(0, 3)\nprint('later')", LIMIT)
    assert cell.status == "ok" and "later" in cell.stdout, cell.shown
    assert REOPENED % 1 in cell.stderr and REOPENED % 2 in cell.stderr, cell.shown
    assert nb.ok(where + "print('next')\n1 + 1").value == "2"


@pytest.mark.parametrize("where", WHERE)
def test_a_descriptor_that_leads_elsewhere_stays_so(nb, where, tmp_path):
    place = str(tmp_path / "out-%s")
    nb.ok(where + "import os\nto = os.open(%r %% os.getpid(), os.O_CREAT | os.O_WRONLY)\nkept = os.dup(1)\n"
          "_ = os.dup2(to, 1)" % place)
    cell = nb.ok(where + "print('away', flush=True)")
    assert "away" not in cell.stdout and not cell.stderr, cell.shown
    nb.ok(where + "_ = os.dup2(kept, 1)")
    assert "back" in nb.ok(where + "print('back')").stdout
    assert all(path.read_text() == "away\n" for path in tmp_path.iterdir())


def held(pids):
    """{pid: (open descriptors, mappings of bundles)}"""
    found = {}
    for pid in pids:
        with open("/proc/%d/maps" % pid) as maps:
            found[pid] = len(os.listdir("/proc/%d/fd" % pid)), maps.read().count("memfd:cellspan")
    return found


def processes(nb):
    """The pids of home, of the agent, and of two ranks."""
    return [int(nb.ok("import os\nos.%s()" % name).value) for name in ("getpid", "getppid")] + nb.rank_pids(2)


@pytest.mark.limit(400)
def test_results_and_views_take_no_descriptors(nb):
    nb.ok("%ranks stop\nimport numpy as np\nrows = np.ones((4, 50_000))", LIMIT)
    pids = processes(nb)
    nb.ok("%%distribute -n 2\nrows[:1]", LIMIT)
    before = held(pids)
    for _ in range(100):
        nb.ok("%%distribute -n 2\nrows[:1]")
        nb.ok("%%distribute -n 2\nrows[0, :10]")
    after = held(pids)
    home, _, *ranks = pids
    assert all(after[pid][0] < before[pid][0] + 20 for pid in pids), (before, after)
    assert all(after[rank][1] == before[rank][1] for rank in ranks), "a rank's views share one mapping"
    assert after[home][1] == before[home][1] + 100, "home's Out has each result, and a mapping is where its bytes are"
    nb.ok("%reset -f out")
    assert held([home])[home][1] < 5


@pytest.mark.limit(400)
def test_many_variables_take_a_bounded_number_of_descriptors(nb):
    nb.ok("%ranks stop\nimport numpy as np\nfor k in range(300):\n    globals()[f'v{k}'] = np.zeros(40_000)", LIMIT)
    pids = processes(nb)
    for k in range(300):
        nb.ok("%%%%distribute -n 2\nv%d[0]" % k)
    assert all(count < 400 for count, _ in held(pids).values()), held(pids)
    nb.ok("v0[0] = 5\nv200[0] = 6")
    assert nb.ok("%%distribute -n 2 --gather\nfloat(v0[0]), float(v1[0]), float(v200[0])").value == "[(5.0, 0.0, 6.0), (5.0, 0.0, 6.0)]"


# A thread of the process may have had a descriptor for a moment: so each cell that wants none left fills up again.
FULL = """import os
files = []
def fill():
    try:
        while True: files.append(open(os.devnull))
    except OSError as error:
        print(error.errno == 24)
fill()"""


LONG = "text = '" + "x" * 100_000 + "'\n"


def test_ranks_without_descriptors_keep_what_they_have(fresh):
    """What is sent to them can't be opened: that is the cell's error, and not their end."""
    nb = fresh()
    pids = nb.rank_pids(2)
    nb.ok("%%distribute\nimport resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\nown = 5")
    nb.ok("import cellspan\nsent = list(range(1000))\ncellspan.run(len, 'abc')")  # what needs files itself is imported
    assert "True" in nb.ok("%%distribute\nfrom IPython.display import HTML, display\n" + FULL, LIMIT).stdout
    for _ in range(2):
        nb.ok("%%distribute\nfill()", LIMIT)
        cell = nb.run("%%distribute\nlen(sent)", LIMIT).assert_error("OSError")
        assert "Too many open files" in cell.reply["evalue"] and "close some" in cell.reply["evalue"], cell.shown
        assert "rank.py" not in cell.shown, cell.shown
    nb.run("%%distribute\n1 / 0", LIMIT).assert_error("ZeroDivisionError")
    assert nb.ok("cellspan.run(len, sent)", LIMIT).value == "1000"
    for _ in range(2):  # messages that are too long for a packet, both ways
        assert nb.ok("%%distribute -r 0\n" + LONG + "len(text), own", LIMIT).value == "(100000, 5)"
        assert nb.ok("cellspan.run(len, b'x' * 100_000)", LIMIT).value == "100000"
        nb.run("%%distribute\nraise ValueError('y' * 1_000_000)", LIMIT).assert_error("ValueError")
        nb.ok("%%distribute\ndisplay(HTML('z' * 100_000))", LIMIT)
    nb.ok("%%distribute\nfiles.clear()", LIMIT)
    assert nb.ok("%%distribute\nlen(sent), own", LIMIT).value == "(1000, 5)" and nb.rank_pids(2) == pids


def test_home_without_descriptors_keeps_what_it_has(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\nlarge = list(range(100000))")
    nb.ok("import cellspan, resource\ncellspan.run(abs, 1)\nkept = 7\n"
          "resource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))")
    assert "True" in nb.ok(FULL, LIMIT).stdout
    for code in ("%pull large", "cellspan.group().pull('large')"):
        cell = nb.run("fill()\n" + code, LIMIT).assert_error("OSError")
        assert "Too many open files" in cell.reply["evalue"], cell.shown
    for _ in range(2):
        assert nb.ok(LONG + "len(text), kept", LIMIT).value == "(100000, 7)"
        nb.run("raise ValueError('y' * 1_000_000)", LIMIT).assert_error("ValueError")
        nb.ok("from IPython.display import HTML, display\n_ = display(HTML('z' * 100_000))", LIMIT)
    nb.ok("files.clear()", LIMIT)
    assert nb.ok("%pull large\nlen(large[1]), kept", LIMIT).value == "(100000, 7)"
