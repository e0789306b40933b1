# SPDX-License-Identifier: BSD-3-Clause
"""The commands cellspan ps, logs, stop and doctor, beside kernels that run. Other kernels of this user may run meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import processes
import pytest
from commands import one_line

OPENED = "/somewhere/my train-%d.ipynb"


@pytest.fixture
def named(fresh):
    """A kernel that a server started for a notebook, and the notebook's path."""
    path = OPENED % os.getpid()
    return fresh(env={"JPY_SESSION_NAME": path}), path


def listed(cellspan, pid):
    """What `cellspan ps --json` says of a kernel; None: it is not there."""
    code, out, err = cellspan("ps", "--json")
    assert code == 0 and err == "", err
    return next((one for one in json.loads(out) if one["pid"] == pid), None)


def row_of(cellspan, pid):
    code, out, err = cellspan("ps")
    assert code == 0 and err == "", err
    return next((line for line in out.splitlines() if line.startswith(f"{pid} ")), None)


def test_ps_shows_a_notebook_its_ranks_and_the_cell_that_runs(cellspan, named, gate):
    nb, path = named
    pid = nb.pid
    assert listed(cellspan, pid)["table"]["ranks"] == []
    nb.ok("%%distribute -n 2\n1")
    one = listed(cellspan, pid)
    assert one["notebook"] == path and one["cell"] is None and [rank["state"] for rank in one["table"]["ranks"]] == ["idle"] * 2
    assert all(rank["memory"] > 1 << 20 for rank in one["table"]["ranks"])
    cell = nb.start("%%distribute\n" + gate.code)
    assert nb.until(lambda: (row_of(cellspan, pid) or "").find("(2 busy)") > 0)
    row = row_of(cellspan, pid)
    assert re.search(r"my train-\d+\.ipynb +2 \(2 busy\) +this machine +In \[\d+\] 0:\d\d ", row), row
    gate.open()
    nb.wait(cell)
    assert listed(cellspan, pid)["cell"] is None


def test_what_ps_asks_is_no_use_of_the_kernel(cellspan, named):
    """A server takes each busy and idle for use: a culler would end nothing that somebody lists."""
    nb, _ = named
    nb.strays.clear()
    assert listed(cellspan, nb.pid)["version"]
    assert nb.ok("1 + 1").value == "2"
    assert not [m for m in nb.strays if m["parent_header"].get("msg_type") == "cellspan_overview_request"]


def test_ps_shows_any_name_of_a_notebook(cellspan, fresh):
    """The table keeps its columns, and nothing of a path controls the terminal."""
    path = "/" + "übung/" * 9 + "\x1b[2J\x7f é.ipynb"
    nb = fresh(env={"JPY_SESSION_NAME": path})
    assert listed(cellspan, nb.pid)["notebook"] == path
    shown = path.replace("\x1b", "?").replace("\x7f", "?")
    heading = cellspan("ps")[1].splitlines()[0]
    row = row_of(cellspan, nb.pid)
    assert row.index(shown[-44:]) == heading.index("NOTEBOOK") and row[heading.index("RANKS")] == "0", row


def test_ps_shows_a_name_that_is_no_utf8(cellspan, fresh):
    """Jupyter writes it into the connection file as a lone surrogate, which is no JSON to everyone."""
    nb = fresh(env={"JPY_SESSION_NAME": "/books/caf\udce9 \udcff.ipynb"})
    assert nb.ok("1 + 1").value == "2"
    assert listed(cellspan, nb.pid)["notebook"] == "/books/caf\ufffd \ufffd.ipynb"
    assert "/books/caf\ufffd \ufffd.ipynb" in row_of(cellspan, nb.pid)
    nb.ok("%%distribute -n 2\n1")
    assert listed(cellspan, nb.pid)["table"]["ranks"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_ps_shows_no_kernels_of_others_and_none_that_has_ended(cellspan):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(shutil.which("sleep"), os.path.join(folder, "cellspan-kernel"))
        theirs, ended = subprocess.Popen([program, "600"], user=65534), subprocess.Popen([program, "600"])
        try:
            assert listed(cellspan, ended.pid) is not None, "the name makes it one"
            ended.kill()
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # nobody has asked for its status yet
            assert listed(cellspan, theirs.pid) is None and listed(cellspan, ended.pid) is None
            code, out, err = cellspan("stop", str(theirs.pid))
            assert code != 0 and theirs.poll() is None, (out, err)
        finally:
            for process in (theirs, ended):
                process.kill()
                process.wait()


def test_ps_shows_what_home_runs_and_a_kernel_that_does_not_answer(cellspan, named, gate):
    nb, path = named
    pid = nb.pid
    nb.ok("1")
    cell = nb.start(gate.code)
    assert nb.until(lambda: listed(cellspan, pid)["home_runs"])
    assert " at home " in row_of(cellspan, pid)
    gate.open()
    nb.wait(cell)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert " no answer " in row_of(cellspan, pid)
        code, out, _ = cellspan("doctor")
        assert code == 1 and re.search(rf"^bad +kernels +{pid} \(.*does not answer", out, re.M), out
    finally:
        os.kill(pid, signal.SIGCONT)
    assert listed(cellspan, pid)["status"] == "ok"


def test_logs_prints_what_ranks_printed_for_a_pid_a_path_and_a_name(cellspan, named):
    nb, path = named
    nb.ok("%%distribute -n 2\nimport os\nprint('hello from', os.environ['RANK'])")
    for word in (nb.pid, path, os.path.basename(path)):
        code, out, err = cellspan("logs", word)
        assert (code, err) == (0, "") and sorted(re.findall(r"hello from \d", out)) == ["hello from 0", "hello from 1"], (out, err)
    code, out, _ = cellspan("logs", "-r", 1, path)
    assert code == 0 and "hello from 1" in out and "hello from 0" not in out
    code, out, err = cellspan("logs", "-r", 7, path)
    assert code == 1 and "there are 2 ranks" in err, (out, err)


def test_logs_answers_while_a_cell_runs_and_others_wait(cellspan, named, gate):
    nb, path = named
    nb.ok("%%distribute -n 2\nprint('earlier')")
    cell = nb.start("%%distribute\nimport os\nprint('hello from', os.environ['RANK'])\n" + gate.code)
    nb.wait(cell, until=lambda: "hello from 0" in cell.shown and "hello from 1" in cell.shown)
    logs = nb.ok("%ranks logs")
    assert sorted(logs.stdout.splitlines()) == ["[0] hello from 0", "[1] hello from 1"] and "still runs" in logs.stderr, logs.shown
    for wrong in ("%ranks logs --tail 3", "%ranks where --tail 3", "%ranks lgs"):
        assert nb.run(wrong, limit=60).assert_error("UsageError") and not cell.ended, "a mistake is told at once"
    for asks in ("%ranks logs --help", "%ranks?", "%push --help"):
        assert "show this" in nb.run(asks, limit=60).assert_ok().stdout and not cell.ended, "help does not wait"
    queued = nb.start("%%distribute\nprint('later')")
    code, out, err = cellspan("logs", nb.pid)
    assert code == 0 and "later" not in out and "earlier" not in out, out
    assert re.search(r"cell \d+ still runs", err), err
    gate.open()
    nb.wait(cell)
    nb.wait(queued)
    code, out, err = cellspan("logs", nb.pid)
    assert code == 0 and "later" in out and err == "", (out, err)


def test_stop_ends_a_kernel_with_its_ranks(cellspan, named):
    nb, path = named
    nb.ok("%%distribute -n 2\n1")
    pid = nb.pid
    code, out, err = cellspan("stop", os.path.basename(path))
    assert code == 0 and out.startswith(f"{path}: kernel {pid} has ended"), (out, err)
    assert listed(cellspan, pid) is None
    nb.close()
    assert nb.left == []


def test_stop_ends_a_kernel_that_does_not_answer(cellspan, named):
    nb, path = named
    nb.ok("%%distribute -n 2\n1")
    pid = nb.pid
    os.kill(pid, signal.SIGSTOP)
    code, out, err = cellspan("stop", pid)
    assert code == 0 and "has ended" in out, (out, err)
    nb.close()
    assert nb.left == []


def test_a_process_that_is_no_kernel_is_not_ended(cellspan):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for command in ("stop", "logs"):
            one_line(cellspan(command, child.pid), str(child.pid), "no kernel of yours")
            one_line(cellspan(command, 1), "1: that process is no kernel of yours")
            one_line(cellspan(command, "no such.ipynb"), "no such.ipynb", "cellspan ps")
            one_line(cellspan(command, 2**31 - 2), "cellspan ps")
        one_line(cellspan("stop"), "which kernel")
        one_line(cellspan("stop", "--all"), "--all")
        assert child.poll() is None
    finally:
        child.communicate(b"\n")


def test_a_run_is_listed_by_its_command_and_can_be_stopped(cellspan, tmp_path):
    (tmp_path / "waits.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    job = cellspan("run", "-n", 2, "waits.py", start=True)
    assert b"up" in job.stdout.readline()
    code, out, _ = cellspan("ps")
    row = next(line for line in out.splitlines() if "cellspan run -n 2 waits.py" in line and " 2 (2 busy) " in line)
    code, out, err = cellspan("stop", row.split()[0])
    assert code == 0, err
    job.communicate(timeout=60)
    assert job.returncode != 0


def test_what_a_run_waited_for_is_no_status_of_its_end(cellspan, tmp_path):
    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(4)\n")
    (tmp_path / "short.py").write_text("print('ran')\n")
    code, out, err = cellspan("run", "-n", 1, "short.py", CELLSPAN_PRELOAD="-torch,-numpy,imported_slowly", PYTHONPATH=str(tmp_path))
    assert code == 0 and "ran" in out, err
    assert "as of" not in err, err


def findings(outcome, mark):
    return {line.split()[1]: line for line in outcome[1].splitlines() if line.startswith(mark + " ")}


def test_doctor_finds_nothing_where_all_is_well_and_names_what_is_wrong(cellspan, tmp_path):
    code, out, err = cellspan("install", "--python", sys.executable)
    assert code == 0, err
    well = cellspan("doctor", "--python", sys.executable)
    assert well[2] == "" and {"Python", "torch", "kernelspec", "programs", "/dev/shm"} <= set(findings(well, "ok")), well
    assert "kernelspec" not in findings(well, "bad")
    spec = cellspan.home / ".local" / "share" / "jupyter" / "kernels" / "cellspan" / "kernel.json"
    told = json.loads(spec.read_text())
    told["argv"][told["argv"].index("--python") + 1] = "/no/such/python"
    spec.write_text(json.dumps(told))
    code, out, err = cellspan("doctor", "--python", "/bin/ls", CELLSPAN_HANG_NOTICE="often", TMPDIR="/no/such/folder")
    bad = findings((code, out), "bad")
    assert code == 1 and err == "", err
    assert "/bin/ls" in bad["Python"] and "often" in bad["setting"] and "/no/such/folder" in bad["temporary"], bad
    assert "/no/such/python" in bad["kernelspec"]
    assert out.count(" -> ") >= len(bad) - 1 and re.match(r"\d things to mend", out.splitlines()[-1]), out


def test_doctor_says_where_there_is_no_kernelspec(cellspan):
    code, out, err = cellspan("doctor", "--python", "/bin/ls", PATH="/usr/bin:/bin")
    assert code == 1 and "Jupyter finds no kernel of cellspan's" in out and "-> cellspan install" in out, out


def test_doctor_reads_a_kernelspec_as_jupyter_does(cellspan, tmp_path):
    """What make and pip install names its program from its own folder."""
    made = pathlib.Path(cellspan.program).resolve().parents[1] / "share" / "jupyter"
    assert "{resource_dir}" in (made / "kernels" / "cellspan" / "kernel.json").read_text()
    shutil.copytree(made / "kernels", tmp_path / "jupyter" / "kernels")
    assert str(made) in findings(cellspan("doctor", JUPYTER_PATH=str(made)), "ok")["kernelspec"]
    bad = findings(cellspan("doctor", JUPYTER_PATH=str(tmp_path / "jupyter")), "bad")["kernelspec"]
    assert "starts %s/jupyter/kernels/cellspan/../" % tmp_path in bad and "which is not there" in bad, bad


def test_the_jupyter_beside_cellspan_is_asked_where_none_is_on_path(cellspan, tmp_path):
    """An environment need not be activated. Its Jupyter may take its own kernel before the user's."""
    made, data = pathlib.Path(cellspan.program).resolve(), tmp_path / "env" / "share" / "jupyter"
    shutil.copytree(made.parents[1] / "share" / "jupyter" / "kernels", data / "kernels")
    (tmp_path / "env" / "bin").mkdir()
    shutil.copy(made, tmp_path / "env" / "bin" / "cellspan")
    jupyter = tmp_path / "env" / "bin" / "jupyter"
    jupyter.write_text("#!/bin/sh\necho '%s'\n" % json.dumps({"data": [str(data), str(cellspan.home / ".local/share/jupyter")]}))
    jupyter.chmod(0o755)
    done = subprocess.run(
        [jupyter.with_name("cellspan"), "install", "--python", sys.executable], capture_output=True, text=True,
        env=dict(cellspan.env, PATH="/usr/bin:/bin", CELLSPAN_LIBEXECDIR=str(made.parent)),
    )
    assert done.returncode == 0 and "but %s takes another kernel of that name first: %s/" % (jupyter, data) in done.stderr, done


def test_doctor_on_a_full_disk_says_so(cellspan, tmp_path):
    code, out, err = cellspan("doctor", "--python", sys.executable, TMPDIR="/dev/full")
    assert code == 1 and "/dev/full can't be written" in out, out
    with open("/dev/full", "w") as full:
        done = subprocess.run(["cellspan", "doctor"], stdout=full, stderr=subprocess.PIPE, text=True, env=cellspan.env)
    assert done.returncode == 1 and "the output can't be written: No space left on device" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
def test_doctor_names_each_folder_that_is_full_and_what_to_do(cellspan, tmp_path):
    """Each of them alone: the next start of a kernel would fail there."""
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", str(full)], check=True)
    try:
        with contextlib.suppress(OSError), open(full / "fills", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for name, what in ("TMPDIR", "temporary"), ("HOME", "home"), ("XDG_RUNTIME_DIR",) * 2, ("JUPYTER_RUNTIME_DIR",) * 2, ("IPYTHONDIR",) * 2:
            code, out, err = cellspan("doctor", "--python", sys.executable, **{name: str(full)})
            assert code == 1 and "%s can't be written: No space left on device\n" % full in findings((code, out), "bad")[what] + "\n", (name, out)
            assert re.search(r"^ +-> make room there, or name (an)?other folders? in ", out, re.M), out
            assert os.listdir(full) == ["fills"]
    finally:
        subprocess.run(["umount", str(full)], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(full)], check=True)
    try:
        out = cellspan("doctor", "--python", sys.executable, TMPDIR=str(full))[1]
        assert "can't be written: Read-only file system\n" in out and "-> allow yourself to write there, or name another folder in TMPDIR" in out, out
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert "-> make that folder, or name other folders" in cellspan("doctor", "--python", sys.executable, HOME=str(tmp_path / "none"))[1]


def test_doctor_without_any_settings_of_the_user(cellspan, tmp_path):
    """No home folder, no config of Jupyter or IPython, no folder that a variable names."""
    env = {"PATH": cellspan.env["PATH"], processes.MARKER: cellspan.marker}
    program = shutil.which("cellspan")
    for more in {}, {"HOME": ""}, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "/dev/null", "JUPYTER_CONFIG_DIR": "/no/such", "XDG_RUNTIME_DIR": "/no/such", "IPYTHONDIR": "/no/such"}:
        done = subprocess.run([program, "doctor", "--python", sys.executable], env=dict(env, **more), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.stderr == "" and {"Python", "settings", "temporary", "programs"} <= set(findings((0, done.stdout), "ok")), done
        assert "/no/such" not in done.stdout, done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folders_that_are_left_are_no_kernels(cellspan, tmp_path):
    """Of kernels that have ended, of other users, and what only has such a name."""
    left = tmp_path / "run"
    left.mkdir()
    (left / "cellspan-99999-deadbeef").mkdir()
    (left / "cellspan-99999-deadbeef" / "lock").touch()
    (left / "cellspan-1-deadbeef").mkdir()
    os.chown(left / "cellspan-1-deadbeef", 65534, 65534)
    (left / "cellspan-99997-deadbeef").symlink_to("/etc")
    (left / "cellspan-99996-deadbeef").touch()
    places = dict(TMPDIR=str(left), XDG_RUNTIME_DIR=str(left))
    code, out, err = cellspan("ps", "--json", **places)
    assert code == 0 and err == "" and not {1, 99996, 99997, 99999} & {one["pid"] for one in json.loads(out)}, (out, err)
    out = cellspan("doctor", "--python", sys.executable, **places)[1]
    assert "does not answer" not in out and "deadbeef" not in out, out
    for pid in 1, 99996, 99997, 99999:
        assert cellspan("stop", pid, **places)[0] == 1
    assert len(os.listdir(left)) == 4


def test_a_kernel_that_was_killed_is_gone_for_all_commands(cellspan, named):
    """Also before its parent has asked for its end, and though its files are there."""
    nb, path = named
    nb.ok("%%distribute -n 2\n1")
    pid = nb.pid
    os.kill(pid, signal.SIGKILL)
    assert nb.until(lambda: listed(cellspan, pid) is None)
    out = cellspan("doctor", "--python", sys.executable)[1]
    assert str(pid) not in out, out
    for command in "stop", "logs":
        for word in str(pid), path:
            one_line(cellspan(command, word), word, "cellspan ps")
    nb.close()
    assert nb.left == []


def test_doctor_on_another_place_compares_it_with_here(cellspan):
    code, out, err = cellspan("doctor", "--python", sys.executable, "--on", "local")
    assert re.search(r"^ok +--on +local: ranks came up there$", out, re.M) and re.search(r"^ok +\S+ +as here: Python 3", out, re.M), (out, err)
    code, out, err = cellspan("doctor", "--python", sys.executable, "--on", "nosuch:h1")
    assert code == 1 and re.search(r"^bad +--on +nosuch:h1: there is no such engine", out, re.M), (out, err)
    assert "Traceback" not in out and "told" not in out and not err, (out, err)


def test_a_notebook_is_no_script(cellspan, nb, tmp_path):
    (tmp_path / "work.ipynb").write_text("{}")
    one_line(cellspan("run", "-n", 2, "work.ipynb"), "work.ipynb is a notebook", "papermill work.ipynb", "jupyter execute work.ipynb")
    one_line(cellspan("run", "-n", 2, "nosuch.ipynb"), "nosuch.ipynb: No such file or directory")
    one_line(cellspan("run", "--cwd", "/", "nosuch.ipynb"), "nosuch.ipynb is a notebook")
    assert "papermill" in nb.run("%distribute work.ipynb").assert_error("UsageError").error["evalue"]


def test_install_says_that_another_kernelspec_of_that_name_wins(cellspan, tmp_path):
    first = tmp_path / "first" / "kernels" / "cellspan"
    first.mkdir(parents=True)
    (first / "kernel.json").write_text(json.dumps({"argv": ["cellspan-kernel", "--python", "/old/python"], "display_name": "x", "language": "python"}))
    code, out, err = cellspan("install", "--python", sys.executable, JUPYTER_PATH=str(tmp_path / "first"))
    assert code == 0 and f"takes another kernel of that name first: {first}" in err and "--name" in err, err
    code, out, err = cellspan("install", "--python", sys.executable, "--name", "other", JUPYTER_PATH=str(tmp_path / "first"))
    assert (code, err) == (0, "")
    code, out, err = cellspan("install", "--python", sys.executable, "--prefix", tmp_path / "staged", JUPYTER_PATH=str(tmp_path / "first"))
    assert (code, err) == (0, ""), "a place where this Jupyter does not look"
