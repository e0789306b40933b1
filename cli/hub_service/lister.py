# SPDX-License-Identifier: BSD-3-Clause
"""The part with the rights of the hub: runs `cellspan ps --all --brief`, and hands on what it writes. It reads nothing of that, and gets
one byte for each list that is wanted: nothing that a user can name comes here. web.py has the other end of the socket."""

from __future__ import annotations

import os
import select
import selectors
import signal
import struct
import subprocess
import time

HEAD = struct.Struct("!?Q")  # is it a list (else: why there is none), its size in bytes
MOST = 64 << 20  # bytes of a list: some 10,000 notebooks with the longest names
ERRORS_MOST = 2000
TICK = 2.0  # seconds; so soon it is seen that the hub is gone
END = 2.0  # seconds for a process that got SIGKILL


class Lister:
    def __init__(self, command, limit):
        self._command = [*command, "ps", "--all", "--brief"]
        self._limit = limit
        self._hub = os.getppid()
        self._held = None  # a process that got SIGKILL and has not ended: the system holds it
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTERHUB_", "CONFIGPROXY_"))}

    def serve(self, socket, child):
        """Until the child that asks has ended, or the hub. Returns the exit status."""
        socket.settimeout(self._limit)  # the child reads what comes at once
        try:
            while not self._alone():
                if select.select([socket], [], [], TICK)[0]:
                    if not socket.recv(1):
                        break
                    told, text = self._list()
                    socket.sendall(HEAD.pack(told, len(text)) + text)
        except OSError:
            pass
        socket.close()
        return self._end(child)

    def _alone(self):
        """The hub was killed: another one that starts wants the port."""
        return os.getppid() != self._hub

    def _end(self, child):
        end = time.monotonic() + END
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 1

    def _list(self):
        """(True, what it wrote) or (False, why there is nothing)."""
        if self._held and self._held.poll() is None:
            return False, b"cellspan ps (pid %d) got SIGKILL and does not end: the system holds it" % self._held.pid
        self._held = None
        try:
            process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                       env=self._environment, start_new_session=True)
        except OSError as error:
            return False, ("%s: %s" % (self._command[0], error.strerror)).encode()
        with process.stdout, process.stderr:
            out, errors, why = self._read(process)
        if why:
            return False, why
        if process.returncode:
            return False, errors.strip() or b"cellspan ps failed with the exit status %d" % process.returncode
        return True, out

    def _read(self, process):
        """(what it wrote, its errors, why it was ended; b"": it has ended by itself)."""
        texts, end, why = {process.stdout: bytearray(), process.stderr: bytearray()}, time.monotonic() + self._limit, b""
        with selectors.DefaultSelector() as ready:
            for file in texts:
                os.set_blocking(file.fileno(), False)
                ready.register(file, selectors.EVENT_READ)
            while ready.get_map() and not why:
                for key, _ in ready.select(TICK):
                    data = os.read(key.fd, 1 << 16)
                    if data:
                        texts[key.fileobj] += data
                    else:
                        ready.unregister(key.fileobj)
                del texts[process.stderr][:-ERRORS_MOST]
                if len(texts[process.stdout]) > MOST:
                    why = b"the list is longer than %d MiB" % (MOST >> 20)
                elif time.monotonic() > end or self._alone():
                    why = b"cellspan ps has not ended within %g s" % self._limit
        if not self._has_ended(process, why, end):
            why = why or b"cellspan ps has not ended within %g s" % self._limit
        return bytes(texts[process.stdout]), bytes(texts[process.stderr]), why

    def _has_ended(self, process, why, end):
        """By itself, in time; else it gets SIGKILL, with all processes of its session's group."""
        try:
            process.wait(0 if why else max(0.1, end - time.monotonic()))
            return not why
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            self._held = process
        return False
