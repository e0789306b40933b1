"""Makes the ranks of a world one world of MPI when their code imports mpi4py: MPI.COMM_WORLD has their ranks and size.

MPI is initialised once in a process. So COMM_WORLD stays that of the cell that imported mpi4py first, and all its ranks must import
it. Works with libraries that speak PMI-1 (MPICH and those made from it); with another one each rank is a world of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time

from .._base.imports import before_import, when_imported
from . import pmi_server

WAIT_S = 30  # for the other ranks
PAUSE_S = 0.02  # between two tries to connect
HELLO_S = 1  # a server of another kind may listen at the port, and say nothing
PMI = ("PMI_FD", "PMI_RANK", "PMI_SIZE")

_kept = []  # rank 0's server, and this process's connection: MPI uses it until the process ends


def watch():
    """Call it in a rank, before the user's code runs. `mpi4py.rc.initialize = False` leaves MPI alone."""
    before_import("mpi4py.MPI", _join)
    when_imported("mpi4py.MPI", _joined)


def _join():
    """Connects to the world's server, and tells MPI where that connection is."""
    size = os.environ.get("WORLD_SIZE", "1")
    rc = getattr(sys.modules.get("mpi4py"), "rc", None)
    if size == "1" or getattr(rc, "initialize", True) is False:
        return
    try:
        connection = _meet(int(os.environ["RANK"]), int(size))
    except (OSError, KeyError, ValueError) as error:
        print(
            f"cellspan: for MPI this rank is alone: {error}. To have one world, %ranks restart, then import mpi4py on all {size} ranks "
            "in one cell",
            file=sys.stderr,
        )
        return
    except BaseException:  # an interrupt: the next import tries again
        watch()
        raise
    _kept.append(connection)
    os.environ.update(zip(PMI, (str(connection.fileno()), os.environ["RANK"], size)))
    if getattr(rc, "finalize", True) is None:
        rc.finalize = False  # it would wait for all ranks when one of them ends


def _joined():
    told = PMI[0] in os.environ
    for name in PMI:  # not for the processes that this rank starts
        os.environ.pop(name, None)
    world = getattr(sys.modules["mpi4py.MPI"], "COMM_WORLD", None)
    size = world.Get_size() if world is not None else 0
    if told and size > 1:
        world.Barrier()
    elif told and size:
        print(
            f"cellspan: for MPI each of these {os.environ.get('WORLD_SIZE')} ranks is rank 0 of 1: with MPICH they would be one world "
            "(pip install mpich), other MPI libraries need mpirun; torch.distributed (--init) works without MPI",
            file=sys.stderr,
        )
    _remove_names()


def _remove_names():
    """Removes the names of the shared memory that all ranks of this machine have opened now. A process that is killed would leave
    them."""
    try:
        with open("/proc/self/maps") as maps:
            names = {line[line.index("/dev/shm/mpich_"):].rstrip("\n") for line in maps if "/dev/shm/mpich_" in line}
    except OSError:  # no Linux
        return
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _meet(rank, size):
    """A connection to the server when all ranks are there. OSError: they are not, or there is no free port."""
    server = _serve(size) if rank == 0 else None
    until = time.monotonic() + WAIT_S
    try:
        while True:
            for address in _addresses():
                connection = _connected(address, rank, size, until)
                if connection is not None:
                    _kept.append(server)
                    return connection
            if time.monotonic() >= until:
                raise OSError(f"rank 0 has not imported mpi4py within {WAIT_S} s")
            time.sleep(PAUSE_S)
    except BaseException:
        if server is not None:
            server.kill()
            server.wait()
        raise


def _addresses():
    """Where rank 0's server may be: the port for JAX's coordinator and the port for torch's store, of which one is likely to be free."""
    jax_host, _, jax_port = os.environ["JAX_COORDINATOR_ADDRESS"].rpartition(":")
    return (jax_host.strip("[]"), int(jax_port)), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def _serve(size):
    """Starts the server, as a child that ends with this process."""
    why = None
    for address in _addresses():
        try:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            listener = socket.create_server(address, family=family, backlog=size)
        except OSError as error:
            why = error
            continue
        command = [sys.executable, "-I", "-S", pmi_server.__file__, str(listener.fileno()), str(size), _run()]
        with listener:
            return subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True)
    raise why


def _run():
    return os.environ.get("TORCHELASTIC_RUN_ID") or "-"


def _connected(address, rank, size, until):
    """The connection to the server at this address when all ranks are there; None: there is no such server, or it has ended."""
    with contextlib.ExitStack() as close:
        try:
            connection = close.enter_context(socket.create_connection(address, timeout=HELLO_S))
            hello = _line(connection)
        except OSError:
            return None
        if hello != f"{pmi_server.HELLO} {_run()}":
            return None
        connection.sendall(f"{rank} {size}\n".encode())
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            said = _line(connection)
        except socket.timeout:
            raise OSError(f"other ranks have not imported mpi4py within {WAIT_S} s") from None
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
