# SPDX-License-Identifier: BSD-3-Clause
"""Acts as the agent for a worker under test: the socket, the pipes, and every answer that a kernel would give."""

import array
import ctypes
import fcntl
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import termios
import time

from cellspan import _link
from cellspan._capture import vars_bundle
from cellspan._worker.message import decoded

# as in worker/agent/spawn_process.c
AS_MODULE = "import sys; sys.path[:1] == [''] and sys.path.pop(0); import runpy; runpy._run_module_as_main(sys.argv.pop(1))"
PACKET = 65536
PR_SET_CHILD_SUBREAPER = 36
LIMIT = 60.0  # seconds that anything may take here


def memfd(data):
    """A sealed memfd with `data`, and its size."""
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, 1033, 0x0001 | 0x0002 | 0x0004 | 0x0008)  # F_ADD_SEALS: SEAL, SHRINK, GROW, WRITE
    return fd, len(data)


def free_port():
    """A port that nobody has now, below those that the system gives to whoever asks for any: nobody takes it before it
    is used."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Message:
    """One that came from the worker."""

    def __init__(self, data, fd):
        message = decoded(data)
        self.kind, self.cell, self.worker, self.blob = message.kind, message.cell, message.worker, message.blob
        self.size, self.fields = message.size, message.fields
        self.fd = fd

    def json(self, name="content"):
        return json.loads(self.fields[name])

    def __repr__(self):
        return f"<{self.kind} cell {self.cell} {self.fields}>"


def pair():
    """A socket pair as the agent makes it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours, theirs


class End:
    """One worker: its socket, its pipes, what it wrote."""

    def __init__(self, sock, out, err, stack=None):
        self.sock, self.out, self.err, self.stack = sock, out, err, stack
        self.text = {1: b"", 2: b""}
        self.seen = []
        self.published = []
        self.closed = False
        self.drained = 0  # so often were the pipes emptied

    def send(self, kind, cell=0, fields=None, blob=0, data=None, worker=1):
        """A message to the worker; `data`: its blob's bytes."""
        fds = []
        size = 0
        if data is not None:
            fd, size = memfd(data)
            fds.append(fd)
        body = _link.encode(kind, cell, fields or {}, worker, blob, size)
        if 1 + len(body) > PACKET:
            fd, n = memfd(body)
            fds.insert(0, fd)
            packet = b"\x01" + n.to_bytes(8, "little")
        else:
            packet = b"\x00" + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([packet], rights)
        for fd in fds:
            os.close(fd)

    def pump(self, seconds=0.05):
        """Takes what is there. What was sent before some text is taken before it: so the text is measured, then the socket is
        emptied, then no more text than that is taken."""
        watched = [self.out, self.err] if self.closed else [self.sock, self.out, self.err]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self.sock in ready:
            self._packet()
        for number, fd in ((1, self.out), (2, self.err)):
            if fd not in ready:
                continue
            size, drained = self._holds(fd), self.drained
            while not self.closed and select.select([self.sock], [], [], 0)[0]:
                self._packet()
            if drained == self.drained and size:  # else a packet had them emptied, and what is there now may be newer than the next packet
                self._pipe(number, fd, size)

    @staticmethod
    def _holds(fd):
        size = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, size)
        return size[0]

    def _pipe(self, number, fd, size=1 << 16):
        data = os.read(fd, size)
        self.text[number] += data
        return data

    def drain_pipes(self):
        self.drained += 1
        for number, fd in ((1, self.out), (2, self.err)):
            while select.select([fd], [], [], 0)[0] and self._pipe(number, fd):
                pass

    def _packet(self):
        packet, rights, _, _ = self.sock.recvmsg(PACKET, socket.CMSG_SPACE(8 * 4))
        fds = array.array("i")
        for _, _, data in rights:
            fds.frombytes(data[: len(data) - len(data) % 4])
        fds = list(fds)
        if not packet:
            self.closed = True
            return
        if packet[0] == 0:
            data = packet[1:]
        elif packet[0] == 1:
            fd = fds.pop(0)
            data = os.pread(fd, int.from_bytes(packet[1:9], "little"), 0)
            os.close(fd)
        else:
            self.seen.append(packet)
            return
        message = Message(data, fds.pop(0) if fds else -1)
        if message.kind == "SYNC":
            self.drain_pipes()
            self.send("SYNCED")
            return
        if message.kind == "ASK":  # there are no ranks
            self.send("ASK_REPLY", message.cell, {"answers": "[]"})
            return
        if message.kind in ("REPLY", "DONE"):
            self.drain_pipes()
        message.text_before = dict(self.text)
        if message.kind == "PUBLISH":
            self.published.append(message)
        self.seen.append(message)

    def expect(self, kind, cell=None, limit=LIMIT):
        """The next message of this kind (and cell), which is taken out of `seen`."""
        end = time.monotonic() + limit
        while True:
            for message in self.seen:
                if isinstance(message, Message) and message.kind == kind and cell in (None, message.cell):
                    self.seen.remove(message)
                    return message
            if time.monotonic() > end or self.closed:
                raise AssertionError(f"no {kind}; got {self.seen}, {self.text}")
            self.pump()

    def until(self, what, limit=LIMIT):
        """Pumps until what() is true."""
        end = time.monotonic() + limit
        while not what():
            assert time.monotonic() < end, f"never came true; got {self.seen}, {self.text}"
            self.pump()

    def close_pipes(self):
        """When its process is over. What it wrote and nobody took is lost."""
        for fd in (self.out, self.err) + ((self.stack,) if self.stack is not None else ()):
            os.close(fd)


def environment():
    """That of a worker, as the agent makes it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(_link.__file__)))
    return dict(os.environ, PYTHONPATH=package, CELLSPAN_PYTHONPATH=package)


class Home(End):
    """A home that runs, READY."""

    def __init__(self, python=sys.executable, env=None):
        ours, theirs = pair()
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        stack_r, stack_w = os.pipe()
        self.process = self.start(python, {**environment(), **(env or {})}, (out_w, err_w, theirs.fileno(), stack_w))
        for fd in (out_w, err_w, stack_w):
            os.close(fd)
        theirs.close()
        super().__init__(ours, out_r, err_r, stack_r)
        self.cells = 0
        self.count = 1
        self.ready = self.expect("READY")

    def start(self, python, env, files):
        """Its process. files: its stdout, stderr, socket to the agent, and the file for its stacks."""
        out, err, sock, stack = files
        return subprocess.Popen(
            [python, "-c", AS_MODULE, "cellspan._worker", "home", str(sock)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(env, CELLSPAN_STACK_FD=str(stack)),
            pass_fds=(sock, stack),
            start_new_session=True,
        )

    def request(self, kind, content, flags=0, count=0, buffers=(), metadata=None):
        """Sends a request; its number."""
        self.cells += 1
        header = {"msg_id": f"m{self.cells}", "msg_type": kind, "session": "s", "username": "u", "version": "5.4"}
        fields = {
            "type": kind,
            "content": json.dumps(content),
            "header": json.dumps(header),
            "metadata": json.dumps(metadata or {}),
            "buffers": list(buffers),
            "count": count,
            "flags": flags,
        }
        self.send("REQUEST", self.cells, fields)
        return self.cells

    def ask(self, kind, **content):
        """A request and its reply's content."""
        return self.expect("REPLY", self.request(kind, content)).json()

    def execute(self, code, silent=False, store=True, stdin=False, **more):
        """A cell, sent; its number."""
        flags = silent * _link.REQUEST_SILENT | store * _link.REQUEST_STORE | stdin * _link.REQUEST_STDIN
        cell = self.request("execute_request", dict({"code": code, "silent": silent}, **more), flags, self.count)
        if store and not silent:
            self.count += 1
        return cell

    def run(self, code, **options):
        """A cell, to its end: the reply's content."""
        return self.expect("REPLY", self.execute(code, **options)).json()

    def shown(self, kind):
        """The contents of what was published of this kind."""
        return [m.json() for m in self.published if m.fields["type"] == kind]

    def close(self):
        """Ends it as an agent's death would; subprocess.TimeoutExpired: it has outlived that, and was killed."""
        self.sock.close()
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LIMIT)
            raise
        finally:
            self.close_pipes()


class Zygote(End):
    """A zygote that has imported, and the ranks that it forks."""

    def __init__(self, python=sys.executable, env=None):
        ours, theirs = pair()
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        full = {**environment(), **(env or {})}
        self.process = subprocess.Popen(
            [python, "-c", AS_MODULE, "cellspan._worker", "zygote", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=out_w,
            stderr=err_w,
            env=full,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        os.close(out_w)
        os.close(err_w)
        theirs.close()
        super().__init__(ours, out_r, err_r)
        self.ready = self.expect("READY", limit=100)

    def fork(self, ranks, env=None, role=1):
        """New ranks, READY: a list of End, each with .pid and .number."""
        new = []
        for number in ranks:
            ours, theirs = pair()
            out_r, out_w = os.pipe()
            err_r, err_w = os.pipe()
            stack_r, stack_w = os.pipe()
            fields = {"role": role, "ranks": number.to_bytes(4, "little"), "group": "default", "env": json.dumps(env or {})}
            fds = array.array("i", [theirs.fileno(), out_w, err_w, stack_w])
            body = bytes([_link.ZYGOTE_RANK]) + _link.encode("START", 0, fields, number + 2)
            self.sock.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            for fd in (out_w, err_w, stack_w):
                os.close(fd)
            theirs.close()
            end = End(ours, out_r, err_r, stack_r)
            end.number = number
            new.append(end)
        self.sock.send(bytes([_link.ZYGOTE_FORK]))
        self.until(lambda: any(isinstance(m, bytes) for m in self.seen))
        packet = next(m for m in self.seen if isinstance(m, bytes))
        self.seen.remove(packet)
        pids = {packet[i]: int.from_bytes(packet[i + 4 : i + 8], "little") for i in range(1, len(packet), 8)}
        for end in new:
            end.ready = end.expect("READY")
            end.pid = pids[end.number + 2]
        return new

    def close(self):
        """Ends the zygote, and waits."""
        self.sock.close()
        self.process.wait(LIMIT)
        self.close_pipes()


def adopt_orphans():
    """Ranks that a zygote forked become our children, as they are the agent's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_ranks(ends):
    """Closes their sockets, as an agent's death would; they must end by that, soon. After adopt_orphans()."""
    for rank in ends:
        rank.sock.close()
        end = time.monotonic() + LIMIT
        while os.waitpid(rank.pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < end, "a rank outlives its agent's socket"
            time.sleep(0.005)
        rank.close_pipes()


def run_on(ends, code, cell=1, count=1, flags=_link.RUN_RESULT, blob=0, world=None, **fields):
    """A RUN on each rank, and its DONE from each."""
    size = str(world or len(ends))
    env = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    env.update(fields.pop("env", {}))
    for end in ends:
        values = dict({"code": code, "count": count, "flags": flags, "env": json.dumps(env), "limit": 1 << 26}, **fields)
        end.send("RUN", cell, values, blob + end.number if blob else 0, worker=end.number + 2)
    return [end.expect("DONE", cell) for end in ends]


def packed(value):
    """The bytes of a bundle with the value."""
    fd, size = vars_bundle.pack(value, {})
    data = os.pread(fd, size, 0)
    os.close(fd)
    return data
