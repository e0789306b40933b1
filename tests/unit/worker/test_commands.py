# SPDX-License-Identifier: BSD-3-Clause
"""Shell commands whose text is captured, and what they leave in the background. Each test has a process of its own, since such text goes to
its descriptors."""

import json
import subprocess
import sys
import textwrap

import pytest

START = """
import contextlib, io, json, os, sys, threading, time
from cellspan._worker import commands

class Streams:
    out, err, sinks = sys.stdout, sys.stderr, {}
    def flush(self): sys.stdout.flush()
    def claim(self): pass

def run(command, out=True, err=True):
    told = [io.StringIO(), io.StringIO()]
    with contextlib.ExitStack() as stack:
        for with_, on, to in ((contextlib.redirect_stdout, out, told[0]), (contextlib.redirect_stderr, err, told[1])):
            if on: stack.enter_context(with_(to))
        assert commands.run_command(command, Streams()) == 0
    return [one.getvalue() for one in told]

def readers():
    return [thread for thread in threading.enumerate() if thread.name == "cellspan-command"]

def read_all():
    go.touch()
    for thread in readers(): thread.join()

import pathlib
go = pathlib.Path(sys.argv[1]) / "go"
LATER = f"while [ ! -e {go} ]; do sleep 0.05; done; "
"""


def run(code, folder):
    """(what the code has put into `told`, the bytes that came to stdout, and to stderr)."""
    script = START + textwrap.dedent(code) + "\n(go.parent / 'told').write_text(json.dumps(told))"
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads((folder / "told").read_text()), done.stdout, done.stderr


@pytest.mark.parametrize("begin, end", [(r"\303", r"\251"), (r"\342\202", r"\254"), (r"\360\237\230", r"\200"), ("", r"\145")])
def test_a_character_that_the_background_completes_is_whole(tmp_path, begin, end):
    told, out, err = run(f"""
        told = run(r"printf 'caf{begin}'; printf 'E{begin}' >&2; (" + LATER + r"printf '{end} later'; printf '{end} LATER' >&2) &")
        read_all()
    """, tmp_path)
    whole = bytes(int(digits, 8) for digits in (begin + end).split("\\")[1:])
    assert told == ["caf", "E"]
    assert (out, err) == (whole + b" later", whole + b" LATER")


def test_a_character_that_nobody_completes_is_replaced(tmp_path):
    told, out, err = run(r"""told = run(r"printf 'caf\303'")""", tmp_path)
    assert told == ["caf\ufffd", ""] and (out, err) == (b"", b"")


def test_only_what_is_captured_is_passed_on_and_one_thread_reads_it(tmp_path):
    told, out, err = run("""
        told = run("echo now; (" + LATER + "echo later; echo LATER >&2) &", err=False)
        told.append(len(readers()))
        read_all()
    """, tmp_path)
    assert told == ["now\n", "", 1] and (out, err) == (b"later\n", b"LATER\n")


def test_the_background_goes_on_where_no_thread_can_be_started(tmp_path):
    told, out, err = run("""
        start = threading.Thread.start
        def refused(thread): raise RuntimeError("can't start new thread")
        threading.Thread.start = refused
        told = run("echo now; (" + LATER + "echo later; touch " + str(go) + ".wrote) &")
        run("true")
        go.touch()
        while not os.path.exists(str(go) + ".wrote"): time.sleep(0.05)  # its pipe is open
        threading.Thread.start = start
        told += run("echo next")
        read_all()
    """, tmp_path)
    assert told == ["now\n", "", "next\n", ""] and out == b"later\n"
    assert err.count(b"can't start new thread: what the command in the background writes from now on is shown when") == 1, err
