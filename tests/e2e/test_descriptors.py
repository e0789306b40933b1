"""Cells that close the descriptors of their own output."""

from __future__ import annotations

import pytest

LIMIT = 90  # seconds, far off
WHERE = ["", "%%distribute -n 2\n"]
TOLD = "cellspan: descriptor %d was closed, and is open again"


@pytest.mark.parametrize("fd", [1, 2])
@pytest.mark.parametrize("where", WHERE)
def test_a_descriptor_that_a_cell_closed_is_there_again(nb, where, fd):
    cell = nb.run(where + "import os, sys\nprint('before')\nos.close(%d)" % fd, LIMIT).assert_ok()
    assert TOLD % fd in cell.stderr and "before" in cell.stdout, cell.shown
    cell = nb.ok(where + "f = open(os.devnull)\nprint('out', f.fileno() > 2, file=sys.stdout)\nprint('err', file=sys.stderr)",
                 limit=LIMIT)
    assert "out True" in cell.stdout and "err" in cell.stderr and "cellspan" not in cell.stderr, cell.shown
    assert "child" in nb.ok(where + "!echo child").stdout


@pytest.mark.parametrize("where", WHERE)
def test_both_descriptors(nb, where):
    cell = nb.run(where + "import os, sys\nos.closerange(0, 3)\nprint('later')", LIMIT)
    assert cell.status == "ok" and "later" in cell.stdout, cell.shown
    assert TOLD % 1 in cell.stderr and TOLD % 2 in cell.stderr, cell.shown
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
