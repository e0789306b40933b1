#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures large variables on their way to ranks on other hosts, beside plain tcp on the same links and the cipher alone.

    python bench/remote/bulk.py [--repeat N] [--mib M] [--rate 1gbit] [--congestion NAME] [--cipher MBPS] [--prefix DIR] [--json FILE]

Brings up four hosts (tests/engines/hosts.sh: root, network namespaces), limits each link to `rate` both ways, and in each repeat:

    one link       M MiB by plain tcp from this side to the first host, which says when it has all
    ranks          a cell on 8 ranks of 4 hosts that reads an array of M MiB which they don't have yet
    unlimited one  the same tcp without limits
    unlimited rank the same cell on one rank of one host, without limits
    its wire       the part of that between two processes, with CURVE: from when the receiving agent is told to expect the bytes
                   until it has written the last of them (its log says so)
    bare CURVE     as many bytes from one memory file into another on that host, by two processes that do nothing but send and
                   receive with ZeroMQ under CURVE, in messages and a window of the same size
    cipher         crypto_secretbox (XSalsa20-Poly1305, CURVE's) of as many bytes in chunks of 512 KiB, on one core

A cell's time is what the client sees, less that of the same cell when the ranks have the array already: home writes the array
into a memory file before anything is sent, and the ranks map theirs. Links are limited, but not processors: those of all hosts
are this machine's, and what the machine's own host takes of them meanwhile is told at the end. All connections have the same
congestion control, Linux's own: another that this machine may be set to (bbr, say) takes processor time of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import json
import mmap
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, "..")]  # in this order: both have an engines.py
sys.dont_write_bytecode = True

import common  # noqa: E402
import engines  # noqa: E402
import psutil  # noqa: E402
import zmq  # noqa: E402

CHUNK = 512 << 10
MESSAGE = 1 << 20  # SPAN_CHUNK_MAX
WINDOW = 8  # of them: SPAN_CHUNK_WINDOW
HOSTS = 4
RANKS = 8
RECEIVE = """
import socket, sys
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
there = server.accept()[0]
left, piece = int(sys.argv[2]), bytearray(1 << 20)
while left:
    left -= there.recv_into(piece) or sys.exit("cut short")
there.sendall(b"x")
"""
RECEIVE_CURVE = """
import os, sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.curve_server = True
socket.curve_secretkey = sys.stdin.readline().strip().encode()
print(socket.bind_to_random_port("tcp://" + sys.argv[1]), flush=True)
left, fd = int(sys.argv[2]), os.memfd_create("received")
while left:
    message = socket.recv(copy=False)
    left -= os.pwrite(fd, message.buffer, int(sys.argv[2]) - left)
    socket.send(b"x")
"""


def limit(hosts, rate):
    """Limits every link to `rate`, both ways, this side's own too; None takes the limits away.

    The bucket is larger than a packet before TCP's segmentation is left to the device: cut up by the limiter itself,
    the packets would take more of the processors than all the rest.
    """
    ours = [[hosts.prefix + "-br"]] + [["%s-v%s" % (hosts.prefix, name[1:])] for name in hosts.names]
    theirs = [["eth0", "ip", "netns", "exec", hosts.namespace(name)] for name in hosts.names]
    for device, *where in ours + theirs:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*where, "tc", "qdisc", "del", "dev", device, "root"], check=False, **quiet)
        if rate:
            bucket = ["tbf", "rate", rate, "burst", "512kb", "latency", "200ms"]
            subprocess.run([*where, "tc", "qdisc", "add", "dev", device, "root", *bucket], check=True, **quiet)


def control_congestion(hosts, name):
    """Has all connections between the hosts use this congestion control."""
    ends = [([], hosts.prefix + "-br", "h0")] + [(["-n", hosts.namespace(host)], "eth0", host) for host in hosts.names]
    for where, device, host in ends:
        route = [hosts.network + ".0/24", "dev", device, "proto", "kernel", "scope", "link", "src", hosts.address(host)]
        subprocess.run(["ip", *where, "route", "replace", *route, "congctl", name], check=True)


def plain_tcp(hosts, size):
    """Seconds for `size` bytes to the first host, from the first byte until it says that it has all."""
    port = 20000 + os.getpid() % 20000
    words = ["ip", "netns", "exec", hosts.namespace("h1"), sys.executable, "-c", RECEIVE, str(port), str(size)]
    receiver = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        receiver.stdout.readline()
        piece = bytes(1 << 20)
        with socket.create_connection((hosts.address("h1"), port)) as there:
            begin = time.perf_counter()
            for _ in range(size >> 20):
                there.sendall(piece)
            there.recv(1)
            return time.perf_counter() - begin
    finally:
        receiver.kill()
        receiver.wait()


def bare_curve(hosts, size):
    """Seconds for `size` bytes to the first host with nothing but ZeroMQ, until it says that it has written all."""
    public, secret = zmq.curve_keypair()
    words = ["ip", "netns", "exec", hosts.namespace("h1"), sys.executable, "-c", RECEIVE_CURVE, hosts.address("h1"), str(size)]
    receiver = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with contextlib.ExitStack() as undo:
        undo.callback(receiver.wait)
        undo.callback(receiver.kill)
        receiver.stdin.write(secret.decode() + "\n")
        receiver.stdin.flush()
        file = undo.enter_context(open(os.memfd_create("sent"), "r+b"))
        file.write(os.urandom(MESSAGE) * (size // MESSAGE))
        file.flush()
        whole = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        there = undo.enter_context(undo.enter_context(zmq.Context()).socket(zmq.DEALER))
        there.curve_serverkey, (there.curve_publickey, there.curve_secretkey) = public, zmq.curve_keypair()
        there.connect("tcp://%s:%s" % (hosts.address("h1"), receiver.stdout.readline().strip()))
        time.sleep(1)  # to have shaken hands
        begin = time.perf_counter()
        for taken in range(-WINDOW, size // MESSAGE):
            if taken >= 0:
                there.recv()
            if taken + WINDOW < size // MESSAGE:
                at = (taken + WINDOW) * MESSAGE
                there.send(whole[at:at + MESSAGE], copy=False)
        return time.perf_counter() - begin


def cipher(size):
    """Seconds that the cipher alone takes."""
    sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
    if sodium.sodium_init() < 0:  # without it libsodium takes its slowest code
        raise RuntimeError("libsodium can't be used")
    out, text = ctypes.create_string_buffer(CHUNK + 16), bytes(CHUNK)
    begin = time.perf_counter()
    for _ in range(size // CHUNK):
        sodium.crypto_secretbox_easy(out, text, ctypes.c_ulonglong(CHUNK), bytes(24), bytes(32))
    return time.perf_counter() - begin


def cell(kernel, ranks, where, code):
    """Seconds that a cell takes on ranks; RuntimeError when it fails."""
    return kernel.must("%%%%distribute -n %d --on ssh:%s\n%s" % (ranks, where, code), timeout=300).reply_at


def to_ranks(kernel, ranks, where, mib):
    """Seconds that the array takes to get to them."""
    kernel.must("import numpy as np\na = np.random.default_rng().integers(0, 255, %d, dtype=np.uint8)" % (mib << 20))
    first = cell(kernel, ranks, where, "assert len(a) == %d" % (mib << 20))
    return first - cell(kernel, ranks, where, "assert len(a) == %d" % (mib << 20))


def on_the_wire(log):
    """Seconds that the last blob took, as the agent that received it says in the log."""
    with open(log) as file:
        took = re.findall(r"blob \d+: \d+ bytes have come in ([\d.]+) s", file.read())
    return float(took[-1])


def measure(hosts, args, values, log):
    size, where = args.mib << 20, ",".join(hosts.names)

    def add(name, measured, *words):
        common.settle(20)
        seconds = measured(*words)
        values.setdefault(name, []).append(seconds)
        print("%-16s %7.3f s %8.1f MB/s" % (name, seconds, size / seconds / 1e6), flush=True)

    os.environ.update(hosts.variables(), CELLSPAN_LOG="info:" + log)
    for repeat in range(args.repeat):
        add("cipher", cipher, size)
        for name, ranks, hosts_of, rate in (("ranks", RANKS, where, args.rate), ("unlimited rank", 1, hosts.names[0], None)):
            with common.Kernel("cellspan") as kernel:
                cell(kernel, ranks, hosts_of, "pass")
                to_ranks(kernel, ranks, hosts_of, 4)  # the links between the hosts are made now
                limit(hosts, rate)
                add("one link" if rate else "unlimited one", plain_tcp, hosts, size)
                add(name, to_ranks, kernel, ranks, hosts_of, args.mib)
                if not rate:
                    add("its wire", on_the_wire, log)
                    add("bare CURVE", bare_curve, hosts, size)
            limit(hosts, None)


def report(values, args):
    middle = {name: statistics.median(seconds) for name, seconds in values.items()}
    print("\n%d MiB to %d ranks on %d hosts, links of %s: %.2f times one copy over one link" % (
        args.mib, RANKS, HOSTS, args.rate, middle["ranks"] / middle["one link"]))
    rate = (args.mib << 20) / 1e6 / middle["its wire"]
    print("%d MiB to one rank without limits: CURVE takes %.0f MB/s, %.2f of the cipher at %.0f MB/s, %.2f of the cipher here"
          % (args.mib, rate, rate / args.cipher, args.cipher, middle["cipher"] / middle["its wire"]))
    print("which is %.2f of what CURVE alone takes, %.0f MB/s" % (
        middle["bare CURVE"] / middle["its wire"], (args.mib << 20) / 1e6 / middle["bare CURVE"]))
    print("the whole cell: %.2f of the cipher here, %.2f of plain tcp" % (
        middle["cipher"] / middle["unlimited rank"], middle["unlimited one"] / middle["unlimited rank"]))


def arguments(text, repeat, mib):
    """A parser with the options of a program that measures what goes over links."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--mib", type=int, default=mib)
    parser.add_argument("--rate", default="1gbit", help="as tc writes it")
    parser.add_argument("--congestion", default="cubic", help="of TCP; empty: what this machine is set to")
    parser.add_argument("--prefix", help="where `cellspan install --prefix DIR` wrote the kernel to")
    parser.add_argument("--json", help="a file for all values, in seconds")
    return parser


@contextlib.contextmanager
def network(args, number):
    """So many hosts, and a file for the kernel's log."""
    why = engines.missing(engines.HOST_TOOLS + ("tc",))
    if why:
        sys.exit(why)
    if args.prefix:
        os.environ["JUPYTER_PATH"] = os.path.join(args.prefix, "share", "jupyter")
    with engines.Hosts(number) as hosts, tempfile.TemporaryDirectory(prefix="cellspan-links-") as folder:
        try:
            if args.congestion:
                control_congestion(hosts, args.congestion)
            yield hosts, os.path.join(folder, "log")
        finally:
            with contextlib.suppress(Exception):
                limit(hosts, None)


def keep(args, values):
    if args.json:
        with open(args.json, "w") as file:
            json.dump(values, file)


def main():
    parser = arguments(__doc__, repeat=3, mib=256)
    parser.add_argument("--cipher", type=float, default=745, help="MB/s of the cipher that CURVE is measured by")
    args = parser.parse_args()
    values = {}
    common.own_memory()
    began = psutil.cpu_times()
    with network(args, HOSTS) as (hosts, log):
        measure(hosts, args, values, log)
    report(values, args)
    took = {name: now - getattr(began, name) for name, now in psutil.cpu_times()._asdict().items()}
    print("meanwhile this machine's host took %.1f s of its processors' time, which were busy for %.1f s" % (
        took["steal"], took["user"] + took["system"] + took["softirq"]))
    keep(args, values)


if __name__ == "__main__":
    main()
