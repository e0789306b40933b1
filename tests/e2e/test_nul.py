# SPDX-License-Identifier: BSD-3-Clause
"""NUL characters in code and in output: all of them arrive; code with one is refused as at home."""

from __future__ import annotations

import os
import subprocess

import pytest

LIMIT = 90  # seconds, far off
REFUSED = ("SyntaxError", "ValueError")  # of 3.12 and newer, and of 3.11


def as_home_says(nb):
    cell = nb.run("print('ran')\nx = 1 \0 ", LIMIT)
    assert cell.status == "error" and cell.ename in REFUSED and "ran" not in cell.stdout, cell.shown
    return cell


@pytest.mark.parametrize("body", ["print('ran')\nx = 1 \0 ", "\0", "print('ran')\n# \0\nprint('ran')", "'\0'"])
def test_a_distributed_cell_with_one_is_refused_as_at_home(nb, body):
    at_home = nb.run(body, LIMIT)
    cell = nb.run("%%distribute -n 2\n" + body, LIMIT).assert_error(at_home.ename)
    assert cell.reply["evalue"] == at_home.reply["evalue"] and "ran" not in cell.stdout, cell.shown
    assert at_home.ename in REFUSED


def test_a_script_with_one_is_refused_as_at_home(nb, tmp_path):
    ename = as_home_says(nb).ename
    script = tmp_path / "script.py"
    script.write_bytes(b"print('ran')\nx = '\0'\n")
    cell = nb.run("%%distribute -n 2 %s" % script, LIMIT).assert_error(ename)
    assert "ran" not in cell.stdout, cell.shown


@pytest.mark.parametrize("line", ["-n 2 \0", "-n\0 2", "\0-n 2", "--cwd '/tmp\0x'", "-n 2 --into {'x\\0'}"])
def test_an_option_line_with_one_is_a_usage_error(nb, line):
    cell = nb.run("%%distribute " + line + "\nprint('ran')", LIMIT).assert_error("UsageError")
    assert "ran" not in cell.stdout and "NUL character" in cell.reply["evalue"], cell.shown


def test_a_line_magic_with_one_is_a_usage_error(nb):
    nb.rank_pids(2)
    for line in ("%push a\0b", "%pull a\0b", "%ranks \0"):
        nb.run(line, LIMIT).assert_error("UsageError")


def test_completion_and_inspection_count_characters_behind_one(nb):
    nb.ok("sought_name = 1")
    code = "'\0'\nsought_n"
    reply = nb.request("complete_request", {"code": code, "cursor_pos": len(code)}, limit=LIMIT)
    assert reply["status"] == "ok" and "sought_name" in reply["matches"], reply
    assert (reply["cursor_start"], reply["cursor_end"]) == (4, len(code)), reply
    code = "'\0'\n%ranks st"
    reply = nb.request("complete_request", {"code": code, "cursor_pos": len(code)}, limit=LIMIT)
    assert reply["status"] == "ok" and "stop" in reply["matches"], reply
    assert reply["cursor_start"] == code.index("st"), reply
    nb.request("inspect_request", {"code": "'\0' sought_name", "cursor_pos": 6}, limit=LIMIT)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2 -r 0\n"])
def test_what_is_typed_may_hold_one(nb, where):
    cell = nb.run(where + "len(input('a\\0b'))", LIMIT, answer="x\0yz").assert_ok()
    assert cell.value == "4" and cell.prompts[0]["prompt"].endswith("a\0b"), (cell.value, cell.prompts)


def test_text_from_ranks_may_hold_one(nb):
    cell = nb.ok("%%distribute -n 2 -r 0\nprint('a\\0b')\nclass Odd:\n    def __repr__(self): return 'c\\0d'\nOdd()")
    assert "a\0b" in cell.stdout and cell.value == "c\0d", cell.shown
    cell = nb.ok("%%distribute -n 2 -r 0\nclass Odd:\n    def __init__(self): self.f = open('/dev/null')\n"
                 "    def __repr__(self): return 'c\\0d'\nOdd()")
    assert cell.value == "c\0d", cell.shown
    assert "c\0d" in nb.ok("_").value
    cell = nb.run("%%distribute -n 2\nimport os\nraise ValueError('a\\0b' + os.environ['RANK'])", LIMIT)
    cell.assert_error("ValueError")
    assert cell.reply["evalue"] in ("a\0b0", "a\0b1") and "a\0b" in cell.traceback, cell.shown
    assert "also on rank" not in cell.traceback or cell.traceback.count("a\0b") >= 2, cell.traceback


def test_an_error_of_home_may_hold_one(nb):
    nb.rank_pids(2)
    nb.ok("class Bad:\n    def __setstate__(self, state): raise ValueError('a\\0b')\n    def __getstate__(self): return {'x': 1}")
    cell = nb.run("%%distribute -n 2\nBad()", LIMIT).assert_error("ValueError")
    assert cell.reply["evalue"].endswith("a\0b"), cell.reply


def test_cellspan_run_shows_what_stands_behind_one(jupyter_env, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('a\\0b')\nraise ValueError('c\\0d')\n")
    done = subprocess.run(["cellspan", "run", "-n", "1", str(script)], env=jupyter_env, capture_output=True, timeout=LIMIT)
    assert done.returncode != 0 and b"a\0b" in done.stdout, done
    assert b"ValueError: c\0d" in done.stderr, done


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_output_that_can_not_be_written_fails_the_command(jupyter_env, tmp_path):
    script = tmp_path / "says.py"
    script.write_text("print('hi')")
    with open("/dev/full", "w") as full:
        done = subprocess.run(["cellspan", "run", "-n", "1", str(script)], env=jupyter_env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert done.returncode == 1 and "output is lost: No space left on device" in done.stderr, done
