# SPDX-License-Identifier: BSD-3-Clause
"""Finds the descendants of a kernel: every process that has a marker in its environment.

Each kernel is started with its own marker in the environment. All its descendants inherit it, even if they change their
session, process group or parent. So leftover processes are found, and other processes are never touched.
"""

from __future__ import annotations

import os
import re
import signal
import time

MARKER = "CELLSPAN_TEST_MARKER"
POLL = 0.02, 0.25  # seconds between two looks: at first, and at most


def wait_until(holds, limit):
    """Polls holds() until it gives something true, at most `limit` seconds; gives what it gave last. The longer it waits, the less
    often it looks: it may be late by a twentieth, and leaves the processor to those for whom it waits."""
    began = time.monotonic()
    while True:
        found = holds()
        waited = time.monotonic() - began
        if found or waited >= limit:
            return found
        time.sleep(min(max(POLL[0], waited / 20), POLL[1]))


def read(pid, name):
    """The bytes of /proc/PID/NAME; none when the process is gone."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def state(pid):
    """The letter of the process's state ("R", "S", "Z" …), "" when it is gone."""
    stat = read(pid, "stat")
    return stat[stat.rindex(b")") + 2 :][:1].decode() if stat else ""


def alive(pid):
    return state(pid) not in ("", "Z", "X")


def marked(marker):
    """The living processes that carry the marker, by number."""
    wanted = ("%s=%s" % (MARKER, marker)).encode()
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return sorted(pid for pid in pids if wanted in read(pid, "environ").split(b"\0") and alive(pid))


def command(pid):
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def described(pids):
    return ["%d: %s" % (pid, command(pid)[:120]) for pid in pids]


def inside(init):
    """The command lines of the processes in the pid namespace of the process `init`, by the numbers that they have there. None: it
    is gone."""

    def space(pid):
        try:
            return os.readlink("/proc/%s/ns/pid" % pid)
        except OSError:
            return None

    wanted, found = space(init), {}
    for pid in os.listdir("/proc") if wanted and alive(init) else ():
        if pid.isdigit() and space(pid) == wanted:
            numbers = re.search(rb"^NSpid:.*\s(\d+)$", read(int(pid), "status"), re.M)
            if numbers:  # else it ended meanwhile
                found[int(numbers[1])] = command(int(pid)) or "[%s]" % read(int(pid), "comm").decode(errors="replace").strip()
    return found or None


def named(marker, text):
    """The marked processes in whose command line `text` stands."""
    return [pid for pid in marked(marker) if text in command(pid)]


def gone(marker, limit=60.0):
    """Waits until no marked process is left; gives those that are, described (an empty list is good).

    Looked at twice: who was born while one look went on, and whose parent ended meanwhile, is seen by the other.
    """
    left = []

    def none():
        left[:] = marked(marker) or marked(marker)
        return not left

    wait_until(none, limit)
    return described(left)


def kill_all(marker):
    """Ends the marked processes, one by one by number."""
    for pid in marked(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def pss(pid):
    """Proportional set size of a process, in MiB; 0 when it is gone."""
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
