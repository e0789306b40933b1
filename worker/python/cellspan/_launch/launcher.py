# SPDX-License-Identifier: BSD-3-Clause
"""What every engine in Python does: it is told what to start, tells the kernel about its nodes, and ends when the kernel does."""
from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import select
import signal
import sys
import threading
import time
import traceback

from .client_log import Log
from .engine_reports import Reports

USAGE = "[--spec SPEC] [--ranks N] -- COMMAND [ARG...]"
CANNOT, FAILED = 2, 1  # exit statuses; launchers/launcher.h
# So many lines of what the library printed are shown after an error (ERROR_LINES of kernel/engines/engine_lines.c has room for them),
# so many characters of a line, and at most so many bytes of all
LOG_LINES, LINE_SHOWN, LOG_SHOWN = 40, 400, 6000
SECRET, OF_RUN, OF_AGENT = "CELLSPAN_SECRET", "2", "2a"  # protocol/keys.c
START_TIMEOUT, START_S = "CELLSPAN_START_TIMEOUT", 120.0  # the kernel has checked its value
POLL_S = 0.5  # between two reads of the log
# What an agent takes from the notebook's environment, as from ssh's launcher (launchers/agent_script.c): docs/limits.md lists it.
PASSED = (
    "CELLSPAN_PRELOAD", "CELLSPAN_SEED", "CELLSPAN_SPOOL_LIMIT", "CELLSPAN_LOG", "CELLSPAN_PORT", "CELLSPAN_DIAL_TIMEOUT", "CELLSPAN_NOTICE",
    "CELLSPAN_REMOTE_PYTHON",
    "OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "TORCH_NCCL_RETHROW_CUDA_ERRORS",
)


def passed_on():
    """{name: value} of what an agent takes from here: an engine passes on no environment by itself."""
    return {name: os.environ[name] for name in PASSED if os.environ.get(name)}


class Cannot(Exception):
    """The engine can't do what SPEC asks. The text is for the user."""


class Failed(Exception):
    """It did not work. The text is for the user. whole: it says all, so no lines of the log are shown."""

    def __init__(self, text, whole=False):
        super().__init__(text)
        self.whole = whole


def secret():
    """The run's. It is the first line of stdin: all of the user's processes can read what stands in an environment."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise SystemExit(FAILED)  # the kernel is gone
        line += byte
    return line.decode().strip().partition(SECRET + "=")[2]


class Launch(Reports):
    """What an engine was told, how it tells the kernel, and the end. Every method may be called from any thread."""

    def __init__(self, name, spec, ranks, command):
        super().__init__()
        self.name, self.spec, self.ranks, self.command = name, spec, ranks, command
        self.secret = secret()
        self.over = threading.Event()  # the kernel is gone, or wants the end
        self._lock, self._sent = threading.Lock(), None
        self._at_end, self._ending = [], []  # functions, and the threads that call them
        self._log = Log()

    # ---- what the client's library does ----

    def log_tail(self, lines=LOG_LINES):
        """The last lines that the client's library has printed."""
        return self._log.tail(lines)

    @contextlib.contextmanager
    def answer_of(self, who, queue=None):
        """What is done within asks `who`, and its library may wait for ever. If it has not ended CELLSPAN_START_TIMEOUT after the kernel
        was told something, the engine fails. queue: a pattern of lines of the log that say that it has answered, and waits in a queue."""
        came = threading.Event()
        self.last_report = time.monotonic()
        threading.Thread(target=self._limit, args=(who, queue, came), name="cellspan-limit", daemon=True).start()
        try:
            yield
        finally:
            came.set()

    def _limit(self, who, queue, came):
        seconds = float(os.environ.get(START_TIMEOUT) or START_S)
        while not came.wait(POLL_S) and not self.over.is_set():
            waits = queue and re.search(queue, self._log.text())
            if waits:
                self.say(waits[0])
                return
            if time.monotonic() - self.last_report >= seconds:
                self.fail("%s has not answered within %g s (%s)" % (who, seconds, START_TIMEOUT))
                os._exit(FAILED)

    def fail(self, text, whole=False):
        """What the cell shows of a failure, with the last lines of the log."""
        lines = [] if whole else [line[:LINE_SHOWN] + "…" * (len(line) > LINE_SHOWN) for line in self.log_tail()]
        while sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) > LOG_SHOWN:
            del lines[0]
        self.warn("\n".join([text, *(["the last lines of %s:" % self.name, *lines] if lines else [])]))

    # ---- what goes to nodes ----

    def sent(self):
        """What installs cellspan on a node that lacks it: see cellspan/_install/find_agent.py."""
        from .._install.offer import made

        if self._sent is None:
            self._sent = made(self.command[0])
        return self._sent

    def secret_of(self, number):
        """The secret of this agent alone: with it nobody can speak as another one. It takes the place of the run's."""
        version, kernel, seed = self.secret.split(":")
        if version != OF_RUN:
            raise Failed("%s is of another version of cellspan: install the same one on both sides" % SECRET)
        own = hashlib.blake2b(number.to_bytes(4, "little"), digest_size=32, key=bytes.fromhex(seed))  # keys_derive()
        return ":".join([OF_AGENT, kernel, own.hexdigest()])

    # ---- the end ----

    def wait(self, seconds=None):
        """Waits for the end. True: it is wanted."""
        return self.over.wait(seconds)

    def at_end(self, function):
        """Calls the function in another thread when the end is wanted, so that it can end what main waits for."""
        with self._lock:
            self._at_end.append(function)
            if self.over.is_set():
                self._end_now([function])

    def watch(self):
        """Watches stdin and SIGTERM from now on. SIGTERM wakes the thread even while main is in a library's call."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: os.write(wake, bytes([signal.SIGTERM])))  # a library may take the wakeup descriptor
        threading.Thread(target=self._watch, args=(woken,), name="cellspan-stdin", daemon=True).start()

    def _watch(self, woken):
        while True:
            ready = select.select([0, woken], [], [])[0]
            if woken in ready and signal.SIGTERM in os.read(woken, 64):
                break
            if 0 in ready and not os.read(0, 4096):
                break
        threading.Timer(self.end_s, os._exit, [FAILED]).start()  # if main is still in a call
        with self._lock:
            functions = list(self._at_end)
            self._end_now(functions)
            self.over.set()

    def _end_now(self, functions):
        for function in functions:
            thread = threading.Thread(target=self._quietly, args=(function,), name="cellspan-end", daemon=True)
            self._ending.append(thread)
            thread.start()

    def finish(self):
        """Waits for what at_end() has started."""
        while self._ending:
            self._ending.pop().join()

    @staticmethod
    def _quietly(function):
        try:
            function()
        except Exception:
            traceback.print_exc()  # goes to the log


def arguments(words):
    """(SPEC, N, COMMAND) of USAGE. SPEC may begin with a dash."""
    said, at = {"--spec": "", "--ranks": "0"}, 0
    while at < len(words) and words[at] != "--":
        if words[at] not in said or at + 1 == len(words):
            raise Cannot("%s: not that; write %s" % (words[at], USAGE))
        said[words[at]] = words[at + 1]
        at += 2
    if not said["--ranks"].isdecimal():
        raise Cannot("--ranks %s: a number is wanted" % said["--ranks"])
    if not words[at + 1:]:
        raise Cannot("there is no COMMAND after %s; write -- COMMAND [ARG...]" % (" ".join(words) or "the name"))
    return said["--spec"], int(said["--ranks"]), words[at + 1:]


def told(name, words):
    """What is printed in place of a start, as by the launchers in C; None: nothing was asked."""
    if words[:1] == ["--version"]:
        from .. import __version__

        return "cellspan-launch-%s %s" % (name, __version__)
    if words[:1] in (["--help"], ["-h"]):
        return """usage: cellspan-launch-%s %s

Runs one cellspan agent on each node that %s gives.

  --spec SPEC            where to start agents, in the engine's own words
  --ranks N              how many ranks there will be
  --help                 this text
  --version              print the version""" % (name, USAGE, name.capitalize())
    return None


def run(name, words):
    """The whole life of an engine's process."""
    asked = told(name, words)
    if asked is not None:
        print(asked)
        return
    status, text, whole = 0, "", False
    try:
        given = arguments(words)
    except Cannot as error:
        sys.stderr.write("cellspan-launch-%s: %s\n" % (name, error))
        sys.exit(CANNOT)
    launch = Launch(name, *given)
    launch.watch()
    try:
        importlib.import_module("." + name, __package__).main(launch)
    except (Cannot, Failed) as error:
        status, text = CANNOT if isinstance(error, Cannot) else FAILED, str(error)
        whole = getattr(error, "whole", False)
    except BaseException as error:  # noqa: BLE001 - a library may call sys.exit()
        traceback.print_exc()
        status, text = FAILED, "%s: %s" % (type(error).__name__, error)
    if status and not launch.over.is_set():
        launch.fail(text, whole)
    launch.finish()
    os._exit(status)  # threads of the library may not end
