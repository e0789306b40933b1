# SPDX-License-Identifier: BSD-3-Clause
"""Shell commands of `!cmd`, %pip and the like: what they write goes where print() writes at that moment."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys

from .. import _link
from .._base import threads

INTERRUPT_WAIT = 2.0  # seconds that a command may take to end after an interrupt, before it is killed
POLL_S = 0.2  # seconds: how often a wait for a command's text checks whether there is an interrupt
SIZE = 1 << 16  # bytes that are read at once
_unread = []  # lists of Rests which no thread reads, because none could be started


def run_command(command, streams):
    """Runs a shell command in a process group of its own. Returns its exit code; for a signal, minus its number.

    Usually the command writes to our descriptors itself. If sys.stdout or sys.stderr is another stream, as in %%capture, or if a
    subshell's cell runs it, its text is copied to there."""
    _read_rests()
    takers = _takers(streams)
    streams.flush()
    streams.claim()
    shell = os.environ.get("SHELL") or "/bin/sh"
    if not os.path.exists(shell):
        shell = "/bin/sh"
    options = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
    options.update({name: subprocess.PIPE for name in takers})
    process = subprocess.Popen(command, shell=True, executable=shell, stdin=subprocess.DEVNULL, **options)
    try:
        if takers:
            _copy(process, takers)
        return process.wait()
    except BaseException:  # an interrupt, or the other stream takes no text
        _terminate(process)
        raise
    finally:
        for name in takers:
            pipe = getattr(process, name)
            if pipe is not None:
                pipe.close()


def _takers(streams):
    """{"stdout" or "stderr": the function that takes its text}, for those whose text must be copied."""
    sink = streams.sink() if streams.sinks else None
    takers = {}
    for name, now, own in (("stdout", sys.stdout, streams.out), ("stderr", sys.stderr, streams.err)):
        if now is not own and now is not None:
            takers[name] = now.write
        elif sink is not None:
            takers[name] = own.write
    return takers


def _copy(process, takers):
    """Takes what a command writes until it has ended. What it left in the background (`cmd &`) may hold the pipes for ever: from then
    on its text goes where it would go without us."""
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in takers}
    with selectors.DefaultSelector() as waits:
        for name in takers:
            waits.register(getattr(process, name), selectors.EVENT_READ, name)
        while waits.get_map():
            over = process.poll() is not None
            ready = waits.select(0 if over else POLL_S)
            if over and not ready:
                _pass_on(process, {key.data: decoders[key.data] for key in waits.get_map().values()})
                return
            for key, _ in ready:
                data = os.read(key.fd, SIZE)
                text = decoders[key.data].decode(data, not data)
                if text:
                    takers[key.data](text)
                if not data:
                    waits.unregister(key.fileobj)


class Rest:
    """What a command in the background still writes into a pipe. begun: the first bytes of a character whose others it has not written
    yet."""

    def __init__(self, pipe, to, begun):
        self.pipe, self.to, self.begun = pipe, to, begun

    def copy(self, data):
        data, self.begun = self.begun + data, b""
        while data:
            data = data[os.write(self.to, data):]


def _pass_on(process, decoders):
    """Copies the rest of the pipes to our descriptors, in a thread. decoders: by the pipe's name. A command whose pipe is closed would end
    at its next write."""
    rests = []
    for name, decoder in decoders.items():
        rests.append(Rest(getattr(process, name), {"stdout": 1, "stderr": 2}[name], decoder.getstate()[0]))
        setattr(process, name, None)
    _unread.append(rests)
    _read_rests(tell=True)


def _read_rests(tell=False):
    """Starts the threads that read the rests. If none can be started, the pipes stay open until the next command. tell: a line says so."""
    while _unread:
        try:
            threads.begin("command", _read, _unread[-1])
        except RuntimeError as error:
            if tell:
                print(
                    f"cellspan: {_link.limit_held() or error}: what the command in the background writes from now on is shown when another "
                    "shell command runs, if a thread can be started then",
                    file=sys.__stderr__,
                )
            return
        _unread.pop()


def _read(rests):
    with selectors.DefaultSelector() as waits:
        for rest in rests:
            waits.register(rest.pipe, selectors.EVENT_READ, rest)
        while waits.get_map():
            for key, _ in waits.select():
                data = os.read(key.fd, SIZE)
                key.data.copy(data)
                if not data:
                    waits.unregister(key.fileobj)
                    key.fileobj.close()


def _terminate(process):
    """Interrupts, then kills, all of a command's processes."""
    for signo, seconds in ((signal.SIGINT, INTERRUPT_WAIT), (signal.SIGTERM, 0.5), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, signo)
        except ProcessLookupError:
            pass
        try:
            process.wait(seconds)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
