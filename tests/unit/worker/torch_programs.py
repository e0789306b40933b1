# SPDX-License-Identifier: BSD-3-Clause
"""Programs that need torch. Each is forked from one process, which has imported torch and done nothing else, as a rank is from its
zygote: the import takes a processor two seconds."""

import json
import os
import socket
import subprocess
import sys

FORKS = """
import atexit, json, os, socket, sys, traceback
import torch.distributed

sock = socket.socket(fileno=int(sys.argv[1]))
while True:
    packet, fds, _, _ = socket.recv_fds(sock, 1 << 16, 2)
    if not packet:
        break
    if os.fork() == 0:
        sock.close()
        for fd, number in zip(fds, (1, 2)):
            os.dup2(fd, number)
            os.close(fd)
        code, arguments = json.loads(packet)
        sys.argv = ["-c", *arguments]
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    for fd in fds:
        os.close(fd)
"""


class Program:
    """One that runs. stdout, stderr: the text of the whole run, once finish() was called."""

    def __init__(self, out, err):
        self._pipes = out, err
        self.stdout = self.stderr = ""

    def finish(self):
        """Waits until it has ended. What it writes to stderr must fit into a pipe."""
        self.stdout, self.stderr = [open(fd, encoding="utf-8").read() for fd in self._pipes]
        return self

    def __repr__(self):
        return "%s\n%s" % (self.stdout, self.stderr)


class TorchPrograms:
    def __init__(self):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([sys.executable, "-c", FORKS, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, code, *arguments):
        """As `python -c CODE ARGUMENTS…`; returns its Program."""
        (out, out_w), (err, err_w) = os.pipe(), os.pipe()
        socket.send_fds(self.sock, [json.dumps([code, arguments]).encode()], [out_w, err_w])
        os.close(out_w)
        os.close(err_w)
        return Program(out, err)

    def run(self, code, *arguments):
        return self.start(code, *arguments).finish()

    def close(self):
        self.sock.close()
        self.process.wait()
