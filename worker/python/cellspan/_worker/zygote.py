# SPDX-License-Identifier: BSD-3-Clause
"""The zygote: it has imported the packages that ranks need, and forks ranks. It has one thread and runs no code of the user's.

It forks an intermediate process, which forks the ranks and ends at once. So the ranks become the agent's children, and the agent
can wait for them.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import platform
import signal
import socket
import sys
import time

from .. import _link
from .._base.errors import attempt
from . import after_fork, environment, first_traceback, reloads, seeds, stacks
from .begin import begin_collecting, begin_process, begin_within_limits, say_limit
from .message import decoded
from .wanted import Wanted, package_of

PACKET = 65536
SHELLS = tuple("IPython.core." + name for name in "application completer completerlib crashhandler debugger logger magics oinspect".split())
PORTION = 32  # ranks that one intermediate process forks, so that the first of many ranks are ready early
COUNT_WITHOUT_CUDA = "PYTORCH_NVML_BASED_CUDA_CHECK"  # torch.cuda.is_available() then asks NVML, which does not disturb forks
GPU_FILES = "/dev/nvidia"


class Order:
    """An order to fork one rank."""

    def __init__(self, message, fds):
        self.worker, fields = message.worker, message.fields
        self.role = fields["role"]
        self.rank = int.from_bytes(fields["ranks"][:4], "little")
        self.group, self.cwd = fields["group"], fields["cwd"]
        self.env = json.loads(fields["env"] or "{}")
        self.fds = fds  # the rank's socket, stdout, stderr, and pipe for stacks

    def close(self):
        for fd in self.fds:
            os.close(fd)


def preload():
    """Imports packages. If one is missing or broken, the ranks start anyway: the user's import of it will fail. The log names it, unless
    it is one of ours that is not installed. Returns what was wanted."""
    wanted = Wanted(_link.setting("CELLSPAN_PRELOAD"))
    for name in wanted.idle:
        there = ", ".join(sorted(filter(None, wanted.packages.difference(wanted.without))))
        print(f"CELLSPAN_PRELOAD: -{name} leaves nothing out. The packages that are imported beforehand are {there}", file=sys.stderr)
    before = os.environ.get(COUNT_WITHOUT_CUDA)
    os.environ.setdefault(COUNT_WITHOUT_CUDA, "1")
    held = gpu_files()
    for name in wanted.modules:
        asked = name in wanted.asked
        attempt(("CELLSPAN_PRELOAD: " if asked else "") + f"{name} could not be imported beforehand", _import, name, asked)
        held = _tell_of_gpus(name, held)
    if before is None:
        del os.environ[COUNT_WITHOUT_CUDA]
    from . import scripts  # noqa: F401 - and with it IPython
    for name in SHELLS:
        attempt(f"{name} could not be imported beforehand", _import, name)

    reloads.imported.note()
    first_traceback.render()
    return wanted


def _import(name, asked=False):
    """Imports a module. asked: it must be there."""
    if asked or importlib.util.find_spec(package_of(name)) is not None:
        importlib.import_module(name)


def gpu_files(folder="/proc/self/fd"):
    """The set of paths of GPU device files that this process has open."""
    found = set()
    try:
        for number in os.listdir(folder):
            try:
                path = os.readlink(os.path.join(folder, number))
            except OSError:  # closed meanwhile
                continue
            if path.startswith(GPU_FILES):
                found.add(path)
    except OSError:  # the system does not tell
        pass
    return found


def _tell_of_gpus(name, held):
    """Warns if a module's import uses the GPU: CUDA does not work in the child of a process that has used it. Returns gpu_files()."""
    now = gpu_files()
    if now - held:
        print(
            f"{name} uses the GPU while it is imported ({', '.join(sorted(now - held))}): CUDA will not work on the ranks, which are "
            "forked from here. Take it out of CELLSPAN_PRELOAD, or out of what a module there imports",
            file=sys.stderr,
        )
    return now


def orders(sock):
    """Yields lists of orders; those of a list are forked together. Ends with the agent."""
    waiting = []
    while True:
        packet, fds, _, _ = socket.recv_fds(sock, PACKET, 4, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        if not packet:
            return
        if packet[0] == _link.ZYGOTE_RANK and len(fds) == 4:
            waiting.append(Order(decoded(packet[1:]), fds))
        elif packet[0] == _link.ZYGOTE_FORK:
            yield waiting
            waiting = []
        else:
            for fd in fds:
                os.close(fd)


def main(fd):
    """`python -m cellspan._worker zygote FD`."""
    begin_process("zygote")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _link.outlive()  # they are notices, and Slurm may send them to all processes of a job
    agent = os.getppid()
    environment.leave_deleted()
    wanted = preload()
    sys.excepthook = sys.__excepthook__  # __main__.py has set another
    remove_folder = environment.make_folder()
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    ready = {"pid": os.getpid(), "python": platform.python_version(), "info": json.dumps({"zygote": True})}
    sock.send(b"\0" + _link.encode("READY", 0, ready))
    if wanted.asked:  # the user's modules may leave much; ours leave hardly anything, and looking for it after torch takes 0.15 s
        gc.collect()
    begin_collecting()
    for batch in orders(sock):
        while batch:
            order = fork_some(sock, batch[:PORTION], agent)
            if order is not None:
                become(order, sock, batch)
                return
            batch = batch[PORTION:]
    remove_folder()


def fork_some(sock, batch, agent):
    """Forks the ranks of a batch. Returns None in the zygote, which has closed their descriptors; in a rank, its order."""
    sys.stdout.flush()
    sys.stderr.flush()
    between = _forked()
    if between is None:
        os._exit(1)
    if between:
        for order in batch:
            order.close()
        if os.waitpid(between, 0)[1] != 0:
            os._exit(1)  # then the agent knows that the other ranks never start; it has another zygote for the next ones
        return None
    between = os.getpid()
    pids, status = [], 1
    for order in batch:
        pid = _forked()
        if pid is None:
            break
        if pid == 0:
            order.between, order.agent = between, agent
            return order
        pids.append((order.worker, pid))
    else:
        status = 0
    try:
        sock.send(bytes([_link.ZYGOTE_PIDS]) + b"".join(w.to_bytes(4, "little") + p.to_bytes(4, "little") for w, p in pids))
    finally:
        os._exit(status)


def _forked():
    """As fork(). If that fails, one line says which limit is reached. None: it failed."""
    try:
        return _link.fork()
    except OSError as error:
        if not say_limit(error):
            os.write(2, b"cellspan: limit: no new process: %s\n" % error.strerror.encode())
        return None


def become(order, sock, batch):
    """In the child: becomes the rank. batch: the orders whose descriptors it has inherited, including its own."""
    from . import rank as ranks
    from . import scripts

    os.setsid()
    sock.close()
    for other in batch:
        if other is not order:
            other.close()
    link, out, err, stack = order.fds
    for fd, number in ((out, 1), (err, 2)):
        os.dup2(fd, number)
        os.close(fd)
    stacks.install(stack)
    os.environ.update(order.env)
    if order.role != _link.START_SCRIPT:
        environment.coloured()
    if order.cwd:
        os.chdir(order.cwd)
    after_fork.forget()
    made = {_link.START_SCRIPT: scripts.ScriptRank, _link.START_BESIDE: scripts.BesideRank}.get(order.role, ranks.Rank)
    rank = begin_within_limits(made, link, order.rank, order.group, order.env)
    ranks.current = rank
    seeds.begin(order.rank)
    wait_for_agent(order)
    rank.run()


def wait_for_agent(order):
    """Waits until the intermediate process has ended. From then on the rank dies with its agent. If the agent ends before, so does
    its socket, and with it the rank."""
    begin = time.monotonic()
    while os.getppid() == order.between:
        time.sleep(min(0.0005 + (time.monotonic() - begin) / 20, 0.05))
    _link.die_with_parent(signal.SIGKILL)
    if os.getppid() != order.agent:
        os._exit(1)
