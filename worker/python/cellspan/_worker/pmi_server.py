# SPDX-License-Identifier: BSD-3-Clause
"""A process manager for MPI, in a process of its own: python -I -S pmi_server.py FD SIZE RUN.

MPI libraries ask the program that has started them for their rank, and exchange addresses through it. cellspan's ranks are there
already when their code imports MPI, so rank 0 starts this one. It is no thread of a rank: a rank that initialises MPI keeps Python's
lock. Source: PMI-1, as Flux RFC 13 ("Simple Process Manager Interface v1") describes it.

FD is a socket that listens. Each rank connects, reads HELLO and RUN, says "RANK SIZE", and reads "go" when all SIZE ranks are there, or
a line that says why not. Then PMI follows. If a rank calls MPI_Abort, all read ABORT and the status: they end themselves.

The process ends with rank 0, or with the last rank.
"""

import contextlib
import os
import selectors
import socket
import sys

HELLO = "cellspan-mpi"
ABORT = "cellspan-mpi-abort"
POLL_S = 5  # seconds between two checks whether rank 0 is there; a process that it has forked may keep its pipe open
LINE_MAX = 64 << 10  # bytes
LIMITS = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"


class Peer:
    """A connection to a rank. rank: None until it has told it."""

    def __init__(self, connection):
        self.connection = connection
        self.rank = None
        self.finalized = False
        self.pending = b""

    def say(self, line):
        with contextlib.suppress(OSError):  # it has ended; its end is read next
            self.connection.sendall(line.encode() + b"\n")


class Server:
    def __init__(self, listener, size, run):
        self.listener = listener
        self.size = size
        self.run = run
        self.name = f"cellspan_{os.getpid()}_{os.urandom(8).hex()}"  # of the values; MPICH names its shared memory after it
        self.values = {}
        self.peers = []
        self.waiting = []  # those in a barrier
        self.complete = False
        self.left = False  # a rank has left without MPI_Finalize
        self.parent = os.getppid()
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        self.selector.register(sys.stdin.buffer, selectors.EVENT_READ, self.end)

    def serve(self):
        while os.getppid() == self.parent and not (self.complete and not self.peers):
            for key, _ in self.selector.select(POLL_S):
                key.data()

    def end(self):
        sys.exit(0)

    # ---- ranks meet ----

    def accept(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        connection.settimeout(POLL_S)
        peer = Peer(connection)
        self.peers.append(peer)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.read(peer))
        peer.say(f"{HELLO} {self.run}")

    def greet(self, peer, line):
        words = line.split()
        if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
            return self.refuse(peer, "no rank")
        rank, size = map(int, words)
        if size != self.size:
            return self.refuse(peer, f"rank {rank} is in a world of {size}, and rank 0 in one of {self.size}")
        if rank >= size or any(other.rank == rank for other in self.peers):
            return self.refuse(peer, f"rank {rank} is here already")
        peer.rank = rank
        if all(any(other.rank == rank for other in self.peers) for rank in range(self.size)):
            self.all_are_here()

    def all_are_here(self):
        self.complete = True
        self.selector.unregister(self.listener)
        self.listener.close()
        for peer in list(self.peers):
            if peer.rank is None:
                self.leave(peer)
            else:
                peer.say("go")

    def refuse(self, peer, why):
        peer.say(why)
        self.leave(peer)

    def leave(self, peer):
        if peer not in self.peers:
            return
        self.peers.remove(peer)
        self.selector.unregister(peer.connection)
        peer.connection.close()
        if self.complete and not peer.finalized:
            self.left = True
            self.end_waits()

    def end_waits(self):
        """Nobody comes through a barrier without the rank that has left. MPI makes an error of a connection that ends."""
        waiting, self.waiting = self.waiting, []
        for other in waiting:
            self.leave(other)

    def read(self, peer):
        try:
            more = peer.connection.recv(4096)
        except OSError:
            more = b""
        *lines, peer.pending = (peer.pending + more).split(b"\n")
        if not more or len(peer.pending) > LINE_MAX:
            return self.leave(peer)
        for line in lines:
            handle = self.greet if peer.rank is None else self.answer
            handle(peer, line.decode(errors="replace"))

    # ---- PMI ----

    def answer(self, peer, line):
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        command = words.get("cmd") or words.get("mcmd", "")
        fixed = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": LIMITS,
            "get_appnum": "cmd=appnum appnum=0",
            "get_universe_size": f"cmd=universe_size size={self.size}",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.name}",
        }
        if command in fixed:
            peer.say(fixed[command])
        elif command == "put":
            self.values[words.get("key")] = line.partition(" value=")[2]
            peer.say("cmd=put_result rc=0 msg=success")
        elif command == "get":
            self.get(peer, words.get("key"))
        elif command == "barrier_in":
            self.barrier(peer)
        elif command == "finalize":
            peer.finalized = True
            peer.say("cmd=finalize_ack")
            self.leave(peer)
        elif command == "abort":
            for other in self.peers:
                other.say(f"{ABORT} {words.get('exitcode', '1')}")
        elif command:  # spawn, publish_name and the like
            name = {"publish_name": "publish", "unpublish_name": "unpublish", "lookup_name": "lookup"}.get(command, command)
            peer.say(f"cmd={name}_result rc=-1 msg=not_supported")

    def get(self, peer, key):
        if key in self.values:
            peer.say(f"cmd=get_result rc=0 msg=success value={self.values[key]}")
        else:
            peer.say("cmd=get_result rc=-1 msg=key_not_found value=unknown")

    def barrier(self, peer):
        self.waiting.append(peer)
        if self.left:
            self.end_waits()
        elif len(self.waiting) == self.size:
            for other in self.waiting:
                other.say("cmd=barrier_out")
            self.waiting = []


if __name__ == "__main__":
    descriptor, world, name = sys.argv[1:]
    Server(socket.socket(fileno=int(descriptor)), int(world), name).serve()
