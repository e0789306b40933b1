# SPDX-License-Identifier: BSD-3-Clause
"""The stacks that a worker writes when the agent asks for them, and when it crashes: home behind a socket, without an agent."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402

FAR = 1 << 63  # nanoseconds: a time in centuries


def crash(home):
    """Ends it by a fault, whose stacks are the next text."""
    home.execute("import ctypes\nctypes.string_at(0)")
    home.until(lambda: home.closed)
    assert home.process.wait(60) == -signal.SIGSEGV
    text = os.read(home.stack, 1 << 16).decode()
    assert "string_at" in text and "C stack (most recent call first)" in text


def test_a_crash_leaves_pythons_and_cs_stack(home):
    crash(home)


def test_stacks_come_while_c_code_holds_the_lock(home):
    home.execute("print('in', flush=True)\nimport ctypes\nctypes.PyDLL(None).sleep(600)")
    home.until(lambda: b"in" in home.text[1])
    for _ in range(50):
        home.send("STACKS", fields={"until": FAR})  # a thread waits for the lock
    text = ""
    end = time.monotonic() + 60
    while "line 3" not in text:
        assert time.monotonic() < end, text
        os.kill(home.process.pid, _link.STACKS_SIGNAL)
        text = os.read(home.stack, 1 << 16).decode()


DEPTH = 90  # frames of the cell's function in a stack, about

# Python's frames lie in pieces of memory of 16 KiB. At some depth each call of steps() begins a piece, and gives it back when it
# returns; that takes a hundred times longer than at other depths, so it is found by time.
FRAMES_COME_AND_GO = """
import os, time
def steps(n):
    a = b = c = d = e = f = n
    yield
def seconds(depth, calls):
    if depth:
        return seconds(depth - 1, calls)
    begin = time.perf_counter()
    for i in range(calls):
        steps(i)
    return time.perf_counter() - begin
times = []
for depth in range(300):
    times.append((seconds(depth, 100), depth))
print("in", flush=True)
while not os.path.exists(%r):
    seconds(max(times)[1], 1000)
"""


def some_stacks(home):
    """All that comes until nothing comes for a while: an answer, or a part of one."""
    home.send("STACKS", fields={"until": FAR})
    text = os.read(home.stack, 1 << 20)
    while select.select([home.stack], [], [], 1)[0]:
        text += os.read(home.stack, 1 << 20)
    return text


def stacks_of(home):
    """The whole answer of a home that runs no cell. It is written with Python's lock, so it is there when a cell runs that was sent
    after its first bytes."""
    home.send("STACKS", fields={"until": FAR})
    text = os.read(home.stack, 1 << 20)
    home.run("pass")
    while select.select([home.stack], [], [], 0)[0]:
        text += os.read(home.stack, 1 << 20)
    return text


def ask_for_stacks(home, ask, answers):
    """Asks every 10 ms until the cell's frames have come so often, and less often while none come: a busy machine needs longer for
    an answer, and signals that come sooner would keep the cell for ever at a place where its frames can't be read."""
    end = time.monotonic() + 60
    seen, pause = 0, 0.01
    while seen < answers:
        assert time.monotonic() < end and home.process.poll() is None, seen
        ask()
        time.sleep(pause)
        came = read_stacks(home).count(b"in seconds\n")
        seen, pause = seen + came, 0.01 if came else min(2 * pause, 1)


def read_stacks(home):
    """What has come. Who writes a stack waits while the pipe is full."""
    with contextlib.suppress(BlockingIOError):
        return os.read(home.stack, 1 << 20)
    return b""


def ended(home):
    """Whether the cell has ended; until then stacks are read, as an agent does."""
    read_stacks(home)
    return any(getattr(message, "kind", None) == "REPLY" for message in home.seen)


def test_stacks_do_not_end_a_worker_whose_frames_come_and_go(home, tmp_path):
    cell = home.execute(FRAMES_COME_AND_GO % str(tmp_path / "over"))
    home.until(lambda: b"in" in home.text[1])
    os.set_blocking(home.stack, False)
    ask_for_stacks(home, lambda: home.send("STACKS", fields={"until": FAR}), 20 * DEPTH)
    # The handler's reads fail now and then: in a copy of the process.
    ask_for_stacks(home, lambda: os.kill(home.process.pid, _link.STACKS_SIGNAL), 20 * DEPTH)
    (tmp_path / "over").touch()
    home.until(lambda: ended(home))  # on a busy machine many questions are not answered yet
    assert home.expect("REPLY", cell).json()["status"] == "ok"
    while read_stacks(home):
        pass
    crash(home)


SLEEPS = ("35", "230", "101", "115")  # nanosleep and clock_nanosleep, of x86-64 and of aarch64


def test_one_thread_waits_for_the_lock_to_write_stacks(home):
    home.execute("print('in', flush=True)\nimport ctypes\nctypes.PyDLL(None).sleep(600)")
    home.until(lambda: b"in" in home.text[1])
    end = time.monotonic() + 60
    while Path(f"/proc/{home.process.pid}/syscall").read_text().split()[0] not in SLEEPS:  # until then a thread may get Python's lock, and lose it again
        assert time.monotonic() < end
        time.sleep(0.01)
    threads = Path(f"/proc/{home.process.pid}/task")
    before = len(list(threads.iterdir()))
    for _ in range(50):
        home.send("STACKS", fields={"until": FAR})
    end = time.monotonic() + 60
    while struct.unpack("i", fcntl.ioctl(home.sock, termios.TIOCOUTQ, b"1234"))[0]:  # some have not been read
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(list(threads.iterdir())) <= before + 1


def test_stacks_that_would_come_too_late_do_not_come(home):
    home.run("1")
    os.set_blocking(home.stack, False)
    home.send("STACKS", fields={"until": time.monotonic_ns() - 1})
    home.run("2")
    with pytest.raises(BlockingIOError):
        os.read(home.stack, 1 << 16)


def test_the_main_thread_is_the_last_one_of_many(home):
    home.execute("import threading, time\nend = threading.Event()\nfor _ in range(150):\n    threading.Thread(target=end.wait, daemon=True).start()\n"
                 "print('in', flush=True)\nend.wait()")
    home.until(lambda: b"in" in home.text[1])
    end = time.monotonic() + 60
    last = b""
    while b"line 6 in <module>" not in last:  # it may not wait yet, or only a part of the answer came in time
        assert time.monotonic() < end, last
        last = some_stacks(home).rpartition(b"most recent call first")[2]


def test_the_lines_after_the_stacks_tell_of_threads_and_tasks(home):
    home.run("1")
    assert b"background" not in stacks_of(home)
    home.run("import threading; over = threading.Event(); timer = threading.Timer(60, print); timer.start()")
    assert stacks_of(home).endswith(b"\nbackground\n")
    home.run("timer.cancel(); timer.join()")
    assert b"background" not in stacks_of(home)
    home.run("import asyncio; task = asyncio.ensure_future(asyncio.sleep(60))")
    assert stacks_of(home).endswith(b"\nbackground\n")
    home.run("task.cancel()")


def test_a_copy_that_writes_stacks_is_no_child_for_the_users_code(home):
    home.execute("import ctypes, os, signal\nhere = []\nsignal.signal(signal.SIGCHLD, lambda *a: here.append(a))\nprint('in', flush=True)\n"
                 "ctypes.PyDLL(None).sleep(600)\ntry:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('none', here)")
    home.until(lambda: b"in" in home.text[1])
    while b"none" not in home.text[1]:  # the signal ends the sleep, if that has begun
        os.kill(home.process.pid, _link.STACKS_SIGNAL)
        home.pump(0.2)
    assert b"none []" in home.text[1] and b"in <module>" in os.read(home.stack, 1 << 16)
