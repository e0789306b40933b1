# SPDX-License-Identifier: BSD-3-Clause
"""`cellspan run` beside a shell: the signals that it is started with, its descriptors, and who reads its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import processes
import pytest

LIMIT = 100  # seconds for what takes a few; far off, to catch what hangs


@pytest.fixture
def started(cellspan, tmp_path):
    """started(text, ...) runs a script of that text. `shell` is what a shell does before."""
    running = []

    def start(text, *options, shell="", ranks=1, **streams):
        (tmp_path / "script.py").write_text(text, encoding="utf-8")
        changes = streams.pop("env", {})
        words = [cellspan.program, "run", "-n", str(ranks), "--python", sys.executable, *options, "script.py"]
        if shell:
            words = ["sh", "-c", shell + "\nexec \"$@\"", "sh", *words]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        running.append(subprocess.Popen(words, cwd=tmp_path, env=dict(cellspan.env, **changes), **streams))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


def kernel_of(process):
    """Its only child; None: there is none."""
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        return next(map(int, file.read().split()), None)


WAITS = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('went on')\n"


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_was_ignored_before_stays_ignored(started, tmp_path, name):
    """nohup ignores SIGHUP, and a shell without job control SIGINT of what it starts in the background."""
    process = started(WAITS, shell="trap '' " + name)
    assert b"up" in process.stdout.readline()
    process.send_signal(getattr(signal, "SIG" + name))
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=LIMIT)
    assert (out, err, process.returncode) == (b"went on\n", b"", 0)


def test_a_kernel_that_is_hung_up_ends_in_order(started, tmp_path):
    process = started(WAITS, env={"TMPDIR": str(tmp_path)})
    assert b"up" in process.stdout.readline()
    os.kill(kernel_of(process), signal.SIGHUP)
    assert b"ended by itself (exit status 0)" in process.communicate(timeout=LIMIT)[1]
    assert not list(tmp_path.glob("cellspan-*"))


def test_a_signal_before_the_kernel_answers_is_no_error_of_the_kernel(started, tmp_path):
    silent = tmp_path / "cellspan-kernel"
    silent.write_text("#!/bin/sh\ntouch up\nexec sleep 600\n", encoding="utf-8")
    silent.chmod(0o755)
    process = started("", env={"CELLSPAN_LIBEXECDIR": str(tmp_path)})
    assert processes.wait_until((tmp_path / "up").exists, LIMIT)
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=LIMIT)[1], process.returncode) == (b"", 128 + signal.SIGTERM)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_free_for_nothing_else(started, closed):
    """As some daemons start programs: a file that is opened later must not get the number of a stream."""
    text = "import sys\nprint('out', [*sys.stdin])\nprint('err', file=sys.stderr)"
    out, err = (process := started(text, shell="exec " + closed)).communicate(timeout=LIMIT)
    if ">&-" in closed.split():
        assert (out, process.returncode) == (b"", 1)
        assert (b"output is lost: Bad file descriptor" in err) == ("2>&-" not in closed)
    else:
        assert (out, process.returncode) == (b"out []\n", 0)
        assert (b"err" in err) == ("2>&-" not in closed)
