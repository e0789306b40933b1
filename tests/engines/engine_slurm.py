# SPDX-License-Identifier: BSD-3-Clause
"""A Slurm cluster of three nodes."""

import glob
import os

from conformance import Engine
from engines import SLURM_TOOLS, Slurm


class SlurmEngine(Engine):
    name = "slurm"
    on = "slurm:--nodes=2"
    tools = SLURM_TOOLS
    too_much = ("slurm:--nodes=2 --gres=gpu:99", "srun: error: .*")
    queued = ("slurm:--nodes=2 --begin=now+3600", "waits in the queue: BeginTime")
    knows = ("launcher", "cellspan-launch", "srun", "slurmstepd")
    noticed = r"Slurm ends job \d+"
    ended = r"Slurm ended job \d+"
    ended_as = "MachineLeaves"

    def up(self):
        self.cluster = Slurm(nodes=3)
        self.prolog = self.cluster.environment["SLURM_TASK_PROLOG"] = os.path.join(self.cluster.folder, "prolog")
        self.exports({})
        self.cluster.up()

    def exports(self, environment):
        """Every task that has GPUs has this from now on. {node} in it is the node's name."""
        with open(self.prolog, "w", encoding="utf-8") as file:
            print('#!/bin/sh\n[ -n "$CUDA_VISIBLE_DEVICES" ] || exit 0', file=file)
            for name, value in environment.items():
                print('echo "export %s=%s"' % (name, value.replace("{node}", "$SLURMD_NODENAME")), file=file)
        os.chmod(self.prolog, 0o755)

    def gpus(self, environment, folder):
        """The libraries show eight on each node, of which Slurm has two. The nodes, which are this machine, share no leases."""
        self.exports({**environment, "CELLSPAN_GPU_LEASES": self.cluster.folder + "/leases-{node}"})
        return "slurm:--nodes=2 --gres=gpu:2", ["0,1"] * 4

    def down(self):
        self.cluster.down()

    def variables(self):
        return self.cluster.variables()

    def notice(self, session):
        """As if its time were over; but the job goes on."""
        self.cluster.run("scancel", "--signal=TERM", "--user", "root")

    def end(self):
        self.cluster.run("scancel", "--user", "root")

    def left(self):
        return self.cluster.queue()

    def ready(self):
        return self.cluster.idle()

    def logs(self):
        """All files of its daemons: logs, state and spool."""
        return [path for path in glob.glob(os.path.dirname(self.cluster.conf) + "/**", recursive=True) if os.path.isfile(path)]


ENGINES = [SlurmEngine]
