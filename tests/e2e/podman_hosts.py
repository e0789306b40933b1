# SPDX-License-Identifier: BSD-3-Clause
"""Hosts on which a real podman runs images that this machine has made: see images.py. No registry is asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

import images
from engines import Hosts

IMAGE = "localhost/cellspan-test:1"
STORAGE = "/var/lib/containers"
# What runs the containers. A machine that may not raise limits, as this one may be, does without them.
RUNTIME = """#!/usr/bin/python3 -I
import json, os, sys
args = sys.argv[1:]
if "create" in args:
    path = args[args.index("--bundle") + 1] + "/config.json"
    with open(path) as file:
        config = json.load(file)
    for name in ("rlimits", "oomScoreAdj"):
        config["process"].pop(name, None)
    with open(path, "w") as file:
        json.dump(config, file)
os.execv("%s", ["runc", *args])
"""
PODMAN = """#!/bin/sh
exec %s/real --runtime %s/runtime "$@"
"""
# A host of hosts.sh has a /sys of its own, in which runc looks for what the machine has.
CGROUPS = """mount -t tmpfs tmpfs /sys/fs/cgroup && if [ -s /proc/self/cgroup ] && ! grep -q ':[a-z]' /proc/self/cgroup; then
mount -t cgroup2 cgroup2 /sys/fs/cgroup; else cut -d: -f2 /proc/self/cgroup | grep . | while read -r c; do d=/sys/fs/cgroup/${c#name=}; mkdir "$d"
case $c in name=*) mount -t cgroup -o "none,$c" cgroup "$d";; *) mount -t cgroup -o "$c" cgroup "$d";; esac; done; fi"""


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class PodmanHosts(Hosts):
    """also: programs whose libraries the image has as well."""

    def __init__(self, count=2, private=(), also=()):
        super().__init__(count, private=(*private, STORAGE))
        self.also = also

    def bring_up(self):
        super().bring_up()
        self.tools = tempfile.mkdtemp(prefix="tools-", dir=self.folder)
        images.make_root(self.tools + "/root", self.also)
        images.pack(self.tools + "/root", self.tools + "/image.tar")
        shutil.rmtree(self.tools + "/root")
        write_program(self.tools + "/runtime", RUNTIME % shutil.which("runc", path="/usr/sbin:/usr/bin"))
        write_program(self.tools + "/podman", PODMAN % (self.tools, self.tools))
        for host in self.names:
            self.exec(host, "touch", self.tools + "/real")
            self.exec(host, "mount", "--bind", shutil.which("podman", path="/usr/bin"), self.tools + "/real")
            self.exec(host, "mount", "--bind", self.tools + "/podman", "/usr/bin/podman")
            self.exec(host, "sh", "-c", CGROUPS)
            self.load(host, self.tools + "/image.tar", IMAGE)

    def load(self, host, tar, name):
        self.exec(host, "podman", "import", tar, name)

    def containers(self, host):
        """Those that podman knows there, also those that have ended."""
        return self.exec(host, "podman", "ps", "-a", "--format", "{{.ID}} {{.Image}} {{.Status}}").stdout.splitlines()


LOCAL = """#!/bin/sh
exec /usr/bin/podman --root %(at)s/storage --runroot %(at)s/run --runtime %(at)s/runtime "$@"
"""


class LocalPodman:
    """A folder with a `podman` for this machine, which has the image, and nothing of what this machine's podman has."""

    def __init__(self, also=()):
        self.also = also

    def __enter__(self):
        self.at = tempfile.mkdtemp(prefix="cellspan-podman-")
        images.make_root(self.at + "/root", self.also)
        images.pack(self.at + "/root", self.at + "/image.tar")
        shutil.rmtree(self.at + "/root")
        write_program(self.at + "/runtime", RUNTIME % shutil.which("runc", path="/usr/sbin:/usr/bin"))
        write_program(self.at + "/podman", LOCAL % {"at": self.at})
        self.call("import", self.at + "/image.tar", IMAGE)
        return self

    def __exit__(self, *_):
        self.call("rm", "-f", "-a")
        subprocess.run(["umount", self.at + "/storage/overlay"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.at, ignore_errors=True)

    def call(self, *words):
        return subprocess.run([self.at + "/podman", *words], check=True, capture_output=True, text=True).stdout

    def containers(self):
        return self.call("ps", "-aq").split()
