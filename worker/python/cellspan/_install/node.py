# SPDX-License-Identifier: BSD-3-Clause
"""Runs on a node, in a process of an engine that is written in Python: agent() finds cellspan there, or installs it.

What offer.made() returns begins with this text, which ends at its first zero byte:

    names = {}
    exec(sent[:sent.index(0)], names)
    path = names["agent"](sent)

Nothing of cellspan is here yet: it imports the standard library only, and a Python 3.6 can run it.
"""
import atexit
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import types

AGENT = "cellspan-agent"
INSIDE = os.path.join("libexec", "cellspan", AGENT)
HELD = "_cellspan_sent"  # a name in sys.modules: each exec of this text has globals of its own


def version_of(path):
    """What the agent says it is; "": it is not there, or does not run."""
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def places(offer):
    """Where an installation may be: where the user says, else at the notebook's path, on PATH, and beside the cellspan that is there."""
    if offer["prefix"]:
        yield os.path.join(os.path.expanduser(offer["prefix"]), INSIDE)
        return
    yield offer["agent"]
    if shutil.which(AGENT):
        yield shutil.which(AGENT)
    if shutil.which("cellspan"):
        yield os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("cellspan")))), INSIDE)


def why_not(offer, machine):
    """Why nothing is sent to a machine of this architecture; "": it is."""
    if offer["why"]:
        return offer["why"]
    if machine in offer["rows"]:
        return offer["rows"][machine]["why"]
    return "it is %s, and what is sent is for %s; set CELLSPAN_WHEELS on the notebook's machine to a folder with cellspan-%s-…_%s.whl" % (
        machine, ", ".join(sorted(offer["rows"])) or "no machine", offer["version"], machine)


def hold(folder):
    """A folder in memory is for this process: it is locked, so that no other start removes it, and goes when the process ends."""
    lock, owner = os.open(folder, os.O_RDONLY), os.getpid()
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.set_inheritable(lock, True)  # where the process becomes the agent by exec
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return lock


def held():
    """{(name, process): (folder, lock)}."""
    return sys.modules.setdefault(HELD, types.ModuleType(HELD)).__dict__.setdefault("folders", {})


def release():
    """Removes the folders in memory that are for this process. One that Python does not end itself, as Spark's by os._exit(), calls it when
    its agent has ended."""
    for key in [key for key in held() if key[1] == os.getpid()]:
        folder, lock = held().pop(key)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def install(offer, row, name, body):
    """The folder in which it is now. The program that does it is the one that launchers send."""
    command = [sys.executable or "python3", "-I", "-c", offer["unpack"], str(row["size"]), row["hash"], offer["version"], name]
    done = subprocess.run(command, input=body, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = os.fsdecode(done.stdout).rstrip("\n")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["exit status %d" % done.returncode]
        raise RuntimeError("cellspan %s can't be installed: %s" % (offer["version"], said or lines[-1]))
    return said


def agent(sent):
    """The path of the agent in the notebook's version. RuntimeError: there is none, and why."""
    begin = sent.index(b"\0") + 1
    end = sent.index(b"\n", begin)
    offer = json.loads(sent[begin:end].decode())
    found = ""
    for path in places(offer):
        version = version_of(path)
        if version == AGENT + " " + offer["version"]:
            return path
        found = found or version
    if offer["prefix"]:
        raise RuntimeError("there is no %s of cellspan %s, where CELLSPAN_REMOTE_PREFIX says; set it, in the notebook's environment, to the folder "
                           "that holds it there, or unset it" % (os.path.join(offer["prefix"], INSIDE), offer["version"]))
    machine = platform.machine()
    why = why_not(offer, machine)
    if why:
        raise RuntimeError("%s: install cellspan %s there, or set CELLSPAN_REMOTE_PREFIX to the folder that holds %s on that machine; it can't be "
                           "sent there: %s" % ("it has " + found if found else "there is no " + AGENT, offer["version"], INSIDE, why))
    at = end + 1
    for other, row in offer["rows"].items():
        if other == machine:
            break
        at += row["size"]
    name = "%s-%s-%s" % (offer["version"], machine, row["hash"][:16])
    folder, _ = held().get((name, os.getpid()), ("", None))
    if not os.path.exists(folder):
        folder = install(offer, row, name, sent[at:at + row["size"]])
        if os.path.basename(folder) != name:
            held()[name, os.getpid()] = folder, hold(folder)
    return os.path.join(folder, INSIDE)
