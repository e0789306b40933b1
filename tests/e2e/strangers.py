# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for tests of strangers: an engine that records a run's secret, keys and messages made by hand, a proxy that records
connections, the list of listening ports, and bytes that are not valid messages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
import sys
import threading

import processes
import zmq
from zmq.utils import z85

LIMIT = 60  # seconds for what takes one or two; far off, to catch what hangs
NOBODY = 65534
ROUTE_KERNEL = 0xFFFFFFFF
HELLO, WELCOME, REFUSE, LINES, BEAT = 1, 2, 3, 12, 16

# `both`: two agents of this machine. `one`: one agent, and the other key is the test's.
ENGINE = r"""#!%(python)s
import json, os, re, signal, subprocess, sys
words = sys.argv[1:]
command = words[words.index("--") + 1:]
spec = words[words.index("--spec") + 1]
with open(os.path.join(%(folder)r, spec + ".new"), "w") as file:
    json.dump({"secret": os.environ["CELLSPAN_SECRET"], "command": command, "pid": os.getpid()}, file)
os.rename(file.name, os.path.join(%(folder)r, spec))
print("nodes 2\nnode 0 m0 2\nnode 1 m1 2", flush=True)
port = open(%(folder)r + "/proxy").read()
through = [re.sub(r"tcp://.*", "tcp://127.0.0.1:" + port, word) for word in command]
agents = [subprocess.Popen(through if i == 0 else command, env=dict(os.environ, CELLSPAN_AGENT=str(i)))
          for i in range(2 if spec == "both" else 1)]
signal.signal(signal.SIGTERM, lambda *_: [agent.terminate() for agent in agents])
for agent in agents:
    agent.wait()
while spec == "one" and sys.stdin.readline():
    pass
"""

# What another user can read of this machine: prints a line for each place in which one of the needles stands.
SEEKER = r"""
import os, sys
needles = [bytes.fromhex(line) for line in sys.stdin.read().split()]
paths = ["/proc/%s/%s" % (pid, name) for pid in os.listdir("/proc") if pid.isdigit()
         for name in ("cmdline", "environ", "maps", "status", "comm", "mem")]
for top in sys.argv[1:]:
    paths += [top] + [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
seen = 0
for path in paths:
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 20)
    except OSError:
        continue
    seen += 1
    if any(needle in text for needle in needles):
        print(path)
print("seen", seen)
"""


# ---- what listens ----


def sockets_of(pid):
    found = set()
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            target = os.readlink("/proc/%d/fd/%s" % (pid, name))
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


def address_of(text):
    ip, port = text.split(":")
    if len(ip) == 8:
        ip = socket.inet_ntop(socket.AF_INET, struct.pack("=I", int(ip, 16)))
    else:
        ip = socket.inet_ntop(socket.AF_INET6, struct.pack("=4I", *(int(ip[k : k + 8], 16) for k in range(0, 32, 8))))
    return ip, int(port, 16)


def listening(pids):
    """(command's first word, ip, port) of each tcp port on which one of these processes listens."""
    owner = {inode: pid for pid in pids for inode in sockets_of(pid)}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in processes.read(1, "net/" + name).decode().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in owner:
                program = os.path.basename(processes.command(owner[words[9]]).split(" ")[0])
                found.add((program,) + address_of(words[1]))
    return found


# ---- keys and messages, after protocol/README.md ----


def agent_keys(secret, index):
    """(public, secret) of agent `index`, in Z85."""
    seed = bytes.fromhex(secret.split(":")[2])
    own = hashlib.blake2b(struct.pack("<I", index), digest_size=32, key=seed).digest()
    private = z85.encode(hashlib.sha512(own).digest()[:32])  # as crypto_box_seed_keypair makes it
    return zmq.curve_public(private), private


def kernel_key(secret):
    return z85.encode(bytes.fromhex(secret.split(":")[1]))


def text(value):
    return struct.pack("<I", len(value)) + value


def message(kind, fields=b"", version=2, cell=0):
    return struct.pack("<BBHIQQQ", version, kind, 0, 0, cell, 0, 0) + fields


def entry(node, worker, content):
    return struct.pack("<III", node, worker, len(content)) + content


def hello(version=2, node=b"stranger", addresses=b"lo=127.0.0.1"):
    fields = struct.pack("<Q", version) + text(node) + struct.pack("<QQ", 1, 1) + text(addresses) + text(b"cellspan 9") + text(b"")
    return message(HELLO, fields, version)


def dial(context, port, server, keys, ip="127.0.0.1", admitted=False):
    """A DEALER with these keys, that doesn't try again: send() raises zmq.Again when nobody takes it for LIMIT seconds.

    admitted: send() returns only when the handshake is over, and the other side has let it in.
    """
    dealer = context.socket(zmq.DEALER)
    dealer.immediate = admitted
    dealer.linger, dealer.sndtimeo = 0, LIMIT * 1000
    dealer.reconnect_ivl = -1
    if server:
        dealer.curve_serverkey = server
        dealer.curve_publickey, dealer.curve_secretkey = keys
    dealer.connect("tcp://%s:%d" % (ip, port))
    return dealer


def say(dealer, *frames):
    """Sends, unless the connection was refused already: then there is nobody left to take it."""
    try:
        dealer.send_multipart(frames, zmq.DONTWAIT)
    except zmq.Again:
        pass


def answered(dealer, milliseconds=0):
    return dealer.recv_multipart() if dealer.poll(milliseconds) else None


def raw(port, content, wait=0.0):
    """Writes bytes to a port; gives what came back, when the other side has closed or said something."""
    back = b""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as stream:
        try:
            stream.sendall(content)
            stream.settimeout(wait or 0.001)
            back = stream.recv(65536)
        except OSError:
            pass
    return back


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00"
NASTY = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: kernel\r\n\r\n",
    "zeros": bytes(4096),
    "noise": bytes((i * 7919 + 13) % 256 for i in range(65536)),
    "half a greeting": GREETING[:7],
    "old protocol": b"\x01\x00" + b"\x7f" * 40,
    "NULL": GREETING + b"NULL".ljust(20, b"\0") + bytes(32) + b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x06DEALER",
    "PLAIN": GREETING + b"PLAIN".ljust(20, b"\0") + bytes(32) + b"\x04\x0c\x05HELLO\x01a\x01b",
    "GSSAPI": GREETING + b"GSSAPI".ljust(20, b"\0") + bytes(32),
    "CURVE, then noise": GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x04\xc8\x05HELLO\x01\x00" + b"\xaa" * 193,
    "CURVE, then a frame of 8 EiB": GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x06" + b"\x7f" + b"\xff" * 7 + b"x" * 1000,
    "CURVE, then a message": GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x00\x20" + bytes(32),
}


class Proxy:
    """Passes tcp connections on, and records what came from who dialed. The port is known before the target is."""

    def __init__(self, target):
        self.target = target  # a function that gives the port, None until it is known
        self.recorded = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
                processes.wait_until(self.target, LIMIT)
                other = socket.create_connection(("127.0.0.1", self.target()))
            except OSError:
                return
            tape = bytearray()
            self.recorded.append(tape)
            threading.Thread(target=self.pump, args=(stream, other, tape), daemon=True).start()
            threading.Thread(target=self.pump, args=(other, stream, None), daemon=True).start()

    @staticmethod
    def pump(source, sink, tape):
        try:
            while True:
                content = source.recv(65536)
                if tape is not None:
                    tape += content
                if not content:
                    break
                sink.sendall(content)
        except OSError:
            pass
        for stream in (source, sink):
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class Place:
    """The engine's folder, the log, and a notebook that uses them."""

    def __init__(self, folder):
        self.folder = folder
        self.log_file = os.path.join(folder, "log")
        self.context = zmq.Context()
        self.proxy = Proxy(lambda: self.agents_port)
        self.agents_port = None
        with open(os.path.join(folder, "proxy"), "w", encoding="utf-8") as file:
            file.write(str(self.proxy.port))
        engine = os.path.join(folder, "cellspan-launch-odd")
        with open(engine, "w", encoding="utf-8") as file:
            file.write(ENGINE % {"python": sys.executable, "folder": folder})
        os.chmod(engine, 0o755)
        self.env = {"CELLSPAN_LOG": "info:" + self.log_file, "PATH": "%s:%s" % (folder, os.environ["PATH"]),
                    "CELLSPAN_HEARTBEAT_TIMEOUT": "60"}

    def handed(self, spec):
        """What the engine was handed: secret, command, pid. Also learns the kernel's port."""
        path = os.path.join(self.folder, spec)
        assert processes.wait_until(lambda: os.path.exists(path), LIMIT), "the engine was not started"
        with open(path, encoding="utf-8") as file:
            handed = json.load(file)
        self.agents_port = int(re.search(r"tcp://[^ ,]*:(\d+)", " ".join(handed["command"])).group(1))
        return handed

    def log(self):
        with open(self.log_file, encoding="utf-8") as file:
            return file.read()

    def logged(self, words):
        """The lines of the log in which these words stand."""
        return [line for line in self.log().splitlines() if words in line]

    def told(self, words):
        """logged(), once there is such a line: who refuses does so in its own time."""
        return processes.wait_until(lambda: self.logged(words), LIMIT)

    def close(self):
        self.proxy.close()
        self.context.destroy(0)
