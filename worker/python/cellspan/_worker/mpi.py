# SPDX-License-Identifier: BSD-3-Clause
"""Makes the ranks of a world one world of MPI when their code imports mpi4py: MPI.COMM_WORLD has their ranks and size.

MPI is initialised once in a process. So COMM_WORLD stays that of the cell that imported mpi4py first, and all its ranks must import
it. Works with libraries that speak PMI-1 (MPICH and those made from it); with another one each rank is a world of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from .._base import threads
from .._base.imports import when_imported
from . import pmi_server

WAIT_S = 30  # for the other ranks
PAUSE_S = 0.02  # between two tries to connect
HELLO_S = 1  # a server of another kind may listen at the port, and say nothing
PMI = ("PMI_FD", "PMI_RANK", "PMI_SIZE")
STEP = ("SLURM_STEPID", "SLURM_STEP_ID")  # with them Open MPI takes a rank for srun's task, and ends it
NO = ("0", "n", "no", "f", "false", "off")  # for mpi4py's own variables

_world = None  # the _World of this process
_process = None  # that of the rank; a process that it forks is no part of the world
_binds = False  # variables from home are bound: this process does not know the world of its next cell
_hidden = {}  # variables that are away while MPI is initialised
_later = []  # (function, arguments) of what is bound when the cell begins, since it imports mpi4py


class _Later(BaseException):
    """mpi4py is imported while variables are bound. No Exception: a library may import it within try."""


def watch():
    """Call it in a rank, before the user's code runs. `mpi4py.rc.initialize = False` leaves MPI alone."""
    global _process
    _process = os.getpid()
    when_imported("mpi4py.MPI", _imported, before=_importing, failed=_not_imported)


def bind(function, broadcast, fd, size):
    """function(broadcast, fd, size), which binds variables from home before a cell begins; what imports mpi4py, when it begins."""
    global _binds
    __tracebackhide__ = True
    _binds = not broadcast
    try:
        function(broadcast, fd, size)
    except _Later:
        _later.append((function, os.dup(fd), size))
    finally:
        _binds = False


def cell_begins():
    """The environment is that of the cell's world now."""
    __tracebackhide__ = True
    while _later:
        function, fd, size = _later.pop(0)
        try:
            function("", fd, size)
        finally:
            os.close(fd)


def _importing():
    rc = getattr(sys.modules.get("mpi4py"), "rc", None)
    if getattr(rc, "initialize", True) is False or os.environ.get("MPI4PY_RC_INITIALIZE", "").lower() in NO or os.getpid() != _process:
        return
    if _binds:
        raise _Later
    _hidden.update((name, os.environ.pop(name)) for name in STEP if name in os.environ)
    _join()


def _join():
    """Connects to the world's server, and tells MPI where that connection is."""
    global _world
    size = os.environ.get("WORLD_SIZE", "1")
    if size == "1" or _world is not None:
        return
    try:
        _world = _World(int(os.environ["RANK"]), int(size))
    except (OSError, KeyError, ValueError) as error:
        print(
            f"cellspan: for MPI this rank is alone: {error}. To have one world, %ranks restart, then import mpi4py on all {size} ranks "
            "in one cell",
            file=sys.stderr,
        )
        return
    _hand_over(_world.connection, os.environ["RANK"], size)
    rc = getattr(sys.modules.get("mpi4py"), "rc", None)
    if getattr(rc, "finalize", True) is None:
        rc.finalize = False  # MPI_Finalize would wait for all ranks when one of them ends


def _hand_over(connection, rank, size):
    os.environ.update(zip(PMI, (str(os.dup(connection.fileno())), rank, size)))  # MPI closes what it gets


def _put_back():
    """The environment is the user's again, also for the processes that this rank starts."""
    os.environ.update(_hidden)
    _hidden.clear()
    for name in PMI:
        os.environ.pop(name, None)


def _not_imported():
    """There may be no MPI library, or an interrupt has come: the next import makes a new world. What MPI had of this one is left open:
    it may have closed it."""
    global _world
    _put_back()
    if _world is not None and os.getpid() == _process:
        _world.end()
        _world = None


def _imported():
    """MPI is initialised, unless the user does not want it yet."""
    mpi = sys.modules["mpi4py.MPI"]
    _put_back()
    if not mpi.Is_initialized() or os.getpid() != _process:
        return
    if _world is not None and mpi.COMM_WORLD.Get_size() > 1:
        mpi.COMM_WORLD.Barrier()
        _world.watch()
    elif _world is not None:
        _world.end()
        print(
            f"cellspan: for MPI each of these {os.environ.get('WORLD_SIZE')} ranks is rank 0 of 1: with MPICH they would be one world "
            "(pip install mpich), other MPI libraries need mpirun; torch.distributed (--init) works without MPI",
            file=sys.stderr,
        )
    remove_names()


def remove_names():
    """Removes the names of MPI's shared memory, which the processes of this machine have opened when MPI is initialised. A process that is
    killed would leave them."""
    try:
        with open("/proc/self/maps") as maps:
            names = {line[line.index("/dev/shm/mpich_"):].rstrip("\n") for line in maps if "/dev/shm/mpich_" in line}
    except OSError:  # no Linux
        return
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name)


class _World:
    """This process's part of a world that exchanges addresses: its connection to the server, and on rank 0 the server."""

    def __init__(self, rank, size):
        """OSError: the other ranks are not there, or there is no free port."""
        self.server = _serve(size) if rank == 0 else None
        try:
            self.connection = self._meet(rank, size)
        except BaseException:
            self._end_server()
            raise

    def _meet(self, rank, size):
        """The connection to the server, once all ranks are there."""
        until = time.monotonic() + WAIT_S
        while True:
            for address in _addresses():
                connection = _connected(address, rank, size, until)
                if connection is not None:
                    return connection
            if self.server is not None and self.server.poll() is not None:
                raise OSError("the process through which ranks meet has ended: import mpi4py again, on all ranks in one cell")
            if time.monotonic() >= until:
                raise OSError(f"rank 0 has not imported mpi4py in this cell within {WAIT_S} s: all ranks must, in the same cell")
            time.sleep(PAUSE_S)

    def end(self):
        self.connection.close()
        self._end_server()

    def _end_server(self):
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server.stdin.close()

    def watch(self):
        """Ends this process if a rank calls MPI_Abort. MPI itself leaves that to its launcher."""
        threads.begin("mpi", self._watch)

    def _watch(self):
        with self.connection:
            self._wait_for_abort()

    def _wait_for_abort(self):
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        while True:
            poller.poll()
            try:
                said = self.connection.recv(200, socket.MSG_PEEK).decode(errors="replace")
            except OSError:
                return
            if said.startswith(f"{pmi_server.ABORT} ") and "\n" in said:
                status = said.split()[1]
                print(f"cellspan: MPI_Abort({status}) was called", file=sys.stderr, flush=True)
                os._exit(int(status) & 0xFF or 1 if status.lstrip("-").isdigit() else 1)
            if said == "":  # the server has ended, or MPI is finalised
                return
            time.sleep(PAUSE_S)  # an answer that MPI reads


def _addresses():
    """Where rank 0's server may be: the port for JAX's coordinator and the port for torch's store, of which one is likely to be free."""
    jax_host, _, jax_port = os.environ.get("JAX_COORDINATOR_ADDRESS", "").rpartition(":")
    both = (jax_host.strip("[]"), jax_port), (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", ""))
    found = [(host, int(port)) for host, port in both if host and port.isascii() and port.isdigit()]
    if not found:
        raise OSError("MASTER_ADDR and MASTER_PORT are not set")
    return found


def _serve(size):
    """Starts the server, as a child that ends with this process."""
    import subprocess  # most ranks never need it

    why = None
    for host, port in _addresses():
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((host, port), family=family, backlog=size)
        except OSError as error:
            why = error
            continue
        command = [sys.executable, "-I", "-S", pmi_server.__file__, str(listener.fileno()), str(size), _run()]
        with listener:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    pass_fds=[listener.fileno()], start_new_session=True)
    raise why


def _run():
    return os.environ.get("TORCHELASTIC_RUN_ID") or "-"


def _connected(address, rank, size, until):
    """The connection to the server at this address when all ranks are there; None: there is no such server, or it has ended."""
    with contextlib.ExitStack() as close:
        try:
            connection = close.enter_context(socket.create_connection(address, timeout=HELLO_S))
            if _line(connection) != f"{pmi_server.HELLO} {_run()}":
                return None
            connection.sendall(f"{rank} {size}\n".encode())
        except OSError:
            return None
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            said = _line(connection)
        except socket.timeout:
            raise OSError(f"other ranks have not imported mpi4py in this cell within {WAIT_S} s: all ranks must, in the same cell") from None
        if said == "":
            return None
        if said != "go":
            raise OSError(said)
        connection.settimeout(None)
        close.pop_all()
        return connection


def _line(connection):
    """The next line, without its end; what comes after it stays in the connection. "": it was closed."""
    said = b""
    while not said.endswith(b"\n"):
        more = connection.recv(1)
        if not more or len(said) > 1000:
            return ""
        said += more
    return said.decode(errors="replace").rstrip("\n")
