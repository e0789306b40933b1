# SPDX-License-Identifier: BSD-3-Clause
"""mpirun of Open MPI and of MPICH, over hosts with sshd."""

import os
import pathlib
import signal
import tempfile

import processes
from conformance import Engine, pids
from engines import HOST_TOOLS, Hosts


class Mpi(Engine):
    ended = "mpirun (ended with status|was killed by signal)"
    program = ""
    prefix = {}

    def up(self):
        self.folder = tempfile.TemporaryDirectory(prefix="cellspan-mpi-")
        self.hosts = Hosts(2)
        self.hosts.up()
        mpirun = pathlib.Path(self.folder.name) / "mpirun"
        mpirun.write_text('#!/bin/sh\nexec %s "$@"\n' % self.program)
        mpirun.chmod(0o755)

    def down(self):
        self.hosts.down()
        self.folder.cleanup()

    def variables(self):
        return {"PATH": "%s:%s" % (self.folder.name, os.environ["PATH"]), **self.prefix}

    def gpus(self, environment, folder):
        """The MPI numbers the hosts. Each has its leases in its own /dev/shm."""
        self.prefix = {"CELLSPAN_REMOTE_PREFIX": self.wrap_agent(folder, environment, {"h1": "2,5", "h2": "0,3"})}
        return self.on, ["2,5", "2,5", "0,3", "0,3"], ["0,3", "0,3", "2,5", "2,5"]

    def left(self):
        return ["%s: %s" % (host, text) for host in self.hosts.names for text in self.hosts.workers(host).values()]

    def end(self):
        """Whoever runs it ends mpirun."""
        for pid in pids():
            if self.hosts.folder in processes.command(pid) + processes.read(pid, "environ").decode(errors="replace") and (
                    os.path.basename(os.path.realpath("/proc/%d/exe" % pid)) == os.path.basename(os.path.realpath(self.program))):
                os.kill(pid, signal.SIGTERM)


class OpenMpi(Mpi):
    name = "openmpi"
    knows = ("launcher", "cellspan-launch", "mpirun.openmpi", "mpirun", "orterun", "orted", "ssh", "sh")
    program = "/usr/bin/mpirun.openmpi"
    tools = ("mpirun.openmpi", "orted", *HOST_TOOLS)

    def spec(self, n):
        return "mpi:-n %d -host h1,h2 --allow-run-as-root --mca plm_rsh_args '-F %s' --mca oob_tcp_if_include %s.0/24" % (
            n, self.hosts.ssh_config, self.hosts.network)

    @property
    def on(self):
        return self.spec(2)

    @property
    def too_much(self):
        return self.spec(3), "more processes than the ppr"


class Mpich(Mpi):
    name = "mpich"
    knows = ("launcher", "cellspan-launch", "mpirun.mpich", "mpiexec.hydra", "hydra_pmi_proxy", "ssh", "sh")
    program = "/usr/bin/mpirun.mpich"
    tools = ("mpirun.mpich", "hydra_pmi_proxy", *HOST_TOOLS)

    def variables(self):
        return dict(super().variables(), HYDRA_LAUNCHER_EXTRA_ARGS="-F %s" % self.hosts.ssh_config)

    @property
    def on(self):
        return "mpi:-hosts h1,h2 -iface %s-br" % self.hosts.prefix

    @property
    def too_much(self):
        return "mpi:-n 3 " + self.on[len("mpi:"):], "it has an agent already.*ask for fewer than 3"


ENGINES = [OpenMpi, Mpich]
