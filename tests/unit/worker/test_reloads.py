# SPDX-License-Identifier: BSD-3-Clause
"""Ranks load modules again in home's order, and try again what fails."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys

import pytest

from cellspan._base.modules import is_users_file
from cellspan._worker import reloads

NAMES = ("rl_a_top", "rl_m", "rl_z_base")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write(name, text): a module's file, which is always newer than the one before it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    yield write
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def log():
    return reloads.Log()


@pytest.fixture
def rank():
    imported = reloads.Imported()
    imported.note()
    return reloads.HomesReloads(imported)


def load(*names):
    return [importlib.import_module(name) for name in names]


def test_ranks_load_again_in_homes_order(write, log, rank):
    write("rl_z_base", "v = 1\n")
    write("rl_a_top", "from rl_z_base import v\n")
    top, base = load("rl_a_top", "rl_z_base")
    write("rl_z_base", "v = 22\n")
    for name in ("rl_z_base", "rl_a_top", "rl_z_base"):
        log.add(name)
    rank.take(log.report())
    assert (top.v, base.v) == (22, 22)
    base.v = 5
    rank.take(log.report())
    log.add("rl_a_top")
    rank.take(log.report())
    assert (top.v, base.v) == (5, 5), "only what home has loaded since"


@pytest.mark.parametrize("before, after", [(["rl_z_base", "rl_m"], ["rl_m"]), (["rl_m"], ["rl_m"]), (["rl_m"], ["rl_m", "rl_z_base"])])
def test_a_new_home_counts_from_its_own_start(write, log, rank, before, after):
    write("rl_m", "v = 1\n")
    (module,) = load("rl_m")
    for name in before:
        log.add(name)
    rank.take(log.report())
    write("rl_m", "v = 22\n")
    new = reloads.Log()
    for name in after:
        new.add(name)
    rank.take(new.report())
    assert module.v == 22


def test_the_log_keeps_each_modules_last_reload(log):
    log.add("rl_m")
    for _ in range(log.LENGTH):
        log.add("rl_a_top")
        log.add("rl_z_base")
    log.add("rl_z_base")
    assert len(log.entries) == log.LENGTH and log.entries[0] == (1, "rl_m")
    assert log.entries[-1] == (log.count, "rl_z_base") and log.entries[-2][1] == "rl_a_top"


def test_what_fails_is_tried_again_and_the_others_are_loaded(write, log, rank):
    for name in NAMES:
        write(name, "v = 1\n")
    first, fails, last = load(*NAMES)
    for name in NAMES:
        write(name, "v = 22\n")
        log.add(name)
    write("rl_m", "raise OSError('not here')\n")
    with pytest.raises(OSError, match="not here"):
        rank.take(log.report())
    assert (first.v, fails.v, last.v) == (22, 1, 22)
    assert rank.try_again() == rank.try_again() == ["ranks can't load rl_m again, as home has: OSError: not here"]
    write("rl_m", "v = 22\n")
    assert rank.try_again() == [] and fails.v == 22
    fails.v = 5
    assert rank.try_again() == [] and fails.v == 5, "once it is loaded it keeps its state"


def test_what_the_user_has_loaded_since_keeps_its_state(write, log, rank):
    write("rl_m", "v = 1\n")
    (module,) = load("rl_m")
    write("rl_m", "raise OSError('not here')\n")
    log.add("rl_m")
    with pytest.raises(OSError, match="not here"):
        rank.take(log.report())
    write("rl_m", "v = 22\n")
    importlib.reload(module).v = 5
    assert rank.try_again() == [] and module.v == 5


def test_an_interrupt_leaves_the_others_for_the_next_cell(write, log, rank):
    for name in NAMES:
        write(name, "v = 1\n")
    first, interrupted, last = load(*NAMES)
    for name in NAMES:
        write(name, "v = 22\n")
        log.add(name)
    write("rl_m", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        rank.take(log.report())
    write("rl_m", "v = 22\n")
    assert rank.try_again() == []
    assert (first.v, interrupted.v, last.v) == (22, 22, 22)


def test_a_file_with_the_bytes_that_were_imported_is_not_newer(write, rank, tmp_path):
    write("rl_m", "v = 1\n")
    load("rl_m")
    imported, at = rank._imported, [os.stat(tmp_path / "rl_m.py").st_mtime_ns]

    def put(text):
        write("rl_m", text)
        at[0] += 10**9
        os.utime(tmp_path / "rl_m.py", ns=(at[0], at[0]))
        return imported.newer()

    assert imported.newer() == [] and put("v = 1\n") == [] and put("v = 2\n") == ["rl_m"] == imported.newer()
    assert put("v = 1\n") == [] and put("v = 2\n") == ["rl_m"]
    os.unlink(tmp_path / "rl_m.py")
    assert imported.newer() == []


def test_autoreload_has_the_order_of_sys_modules(write):
    imported = reloads.Imported()
    imported.note()
    write("rl_m", "v = 1\n")
    write("rl_z_base", "v = 1\n")
    write("rl_a_top", "from rl_m import v\nfrom rl_z_base import v as w\n")
    load("rl_a_top")
    imported.note()

    def edit(name, time):
        with open(sys.modules[name].__file__, "a", encoding="utf-8") as file:
            file.write(f"time = {time}\n")
        os.utime(sys.modules[name].__file__, (time, time))

    for name in NAMES:
        edit(name, 5)
    assert imported.newer() == ["rl_m", "rl_z_base", "rl_a_top"]
    importlib.reload(sys.modules["rl_m"])
    imported.note()
    edit("rl_m", 6)
    assert imported.newer() == [name for name in sys.modules if name in NAMES]


def test_an_edit_while_the_cell_runs_that_imports_is_seen(write, monkeypatch):
    monkeypatch.setattr(importlib.machinery.SourceFileLoader, "path_stats", importlib.machinery.SourceFileLoader.path_stats)
    reloads.watch_imports()
    imported = reloads.Imported()
    imported.note()
    write("rl_m", "v = 1\n")
    write("rl_z_base", "v = 1\n")
    module, _ = load("rl_m", "rl_z_base")
    write("rl_m", "v = 22\n")
    os.utime(module.__file__, (5, 5))  # any other time
    imported.note_new()
    assert imported.newer() == ["rl_m"]
    assert imported.is_older("rl_m")
    assert not imported.is_older("rl_z_base")
    importlib.reload(module)
    assert module.v == 22
    assert imported.newer() == []
    write("rl_m", "v = 22\n")
    os.utime(module.__file__, (9, 9))  # the same bytes
    assert imported.newer() == []


def test_a_module_that_takes_the_place_of_another_is_noted(write):
    write("rl_m", "v = 1\n")
    write("rl_z_base", "v = 1\n")
    load("rl_m")
    imported = reloads.Imported()
    imported.note_new()
    del sys.modules["rl_m"]
    (module,) = load("rl_z_base")
    imported.note_new()
    write("rl_z_base", "v = 22\n")
    os.utime(module.__file__, (5, 5))
    assert imported.is_older("rl_z_base")


def test_a_file_of_which_another_machine_has_told_late_has_not_changed(write, monkeypatch):
    write("rl_m", "v = 1\n")
    earlier = [5]
    with monkeypatch.context() as patch:
        patch.setattr(reloads, "_time_of", lambda path: earlier.pop() if earlier else os.stat(path).st_mtime_ns)  # as NFS may, until it is opened
        (module,) = load("rl_m")
        imported = reloads.Imported()
        imported.note()
    os.utime(module.__file__, (9, 9))
    assert imported.newer() == [], "it has the same bytes"


@pytest.mark.parametrize(
    "path, users",
    [
        ("/home/me/project/m.py", True),
        ("/home/me/my-packages/m.py", True),
        ("/home/me/site-packages-old/p/m.py", True),
        ("/opt/env/lib/python3.11/site-packages/p/m.py", False),
        ("/usr/lib/python3/dist-packages/m.py", False),
        ("/home/me/project/m.so", False),
        (os.__file__, False),
        (reloads.__file__, False),
    ],
)
def test_whose_a_file_is(path, users):
    assert is_users_file(path) == users
