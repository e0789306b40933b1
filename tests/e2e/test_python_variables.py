# SPDX-License-Identifier: BSD-3-Clause
"""Python's own variables in the environment of the kernel reach the processes that home and ranks start."""

from __future__ import annotations

import os

from client import rank_values, values

CHILD = """
import subprocess, sys
text = "import os, time\\nprint('early')\\nwhile not os.path.exists({path!r}): time.sleep(0.01)"
subprocess.run([sys.executable, "-c", text])
"""
BUFFERED = "import io, sys\nsys.stdout.line_buffering, sys.stdout.write_through, isinstance(sys.stdout.buffer, io.BufferedWriter)"


def test_children_print_at_once_where_the_user_wants_it(fresh, tmp_path):
    nb = fresh(env={"PYTHONUNBUFFERED": "1"})
    for number, first in enumerate(("", "%%distribute -n 2\n")):
        path = tmp_path / str(number)
        cell = nb.start(first + CHILD.format(path=str(path)))
        nb.wait_shown(cell, "early")
        assert not cell.ended
        path.touch()
        nb.wait(cell).assert_ok()
    assert values(nb.ok(BUFFERED)) == (False, False, True), "home's own printing is fast"
    assert rank_values(nb, BUFFERED, 2) == [(False, False, True)] * 2


def test_the_path_is_as_it_was_set(fresh, tmp_path):
    nb = fresh()
    package = nb.ok("import cellspan, os\nos.path.dirname(cellspan.__path__[0])").value.strip("'")
    assert nb.ok("'PYTHONPATH' in os.environ").value == str("PYTHONPATH" in os.environ)
    for path in (f"{tmp_path}", f"{tmp_path}:{package}:/none", f"{tmp_path}::{package}"):
        nb = fresh(env={"PYTHONPATH": path, "CELLSPAN_PYTHONPATH": package})
        look = "import os\nos.environ['PYTHONPATH']"
        assert values(nb.ok(look)) == path
        assert rank_values(nb, look, 2) == [path] * 2
