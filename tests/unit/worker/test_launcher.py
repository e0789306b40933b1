# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._launch.launcher: what engines in Python share. Each test runs a made-up engine as the kernel would."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys

import cellspan
import pytest
from cellspan._launch import launcher

PACKAGE = os.path.dirname(os.path.dirname(cellspan.__file__))
SEED = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
# BLAKE2b-256 of 3 as u32 with SEED as key: tests/unit/agent/paths.c says that the agent makes the same keys of it
OF_3 = "974e426cb448da7d32c092970a551305b0fad2944f679cf9a9c08fb0048b4940"
ENGINE = """
import sys, types
sys.path.append(%r)
from cellspan._launch import launcher
fake = types.ModuleType("cellspan._launch.fake")
sys.modules[fake.__name__] = fake
exec("import os, sys, time, threading\\nfrom cellspan._launch.launcher import Cannot, Failed\\n" + sys.argv[1], fake.__dict__)
launcher.run("fake", sys.argv[2:])
""" % PACKAGE


def test_agents_get_the_same_variables_as_from_the_launchers_in_c():
    top = os.path.join(os.path.dirname(__file__), "../../..")
    with open(os.path.join(top, "base/settings.c"), encoding="utf-8") as file:
        rows = re.split(r"\n    \[SETTING_", file.read())[1:]
    with open(os.path.join(top, "launchers/agent_script.c"), encoding="utf-8") as file:
        others = re.search(r"\*const name\[SCRIPT_OTHERS\] = \{(.*?)\}", file.read(), re.S)[1]
    in_c = [re.search(r'"(\w+)"', row)[1] for row in rows if ".hosts = true" in row] + re.findall(r'"(\w+)"', others)
    assert sorted(launcher.PASSED) == sorted(in_c) and len(in_c) > 10


def started(code, *words):
    process = subprocess.Popen([sys.executable, "-c", ENGINE, code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with contextlib.suppress(BrokenPipeError):  # one that is told nonsense ends before
        os.write(process.stdin.fileno(), ("CELLSPAN_SECRET=2:%s:%s\n" % ("f" * 64, SEED)).encode())
    return process


def ran(body, *words):
    """(exit status, stdout, stderr) of an engine whose main is this."""
    process = started("def main(launch):\n    " + body.replace("\n", "\n    "), *(words or ("--", "agent")))
    out, errors = process.stdout.read(), process.stderr.read()  # its stdin must not end before it does
    process.stdin.close()
    return process.wait(100), out, errors


def test_an_engine_is_told_what_to_start_and_tells_about_its_nodes():
    body = """
print("a flood" * 1000)
os.system("echo more >&2; echo and more")
assert launch.secret.startswith("2:ff") and b"2:ff" not in open("/proc/self/environ", "rb").read()
launch.say("%s %d %s" % (launch.spec, launch.ranks, launch.command))
launch.end(30)
launch.nodes(2)
launch.node(0, "a host")
launch.node(1, "h2", 4)
launch.failed(1, "h2: no\\nroute")"""
    said = "say -n 2 4 ['agent', '--connect', 'x', '--', '--spec']\nend 30\ncontract 2\nnodes 2\nnode 0 a_host\nnode 1 h2 4\nfailed 1 h2: no route\n"
    assert ran(body, "--spec", "-n 2", "--ranks", "4", "--", "agent", "--connect", "x", "--", "--spec") == (0, said, "")


@pytest.mark.parametrize(("words", "error"), [
    (["--spec"], "--spec: not that; write [--spec SPEC] [--ranks N] -- COMMAND [ARG...]"),
    (["--nodes", "2", "--", "agent"], "--nodes: not that"),
    (["--ranks", "two", "--", "agent"], "--ranks two: a number is wanted"),
    (["--spec", "x", "--"], "there is no COMMAND after --spec x --"),
])
def test_other_arguments_are_refused(words, error):
    status, out, errors = ran("pass", *words)
    assert (status, out) == (2, "") and error in errors


def test_the_kernel_takes_no_other_module_for_an_engine():
    """engine_find.c lists those without a '_' in their names, but launcher, as what --on takes."""
    names = [name[:-3] for name in os.listdir(os.path.dirname(launcher.__file__)) if name.endswith(".py") and "_" not in name]
    assert sorted(names) == ["launcher", "ray", "spark"]


def test_help_and_version_start_nothing():
    """As the launchers in C: test_launchers.py has them."""
    def asked(word):
        return subprocess.run([sys.executable, os.path.join(PACKAGE, "cellspan/_launch/__main__.py"), "ray", word], stdin=subprocess.DEVNULL, capture_output=True, text=True)

    version, usage = asked("--version"), asked("--help")
    assert (version.returncode, version.stdout, version.stderr) == (0, "cellspan-launch-ray %s\n" % cellspan.__version__, "")
    assert (usage.returncode, usage.stderr) == (0, "") and usage.stdout.startswith("usage: cellspan-launch-ray [--spec SPEC]") and "--version" in usage.stdout
    assert asked("-h").stdout == usage.stdout


def test_an_error_is_shown_with_the_last_lines_that_the_library_printed():
    body = "for k in range(1000):\n    print('line', k, flush=True)\nlaunch.warn('a hint')\nraise %s"
    status, out, errors = ran(body % "Cannot('it can not')")
    lines = errors.splitlines()
    assert (status, out, lines[:3]) == (2, "", ["a hint", "it can not", "the last lines of fake:"])
    assert lines[3:] == ["line %d" % k for k in range(960, 1000)], errors
    assert ran("raise Failed('it is off')") == (1, "", "it is off\n")
    status, _, errors = ran("raise KeyError('x')")
    assert status == 1 and errors.startswith("KeyError: 'x'\nthe last lines of fake:\nTraceback") and "in main" in errors
    assert ran("sys.exit(3)")[2].startswith("SystemExit: 3\n")


def test_long_lines_of_a_library_do_not_push_the_error_out():
    """The kernel shows the end of what an engine writes: base/child_lines.h keeps at least TAIL_SIZE bytes."""
    for body, shown in (("for k in range(40):\n    print('é' * 999, flush=True)\n", 7), ("print('é' * 9999)\n", 1)):
        errors = ran(body + "raise Failed('it is off')")[2]
        assert len(errors.encode()) < 8192 and errors.splitlines() == ["it is off", "the last lines of fake:", *["é" * 400 + "…"] * shown], errors


@pytest.mark.parametrize("by", ["stdin", "SIGTERM"])
def test_the_end_reaches_an_engine_that_is_in_a_call(by):
    """What ends the call is done in another thread. An engine whose call does not end, ends all the same."""
    code = """
class Timer(threading.Timer):  # it may be up before a busy machine has done the rest
    may = threading.Event()
    def run(self):
        self.may.wait()
        super().run()
threading.Timer = Timer

def main(launch):
    going = threading.Lock()
    going.acquire()
    launch.at_end(lambda: (launch.say("ends"), going.release(), %r == "SIGTERM" and Timer.may.set()))
    launch.say("in a call")
    going.acquire()
    assert launch.wait(100) and launch.over.is_set()
    if %r == "stdin":
        launch.say("ended")
        raise Failed("this is not shown")
    threading.Lock().acquire() and time.sleep(1000)
""" % (by, by)
    process = started(code, "--", "agent")
    assert process.stdout.readline() == "say in a call\n"
    if by == "stdin":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "say ends\n"
    assert process.stdout.read() == ("say ended\n" if by == "stdin" else "")
    assert process.wait(100) == 1 and process.stderr.read() == ""
    process.stdin.close()


def test_an_engine_without_a_kernel_ends():
    process = subprocess.Popen([sys.executable, "-c", ENGINE, "def main(launch): launch.say('x')", "--", "agent"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
    assert process.communicate() == ("", None) and process.returncode == 1


def test_an_agent_can_get_a_secret_of_its_own():
    assert ran("launch.say(launch.secret_of(3))")[1] == "say 2a:%s:%s\n" % ("f" * 64, OF_3)


def test_a_library_that_waits_for_ever_has_a_limit():
    """What the kernel is told counts as a sign of life. A line that says that the cluster's queue is what it waits for ends the limit."""
    body = """
waits, say = threading.Event(), launch.say
os.environ["CELLSPAN_START_TIMEOUT"] = "%s"
with launch.answer_of("the cluster at h:1", r"app_\\d+ is ACCEPTED"):
    print("%s", flush=True)
    launch.say = lambda text: (say(text), waits.set())
    %s
say("answered")"""
    status, out, errors = ran(body % ("0.3", "retrying", "waits.wait()"))
    assert (status, out) == (1, "")
    assert errors == "the cluster at h:1 has not answered within 0.3 s (CELLSPAN_START_TIMEOUT)\nthe last lines of fake:\nretrying\n"
    assert ran(body % ("", "app_7 is ACCEPTED", "waits.wait()")) == (0, "say app_7 is ACCEPTED\nsay answered\n", "")
    assert ran(body % ("", "at once", "pass")) == (0, "say answered\n", "")
