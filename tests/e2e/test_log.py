# SPDX-License-Identifier: BSD-3-Clause
"""What CELLSPAN_LOG writes: each step of the kernel and its processes, and nothing of what users compute."""

from __future__ import annotations

import os
import re
import signal

SECRET = "a-text-of-mine"


def work(nb):
    """A cell at home, one on ranks with a value that travels, an error, a rank that is killed, and an interrupt-free end."""
    nb.ok("mine = %r * 2\nlen(mine)" % SECRET)
    nb.ok("%%%%distribute -n 2\nprint(mine, %r)\nmine" % SECRET)
    nb.run("%%distribute\nraise ValueError(mine)").assert_error("ValueError")
    pid = int(nb.ok("%%distribute\nimport os\nos.getpid()").value)
    os.kill(pid, signal.SIGKILL)
    nb.until(lambda: nb.run("%%distribute\n1").status == "ok")  # the death fails a cell that has begun before it is known
    nb.close()
    return pid


def lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_each_step_leaves_a_line_and_no_text_of_cells(fresh, tmp_path):
    log = tmp_path / "log"
    pid = work(fresh(env={"CELLSPAN_LOG": "debug:%s" % log}))
    text = lines(log)
    for step in ("EXPANDING", "STARTING", "SENDING", "RUNNING", "BINDING", "OVER"):
        assert re.search(r"kernel\[\d+\] debug cell.*In \[2\], cell \d+: %s" % step, text), step
    for wanted in (
        r"kernel\[\d+\] debug request.*execute_request", r"kernel\[\d+\] debug request.*kernel_info_request", r"kernel\[\d+\] debug send.*RUN to worker",
        r"kernel\[\d+\] debug message.*DONE of node 0", r"agent\[\d+\] debug message.*RUN for workers", r"info child.*\(rank 0\) is process %d" % pid,
        r"info link.*is connected", r"info cell.*In \[3\] is over: ", r"info death.*process %d.*signal 9" % pid,
    ):
        assert re.search(wanted, text), (wanted, text[-4000:])
    assert SECRET not in text and "a-text" not in text


def test_the_level_info_has_the_main_events_alone(fresh, tmp_path):
    log = tmp_path / "log"
    work(fresh(env={"CELLSPAN_LOG": "info:%s" % log}))
    text = lines(log)
    assert " debug " not in text
    assert re.search(r"In \[1\] begins at home", text) and re.search(r"In \[2\] begins for ranks", text)
    assert re.search(r"is over: ok", text) and re.search(r"info death", text) and SECRET not in text
    assert len(text.splitlines()) < 100, text
