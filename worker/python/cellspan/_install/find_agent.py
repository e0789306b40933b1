# SPDX-License-Identifier: BSD-3-Clause
"""Runs on a node, in a process of an engine that is written in Python: agent() finds cellspan there, or installs it.

What offer.made() returns begins with this text, which ends at its first zero byte:

    names = {}
    exec(sent[:sent.index(0)], names)
    path = names["agent"](sent)     # or, with the environment that the agent will have: names["agent"](sent, env)

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
ASKED_S = 15  # a Python that is stuck is not asked longer: launchers/agent_script.c
SENT_FOLDERS = "_cellspan_sent"  # a name in sys.modules: each exec of this text has globals of its own


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


def lacks_packages(offer, env):
    """Whether the ranks' Python has not all that they import, and it is sent."""
    if not offer["packages"] or offer["prefix"]:
        return False
    # As an agent chooses it: worker/agent/processes/python_candidates.h.
    names = [env.get("CELLSPAN_REMOTE_PYTHON")] if env.get("CELLSPAN_REMOTE_PYTHON") else [offer["own"], "python" + offer["python"], "python3", "python"]
    python = next(filter(None, map(shutil.which, names)), None)
    env = {name: value for name, value in env.items() if name != "CELLSPAN_SECRET"}
    try:
        return bool(python) and subprocess.run([python, "-c", offer["lacks"]], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, timeout=ASKED_S).returncode == 3
    except (OSError, subprocess.TimeoutExpired):
        return False


def hold(folder):
    """A folder in memory is for this process: it is locked, so that no other start removes it, and goes when the process ends."""
    lock, owner = os.open(folder, os.O_RDONLY), os.getpid()
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.set_inheritable(lock, True)  # where the process becomes the agent by exec
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return lock


def held():
    """{(name, process): (folder, lock)}."""
    return sys.modules.setdefault(SENT_FOLDERS, types.ModuleType(SENT_FOLDERS)).__dict__.setdefault("folders", {})


def release():
    """Removes the folders in memory that are for this process. One that Python does not end itself, as Spark's by os._exit(), calls it when
    its agent has ended."""
    for key in [key for key in held() if key[1] == os.getpid()]:
        folder, lock = held().pop(key)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def install(offer, digest, name, body):
    """The folder in which it is now. The program that does it is the one that launchers send."""
    command = [sys.executable or "python3", "-I", "-c", offer["unpack"], str(len(body)), digest, offer["version"], name]
    done = subprocess.run(command, input=body, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = os.fsdecode(done.stdout).rstrip("\n")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["exit status %d" % done.returncode]
        raise RuntimeError("cellspan %s can't be installed: %s" % (offer["version"], said or lines[-1]))
    return said


def agent(sent, env=os.environ):
    """The path of the agent in the notebook's version. env: with which it will start. RuntimeError: there is none, and why."""
    begin = sent.index(b"\0") + 1
    end = sent.index(b"\n", begin)
    offer = json.loads(sent[begin:end].decode())
    found = ready = ""
    lacks = lacks_packages(offer, env)
    for path in places(offer):
        version = version_of(path)
        if version == AGENT + " " + offer["version"]:
            ready = path
            break
        found = found or version
    if ready and not lacks:
        return ready
    if offer["prefix"]:
        raise RuntimeError("there is no %s of cellspan %s, where CELLSPAN_REMOTE_PREFIX says; set it, in the notebook's environment, to the folder "
                           "that holds it there, or unset it" % (os.path.join(offer["prefix"], INSIDE), offer["version"]))
    machine = platform.machine()
    why = why_not(offer, machine)
    if why and not ready:
        raise RuntimeError("%s: install cellspan %s there, or set CELLSPAN_REMOTE_PREFIX to the folder that holds %s on that machine; it can't be "
                           "sent there: %s" % ("it has " + found if found else "there is no " + AGENT, offer["version"], INSIDE, why))
    try:
        return ready if why else os.path.join(installed(offer, machine, lacks, sent, end + 1), INSIDE)
    except RuntimeError:
        if ready:  # without the packages, of which a rank tells
            return ready
        raise


def installed(offer, machine, lacks, sent, at):
    """The folder in which what was sent for this kind of machine is, with the packages if they are lacking. at: where in it the files begin."""
    for other, row in offer["rows"].items():
        if other == machine:
            break
        at += row["size"]
    body = sent[at:at + row["size"]]
    if lacks:
        body += sent[len(sent) - offer["packages"]:]
    digest = row["also"] if lacks else row["hash"]
    name = "%s-%s%s-%s" % (offer["version"], machine, "+" + offer["python"] if lacks else "", digest[:16])
    folder, _ = held().get((name, os.getpid()), ("", None))
    if not os.path.exists(folder):
        folder = install(offer, digest, name, body)
        if os.path.basename(folder) != name:
            held()[name, os.getpid()] = folder, hold(folder)
    return folder
