# SPDX-License-Identifier: BSD-3-Clause
"""Homes that are forked from one process, which has imported what a home imports and done nothing else: the imports take a processor
a quarter of a second. How a home starts by itself, tests see that make a fake_agent.Home."""

import json
import os
import socket
import subprocess
import sys
import time

from fake_agent import LIMIT, Home, adopt_orphans

FORKS = """
import gc, json, os, signal, socket, sys

gc.disable()
sock = socket.socket(fileno=int(sys.argv[1]))
from cellspan._worker import __main__ as begins, home

while True:
    packet, fds, _, _ = socket.recv_fds(sock, 1 << 16, 4)
    if not packet:
        break
    between = os.fork()
    if between == 0:
        between = os.getpid()
        if os.fork() != 0:
            os._exit(0)
        while os.getppid() == between:  # the test's process becomes its parent, as an agent is
            pass
        sock.send(str(os.getpid()).encode())
        sock.close()
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for fd, number in zip(fds, (1, 2)):
            os.dup2(fd, number)
            os.close(fd)
        os.environ.clear()
        os.environ.update(json.loads(packet), CELLSPAN_STACK_FD=str(fds[3]))
        begins.main(["cellspan._worker", "home", str(fds[2])])
        os._exit(0)
    os.waitpid(between, 0)
    for fd in fds:
        os.close(fd)
"""


class Process:
    """A child, as subprocess.Popen has it."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, limit):
        end = time.monotonic() + limit
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a home", limit)
            time.sleep(0.002)
        return self.returncode


class ForkedHome(Home):
    def __init__(self, homes, env):
        self.homes = homes
        super().__init__(env=env)

    def start(self, python, env, files):
        return Process(self.homes.fork(env, files))


class ForkedHomes:
    """The process from which they are forked."""

    def __init__(self, env):
        adopt_orphans()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([sys.executable, "-c", FORKS, str(theirs.fileno())], env=env, pass_fds=[theirs.fileno()])
        theirs.close()

    def fork(self, env, files):
        """A new home's pid. files: its stdout, stderr, socket to the agent, and the file for its stacks."""
        socket.send_fds(self.sock, [json.dumps(env).encode()], files)
        self.sock.settimeout(LIMIT)
        return int(self.sock.recv(100))

    def close(self):
        self.sock.close()
        self.process.wait()
