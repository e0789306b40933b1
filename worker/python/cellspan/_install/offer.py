# SPDX-License-Identifier: BSD-3-Clause
"""For an engine that is written in Python: what it sends to nodes that may lack cellspan.

made() is for the notebook's machine. What it returns begins with a program, find_agent.py, that an engine runs on a node: see there.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib

from . import payload


def made(agent):
    """What goes to a node, as bytes: the program that installs it, and, for each architecture, what is installed, or why it can't be. The packages
    that ranks need are behind all of these, once.

    agent: this machine's, as an engine's command begins. What is wrong is told on a node that lacks cellspan, and nowhere else."""
    agent = os.path.abspath(shutil.which(agent) or agent)
    version = subprocess.run([agent, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True).stdout.split()[-1]
    offer = {"version": version, "agent": agent, "prefix": os.environ.get("CELLSPAN_REMOTE_PREFIX") or "", "why": "", "rows": {}}
    bodies, more = [], b""
    if os.environ.get("CELLSPAN_INSTALL") == "never":
        offer["why"] = "CELLSPAN_INSTALL is never on the notebook's machine"
    elif not offer["prefix"]:
        try:
            also = payload.packages()
            packed = payload.packed(also) if also else b""
            for machine, whole, digest, _, why in payload.chosen(agent, version, os.environ.get("CELLSPAN_WHEELS")):
                bodies.append(zlib.compress(whole, 6) if digest else b"")
                offer["rows"][machine] = {"size": len(bodies[-1]), "hash": digest, "why": why}
                if also and digest:
                    offer["rows"][machine]["also"] = hashlib.sha256(whole + packed).hexdigest()
                    more = more or zlib.compress(packed, 6)
        except (OSError, zipfile.BadZipFile) as error:
            offer["why"], bodies, more, offer["rows"] = "its files could not be read on the notebook's machine: %s" % error, [], b"", {}
    offer.update(packages=len(more), own=sys.executable, python=payload.PYTHON, lacks=payload.LACKS)
    offer["unpack"] = source("unpack.py")
    return b"".join([source("find_agent.py").encode(), b"\0", json.dumps(offer).encode(), b"\n", *bodies, more])


def source(name):
    """The text of a program."""
    with open(os.path.join(payload.HERE, name), encoding="utf-8") as file:
        return file.read()
