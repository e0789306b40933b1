"""A process manager for MPI, in a process of its own: python -I -S pmi_server.py FD SIZE RUN.

MPI libraries ask the program that has started them for their rank, and exchange addresses through it. cellspan's ranks are there
already when their code imports MPI, so rank 0 starts this one. It is no thread of a rank: a rank that initialises MPI keeps Python's
lock. Source: PMI-1, as Flux RFC 13 ("Simple Process Manager Interface v1") describes it.

FD is a socket that listens. Each rank connects, reads HELLO and RUN, says "RANK SIZE", and reads "go" when all SIZE ranks are there, or
a line that says why not. Then PMI follows. The process ends with its standard input, which rank 0 keeps open, or with the last rank.
"""

import os
import selectors
import socket
import sys

HELLO = "cellspan-mpi"
LINE_MAX = 64 << 10  # bytes
LIMITS = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"


class Peer:
    """A connection to a rank. rank: None until it has told it."""

    def __init__(self, connection):
        self.connection = connection
        self.rank = None
        self.pending = b""

    def say(self, line):
        try:
            self.connection.sendall(line.encode() + b"\n")
        except OSError:
            pass  # it has ended; its end is read next


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
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        self.selector.register(sys.stdin.buffer, selectors.EVENT_READ, self.end)

    def serve(self):
        while not (self.complete and not self.peers):
            for key, _ in self.selector.select():
                key.data()

    def end(self):
        sys.exit(0)

    # ---- ranks meet ----

    def accept(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        peer = Peer(connection)
        self.peers.append(peer)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.read(peer))
        peer.say(f"{HELLO} {self.run}")

    def greet(self, peer, line):
        words = line.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
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
            peer.say("go") if peer.rank is not None else self.leave(peer)

    def refuse(self, peer, why):
        peer.say(why)
        self.leave(peer)

    def leave(self, peer):
        if peer in self.peers:
            self.peers.remove(peer)
            self.selector.unregister(peer.connection)
            peer.connection.close()

    def read(self, peer):
        try:
            more = peer.connection.recv(4096)
        except OSError:
            more = b""
        *lines, peer.pending = (peer.pending + more).split(b"\n")
        if not more or len(peer.pending) > LINE_MAX:
            return self.leave(peer)
        for line in lines:
            self.greet(peer, line.decode(errors="replace")) if peer.rank is None else self.answer(peer, line.decode(errors="replace"))

    # ---- PMI ----

    def answer(self, peer, line):
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        command = words.get("cmd", words.get("mcmd", ""))
        if command == "init":
            peer.say("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
        elif command == "get_maxes":
            peer.say(LIMITS)
        elif command == "get_appnum":
            peer.say("cmd=appnum appnum=0")
        elif command == "get_universe_size":
            peer.say(f"cmd=universe_size size={self.size}")
        elif command == "get_my_kvsname":
            peer.say(f"cmd=my_kvsname kvsname={self.name}")
        elif command == "put":
            self.values[words.get("key")] = line.partition(" value=")[2]
            peer.say("cmd=put_result rc=0 msg=success")
        elif command == "get":
            value = self.values.get(words.get("key"))
            peer.say("cmd=get_result rc=-1 msg=key_not_found value=unknown" if value is None else f"cmd=get_result rc=0 msg=success value={value}")
        elif command == "barrier_in":
            self.waiting.append(peer)
            if len(self.waiting) == self.size:
                for other in self.waiting:
                    other.say("cmd=barrier_out")
                self.waiting = []
        elif command == "finalize":
            peer.say("cmd=finalize_ack")
        elif command == "spawn":
            peer.say("cmd=spawn_result rc=-1 msg=ranks_can_not_be_spawned")


if __name__ == "__main__":
    descriptor, world, name = sys.argv[1:]
    Server(socket.socket(fileno=int(descriptor)), int(world), name).serve()
