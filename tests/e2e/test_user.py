# SPDX-License-Identifier: BSD-3-Clause
"""What people do who have not read how it works: nested progress bars, magics within magics, repeated clicks."""

from __future__ import annotations

import re


def test_a_function_of_home_shows_its_lines_in_a_ranks_traceback(nb):
    home = nb.ok("def travels(n):\n    # a comment\n    return 1 / n").reply["execution_count"]
    text = nb.run("%%distribute -n 2\ntravels(0)").assert_error("ZeroDivisionError").traceback
    assert "Cell In[%d], line 3, in travels(n)" % home in text
    assert re.search(r"--> 3 +return 1 / n", text), text


def shows_a_batch(cell):
    return any("batch" in m["content"]["data"].get("text/plain", "") for m in cell.of("display_data", "update_display_data"))


def test_nested_progress_bars_leave_one_line_of_each_rank(nb, tmp_path):
    code = """%%distribute -n 2
import os, sys, time
write = lambda text: (sys.stderr.write(text), sys.stderr.flush())
for epoch in range(3):
    write(f"\\repoch {epoch}")
    for batch in range(20):
        write("\\n"), write(f"\\rbatch {epoch}.{batch}"), write("\\x1b[A"), time.sleep(0.01)
    while epoch == 1 and not os.path.exists("SEEN"):  # what is over sooner than a slow kernel looks is not shown
        time.sleep(0.01)
    write("\\n"), write("\\r          \\r"), write("\\x1b[A")
write("\\repoch 3\\n")
"""
    cell = nb.start(code.replace("SEEN", str(tmp_path / "seen")))
    nb.wait(cell, until=lambda: shows_a_batch(cell))
    (tmp_path / "seen").touch()
    nb.wait(cell).assert_ok()
    # What the first states were before anything went up again may stand there; the others are drawn over one another.
    assert "batch" not in cell.stderr and cell.stderr.count("epoch") <= 4, cell.stderr
    assert "epoch 3" in cell.stderr


def test_a_cell_magic_may_stand_below_distribute(nb):
    cell = nb.ok("%%distribute -n 2 --merge prefix\n%%bash\necho rank $RANK")
    assert sorted(cell.stdout.split("\n")) == ["", "[0] rank 0", "[1] rank 1"]


def test_a_magic_that_is_not_there_is_said_once(nb):
    cell = nb.run("%%distribute -n 2\n%nosuch").assert_error("UsageError")
    assert "nosuch" in cell.traceback and not cell.stderr


def test_a_script_that_is_not_there_is_said_in_a_line(nb):
    cell = nb.run("%distribute -n 2 /no/such.py --fast").assert_error("UsageError")
    assert "/no/such.py: no such file" in cell.traceback and len(cell.traceback.splitlines()) <= 2
    cell = nb.run("%distribute -n 2 /bin/ls").assert_error("UsageError")
    assert "/bin/ls: this is no Python script" in cell.traceback and len(cell.traceback.splitlines()) <= 2


def test_the_traceback_of_an_interrupted_script_begins_in_the_script(nb, tmp_path):
    (tmp_path / "sleeps.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    cell = nb.start("%%distribute -n 2 %s" % (tmp_path / "sleeps.py"))
    nb.wait_ranks(cell, "begun", 2)
    nb.control("interrupt_request")
    text = nb.wait(cell).assert_error("KeyboardInterrupt").traceback
    assert "sleeps.py:" in text and "worker.py" not in text, text


def test_a_double_click_on_interrupt_kills_nobody(nb):
    nb.ok("%%distribute -n 2\nimport time\nkept = 'kept'")
    cell = nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_ranks(cell, "begun", 2)
    clicks = [nb.send("interrupt_request", channel="control") for _ in range(2)]  # in a moment, however slow the replies are
    for click in clicks:
        nb.wait(click, until=lambda: click.reply_message is not None)
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert nb.ok("%%distribute -n 2 --gather\nkept").value == "['kept', 'kept']"
