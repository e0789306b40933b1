# SPDX-License-Identifier: BSD-3-Clause
"""Shell commands of `!cmd`, %pip and the like: what they write goes where print() writes at that moment."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
import threading

INTERRUPT_WAIT = 2.0  # seconds that a command may take to end after an interrupt, before it is killed
LOOK = 0.2  # seconds: how often a wait for a command's text looks whether there is an interrupt
SIZE = 1 << 16  # bytes that are read at once


def run_command(command, streams):
    """Runs a shell command in a process group of its own. Returns its exit code; for a signal, minus its number.

    Usually the command writes to our descriptors itself. If sys.stdout or sys.stderr is another stream, as in %%capture, or if a
    subshell's cell runs it, its text is copied to there."""
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
        _end(process)
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
    with selectors.DefaultSelector() as waits:
        for name, take in takers.items():
            waits.register(getattr(process, name), selectors.EVENT_READ, (take, codecs.getincrementaldecoder("utf-8")("replace")))
        while waits.get_map():
            over = process.poll() is not None
            ready = waits.select(0 if over else LOOK)
            if over and not ready:
                for name in takers:
                    _pass_on(process, name)
                return
            for key, _ in ready:
                take, decoder = key.data
                data = os.read(key.fd, SIZE)
                text = decoder.decode(data, not data)
                if text:
                    take(text)
                if not data:
                    waits.unregister(key.fileobj)


def _pass_on(process, name):
    """Copies the rest of a pipe to our descriptor, in a thread. Whose pipe is closed would end at its next write."""
    pipe = getattr(process, name)
    setattr(process, name, None)
    to = {"stdout": 1, "stderr": 2}[name]

    def copy():
        with pipe:
            while data := os.read(pipe.fileno(), SIZE):
                while data:
                    data = data[os.write(to, data):]

    threading.Thread(target=copy, daemon=True, name="cellspan: a command's text").start()


def _end(process):
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
