# SPDX-License-Identifier: BSD-3-Clause
"""What the measurements share: a kernel under its client, the processes that came of it, their memory, a quiet moment.

Times are perf_counter's in the client, in seconds: from before a request is built until the awaited message is there,
parsed and its signature checked. A message's size is that of all its frames on the wire, in bytes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import uuid

import psutil
import zmq
from jupyter_client.manager import KernelManager

MIB = 2**20
RANKS = 4
MARKER = "CELLSPAN_BENCH_MARKER"  # in the environment of every process that comes of a measured kernel
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
POLL = 0.02  # seconds between two looks at what can't be waited for


class Event:
    """One message of a cell: seconds since the request, type, content, bytes."""

    def __init__(self, at, kind, content, size):
        self.at, self.kind, self.content, self.size = at, kind, content, size

    @property
    def text(self):
        """What it shows, as text."""
        if self.kind == "stream":
            return self.content["text"]
        if self.kind == "error":
            return "\n".join(self.content["traceback"])
        return self.content.get("data", {}).get("text/plain", "")


class Cell:
    """One execute request and what came back. `reply_at` and `idle_at` are None until it has."""

    def __init__(self, kernel, code, **options):
        self.kernel, self.events, self.reply = kernel, [], None
        self.reply_at = self.idle_at = None
        self.begin = time.perf_counter()
        self.msg_id = kernel.client.execute(code, **options)

    def wait(self, timeout, until=None):
        """True when the cell has ended, or until(self) held, within `timeout` seconds."""
        deadline = time.perf_counter() + timeout
        while not (self.reply_at and self.idle_at):
            left = deadline - time.perf_counter()
            if left <= 0:
                return False
            for socket, _ in self.kernel.poller.poll(left * 1000):
                self._take(socket)
            if until is not None and until(self):
                return True
        return True

    def _take(self, socket):
        session = self.kernel.client.session
        frames = session.feed_identities(socket.recv_multipart())[1]
        message = session.deserialize(frames)
        if (message["parent_header"] or {}).get("msg_id") != self.msg_id:
            return
        now = time.perf_counter() - self.begin
        kind, content = message["msg_type"], message["content"]
        if kind == "execute_reply":
            self.reply, self.reply_at = content, now
        elif kind != "status":
            self.events.append(Event(now, kind, content, sum(len(f) for f in frames)))
        elif content["execution_state"] == "idle":
            self.idle_at = now

    @property
    def status(self):
        return self.reply["status"] if self.reply else "no reply"

    @property
    def output(self):
        return "".join(event.text for event in self.events)

    def streams(self):
        return [event for event in self.events if event.kind == "stream"]


class Kernel:
    """A kernel that runs cells, in a folder and with IPython settings of its own; a context manager."""

    def __init__(self, name):
        self.folder = tempfile.mkdtemp(prefix="cellspan-bench-")
        self.marker = uuid.uuid4().hex
        self.manager = KernelManager(kernel_name=name)
        self.client = None
        environment = dict(os.environ, IPYTHONDIR=os.path.join(self.folder, "ipython"), **{MARKER: self.marker})
        try:
            self.manager.start_kernel(env=environment, cwd=self.folder, **QUIET)
            self.pid = self.manager.provisioner.pid
            self.client = self.manager.client()
            self.client.start_channels(hb=False)
            self.poller = zmq.Poller()
            for channel in (self.client.shell_channel, self.client.iopub_channel):
                self.poller.register(channel.socket, zmq.POLLIN)
            self.client.wait_for_ready(timeout=60)
            self.must("pass")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, code, **options):
        return Cell(self, code, **options)

    def run(self, code, timeout=60.0):
        cell = Cell(self, code)
        cell.wait(timeout)
        return cell

    def must(self, code, timeout=120.0):
        """Runs a cell that belongs to the set-up; RuntimeError when it fails or does not end."""
        cell = self.run(code, timeout)
        if cell.status != "ok":
            raise RuntimeError("%s:\n%s\n%s" % (cell.status, code, cell.output[-2000:]))
        return cell

    def processes(self):
        """Everything alive that came of this kernel, itself included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARKER) == self.marker and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def process(self, name):
        """The one process of ours whose program has this name; None if there is none."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if os.path.basename(process.exe()) == name:
                    return process
        return None

    def close(self):
        """Ends the kernel and all that came of it."""
        with contextlib.suppress(Exception):
            self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=True)
        for _ in range(10):
            left = self.processes()
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if not left:
                break
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)


def use_prefix(prefix):
    """Jupyter finds the kernel that `cellspan install --prefix DIR` has written; None: as it is."""
    if prefix:
        share = os.path.join(os.path.abspath(prefix), "share", "jupyter")
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [share, os.environ.get("JUPYTER_PATH")]))


def memory_of(pids):
    """What processes hold, MiB: {"pss": …, "private": PSS but for shared memory}."""
    total = {"Pss": 0, "Pss_Shmem": 0}
    for pid in pids:
        with contextlib.suppress(OSError), open("/proc/%d/smaps_rollup" % pid) as file:
            for key, value, *_ in (line.split() for line in file if line.startswith("Pss")):
                if key[:-1] in total:
                    total[key[:-1]] += int(value)
    return {"pss": total["Pss"] / 1024, "private": (total["Pss"] - total["Pss_Shmem"]) / 1024}


def shared_memory():
    """The machine's memory in shm and memfds, MiB: it exists whether or not somebody maps it, so PSS can't show it."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shmem:")) / 1024


class Growth(threading.Thread):
    """How much more memory a kernel's whole tree takes than at the start: private pages and shared memory, MiB."""

    def __init__(self, kernel):
        super().__init__(daemon=True)
        self.kernel, self.peak, self.over = kernel, 0.0, threading.Event()
        self.before = self._now()

    def _now(self):
        return memory_of(p.pid for p in self.kernel.processes())["private"] + shared_memory()

    def run(self):
        while not self.over.wait(0.1):
            self.peak = max(self.peak, self._now() - self.before)

    def stop(self):
        """Ends the watch; the growth that stays."""
        self.over.set()
        self.join()
        return self._now() - self.before


def cpu_in_use(seconds):
    """How many cores the machine kept busy for so long."""

    def busy():
        times = psutil.cpu_times()
        return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice

    begin, before = time.perf_counter(), busy()
    time.sleep(seconds)
    return (busy() - before) / (time.perf_counter() - begin)


def settle(limit, most=0.3):
    """Waits until the machine does nothing else, at most `limit` seconds; how many cores were in use at the end."""
    deadline = time.perf_counter() + limit
    while True:
        used = cpu_in_use(0.5)
        if used < most or time.perf_counter() >= deadline:
            return used


def own_memory(share=0.7):
    """Writes to this share of the memory that is free. A virtual machine's host gives it a page when that is first written,
    which takes up to 20 µs: more than all that is measured of it."""
    size = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as limit:  # a container's; "max": none
        size = min(size, int(limit.read()))
    mmap.mmap(-1, int(size * share), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def most_in_a_second(times):
    """The most events in any span of one second."""
    times, first, most = sorted(times), 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most


def middle(values):
    """The median of what is a number; a text where nothing is."""
    numbers = [v for v in values if isinstance(v, (int, float))]
    return statistics.median(numbers) if numbers else (values[0] if values else None)
