# SPDX-License-Identifier: BSD-3-Clause
"""A hub whose servers are jobs of a real Slurm, which the scripts of tests/engines bring up where the hub's two users exist."""

from __future__ import annotations

import os
import shlex
import sys

from hub import TOP, Hub

sys.path.append(os.path.join(TOP, "tests", "e2e"))
from engines import SCRIPTS, Slurm  # noqa: E402

NODES = 4
# squeue names the nodes as Slurm does, and all of them are this machine.
HOSTS = "".join("127.0.0.1 n%d\n" % (n + 1) for n in range(NODES))
# The partitions that the example speaks of: a node without GPUs, as far as its jobs can tell, and three with two.
PARTITIONS = ("cpu", "n1"), ("gpu", "n[2-4]")


class SlurmHub(Hub):
    instead = ""

    def __init__(self, change=""):
        self.slurm = None
        super().__init__("slurm", change)

    def etc(self, example):
        super().etc(example)
        with open(os.path.join(self.folder, "etc", "hosts"), "a", encoding="ascii") as hosts:
            hosts.write(HOSTS)
        self.slurm = Slurm(nodes=NODES)
        os.chmod(self.slurm.folder, 0o755)
        self.slurm.script = os.path.join(self.folder, "slurm.sh")
        with open(self.slurm.script, "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nexec %s \"$@\"\n" % shlex.join(self.within(os.path.abspath(os.path.join(SCRIPTS, "slurm.sh")))))
        os.chmod(self.slurm.script, 0o755)
        self.slurm.up()
        self.slurm.script = Slurm.script  # the end needs no users, and comes when their folder is gone
        for name, nodes in PARTITIONS:
            said = self.slurm.run("scontrol", "create", "PartitionName=" + name, "Nodes=" + nodes, "State=UP")
            assert not said.strip(), said
        self.variables = self.slurm.variables()

    def jobs(self):
        """Of each job its partition, its user's number, the number of its nodes, and its name."""
        return sorted(tuple(line.split()) for line in self.slurm.run("squeue", "-h", "-o", "%P %U %D %j").splitlines())

    def close(self):
        try:
            left = super().close()
        finally:
            self.slurm.down()
        return left
