# SPDX-License-Identifier: BSD-3-Clause
"""C++ that torch compiles when a cell first uses it: once on a machine, and no lock of the past stops it."""

from __future__ import annotations

import os
import signal

import pytest
from client import values

pytestmark = pytest.mark.clients

SOURCE = 'extern "C" double twice(double x) { return 2 * x; }\n'
# It compiles when the file `go` is there.
COMPILER = """#!/bin/sh
case "$*" in *twice.cpp*) echo $$ >>%(folder)s/begun; while [ ! -e %(folder)s/go ]; do sleep 0.05; done ;; esac
exec c++ "$@"
"""
LOAD = """
import ctypes, os, sys
os.environ["CXX"] = %(folder)r + "/compiler"
os.environ["TORCH_NO_COMPILER_WRAPPER"] = "1"  # ccache would start the compiler twice
from torch.utils.cpp_extension import load
def twice():
    path = load(%(name)r, [%(folder)r + "/twice.cpp"], build_directory=%(folder)r + "/built", is_python_module=False, verbose=False)
    there = ctypes.CDLL(path).twice
    there.restype, there.argtypes = ctypes.c_double, [ctypes.c_double]
    return there(21.0)
"""


class Folder:
    """With a source, and a compiler that waits for go()."""

    def __init__(self, path):
        self.path, self.name = path, path.name  # torch appends a number to a name that it has seen with another source
        self.code = LOAD % {"folder": str(path), "name": self.name}
        self.lock, self.library = path / "built" / "lock", path / "built" / (self.name + ".so")
        self.source(SOURCE)
        (path / "built").mkdir()
        (path / "compiler").write_text(COMPILER % {"folder": path})
        (path / "compiler").chmod(0o755)
        self.line = f"cellspan: building {self.name} once on this machine, in {path}/built"

    def source(self, text):
        (self.path / "twice.cpp").write_text(text)

    def go(self):
        (self.path / "go").touch()

    def builds(self):
        """Compilers that were started."""
        begun = self.path / "begun"
        return len(begun.read_text().split()) if begun.exists() else 0

    def compilers(self):
        """The processes of those that still wait."""
        begun = map(int, (self.path / "begun").read_text().split())
        return [process for process in begun if os.path.exists(f"/proc/{process}/cmdline") and open(f"/proc/{process}/cmdline").read()]


@pytest.fixture
def folder(nb, tmp_path):
    made = Folder(tmp_path)
    nb.ok("%%distribute -n 3\n" + made.code, limit=120)
    return made


def test_one_rank_builds_and_says_so(nb, folder):
    cell = nb.start("%%distribute -n 3 --gather\ntwice()")
    nb.wait_shown(cell, folder.line)
    folder.go()
    assert values(nb.wait(cell).assert_ok()) == [42.0] * 3
    assert cell.shown.count("building") == 1 and "waits for" not in cell.shown, cell.shown
    assert folder.builds() == 1 and not folder.lock.exists()
    again = nb.ok("%%distribute -n 2 --gather\ntwice()")
    assert values(again) == [42.0] * 2 and "building" not in again.shown and folder.builds() == 1


def test_a_lock_whose_owner_has_ended_does_not_stop_it(nb, folder):
    folder.go()
    with open(folder.lock, "w"):  # torch's own is empty
        cell = nb.start("%%distribute -n 3 --gather\ntwice()")
        nb.wait_shown(cell, f"cellspan: waits for another process, which builds in {folder.path}/built\n")
    assert values(nb.wait(cell).assert_ok()) == [42.0] * 3
    assert folder.builds() == 1 and not folder.lock.exists()


def test_a_lock_of_another_machine_is_left_to_the_user(nb, folder):
    folder.lock.write_text("another.example 0:0 123 -")
    cell = nb.start("%%distribute -n 3 --gather\ntwice()")
    words = f"cellspan: waits for process 123 of another.example, which builds in {folder.path}/built. If it has ended: rm {folder.lock}"
    nb.wait_shown(cell, words)
    folder.lock.unlink()
    assert f"{folder.name} was not built: there is no {folder.library}" in nb.wait(cell).assert_error("RuntimeError").traceback


def test_after_an_interrupt_it_builds_again(nb, folder):
    cell = nb.start("%%distribute -n 3 --gather\ntwice()")
    nb.wait_shown(cell, folder.line)
    nb.until(folder.builds)
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert not folder.lock.exists()
    again = nb.start("%%distribute -n 3 --gather\ntwice()")
    nb.wait_shown(again, folder.line)
    nb.until(lambda: folder.builds() == 2)
    assert len(folder.compilers()) == 1
    folder.go()
    assert values(nb.wait(again).assert_ok()) == [42.0] * 3


def test_after_the_rank_that_builds_was_killed_another_one_does(nb, folder):
    pids = nb.rank_pids(3)
    cell = nb.start("%%distribute -n 3 --gather\ntwice()")
    nb.wait_shown(cell, folder.line)
    nb.until(folder.builds)
    owner = int(folder.lock.read_text().split()[2])
    assert owner in pids
    os.kill(owner, signal.SIGKILL)
    nb.wait(cell)
    before = folder.builds()
    again = nb.start("%%distribute -n 3 --gather\n" + folder.code + "twice()")
    nb.until(lambda: folder.builds() > before, 120)
    assert len(folder.compilers()) == 1
    folder.go()
    assert values(nb.wait(again).assert_ok()) == [42.0] * 3 and not folder.lock.exists()


def test_what_does_not_compile_is_shown_once_and_can_be_mended(nb, folder):
    folder.go()
    folder.source("nonsense\n")
    cell = nb.run("%%distribute -n 3 --gather\ntwice()").assert_error("RuntimeError")
    assert f"Error building extension '{folder.name}'" in cell.traceback and "does not name a type" in cell.traceback, cell.traceback
    folder.source(SOURCE)
    assert values(nb.ok("%%distribute -n 3 --gather\ntwice()", limit=60)) == [42.0] * 3


def test_the_error_of_who_builds_comes_first(nb, folder):
    """Also if it comes late: the others know no more than that there is no library."""
    folder.go()
    folder.source("nonsense\n")
    late = "import time\ntry:\n    twice()\nexcept RuntimeError as error:\n    if 'Error building' in str(error):\n        time.sleep(4)\n    raise"
    cell = nb.run("%%distribute -n 3\n" + late).assert_error("RuntimeError")
    assert f"Error building extension '{folder.name}'" in cell.traceback and "was not built" not in cell.traceback, cell.traceback


def test_home_is_not_stopped_either(nb, folder):
    folder.go()
    folder.lock.touch()
    cell = nb.ok(folder.code + "twice()", limit=120)
    assert cell.value == "42.0" and folder.line in cell.stderr
