# SPDX-License-Identifier: BSD-3-Clause
"""Containers as hosts: by runc, with a root that nobody can write to. What stands in for ssh runs its command in one."""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile

TOOLS = ("runc",)
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec %s exec "%s-$2" sh -c "$3"
"""


def mounted(where, kind="tmpfs", source="tmpfs", options=("nosuid", "nodev")):
    return {"destination": where, "type": kind, "source": source, "options": list(options)}


class Containers:
    """Containers that see this machine's programs and this Python, and nothing else of it. They share its network.

    hosts: {name: (variables, {folder: options of a tmpfs there})}. also: folders that they see as well.
    """

    def __init__(self, hosts, also=()):
        self.hosts, self.also = hosts, also
        self.folder = tempfile.mkdtemp(prefix="cellspan-containers-")
        self.prefix = "cs" + "".join(random.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(6))
        self.command = ["runc", "--root", self.folder + "/state"]
        atexit.register(self.down)

    def config(self, name):
        """What runc is to make: see its `runc spec`."""
        variables, folders = self.hosts[name]
        paths = dict.fromkeys([*SYSTEM, os.path.realpath(sys.base_prefix), sys.base_prefix, sys.prefix, *self.also])
        return {
            "ociVersion": "1.0.2",
            "hostname": name,
            "root": {"path": self.folder + "/root", "readonly": True},
            "process": {
                "args": ["sleep", "infinity"], "cwd": "/", "user": {"uid": 0, "gid": 0}, "noNewPrivileges": True,
                "env": ["PATH=/usr/bin:/bin", "HOME=/root"] + ["%s=%s" % pair for pair in variables.items()],
            },
            "mounts": [
                mounted("/proc", "proc", "proc"), mounted("/dev", options=["nosuid", "mode=755"]), mounted("/tmp", options=["noexec", "mode=1777"]),
                *(mounted(path, "bind", path, ["rbind", "ro"]) for path in paths if os.path.exists(path)),
                *(mounted(path, options=options.split(",")) for path, options in folders.items()),
            ],
            "linux": {"resources": {}, "cgroupsPath": "/" + self.prefix + name, "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
        }

    def prepare(self):
        """Makes a bundle for each of them, in `folder`, and the root that they share."""
        os.makedirs(self.folder + "/root")
        for name in self.hosts:
            self.make_bundle(name)

    def make_bundle(self, name):
        os.makedirs("%s/%s" % (self.folder, name))
        with open("%s/%s/config.json" % (self.folder, name), "w", encoding="utf-8") as file:
            json.dump(self.config(name), file)

    def start(self, name):
        bundle = "%s/%s" % (self.folder, name)
        log = pathlib.Path(bundle, "log")
        with log.open("w") as file:  # not a pipe: the container would hold it open
            return subprocess.Popen([*self.command, "run", "--detach", "--bundle", bundle, "%s-%s" % (self.prefix, name)],
                                    stdin=subprocess.DEVNULL, stdout=file, stderr=file), log

    def __enter__(self):
        self.prepare()
        starts = [self.start(name) for name in self.hosts]
        for start, log in starts:
            assert start.wait() == 0, log.read_text()
        with open(self.folder + "/ssh", "w", encoding="utf-8") as file:
            file.write(SSH % (shlex.join(self.command), self.prefix))
        os.chmod(self.folder + "/ssh", 0o755)
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        atexit.unregister(self.down)
        for name in self.hosts:
            subprocess.run([*self.command, "delete", "--force", "%s-%s" % (self.prefix, name)], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def variables(self):
        """What the environment of a notebook needs to reach them."""
        return {"CELLSPAN_SSH": self.folder + "/ssh"}

    def exec(self, name, *words):
        """What a command in a container prints."""
        return subprocess.check_output([*self.command, "exec", "%s-%s" % (self.prefix, name), *words], stdin=subprocess.DEVNULL, text=True)
