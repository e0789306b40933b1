# SPDX-License-Identifier: BSD-3-Clause
"""Ray: a cluster of two nodes on this machine. `tests/engines/run ray` makes a virtual environment with Ray first."""

import glob
import os
import pathlib
import re
import signal
import subprocess
import sys

import processes
from conformance import Engine, parent, pids
from engines import EngineError

SCRIPT = pathlib.Path(__file__).resolve().parent / "ray.sh"


class Ray(Engine):
    name = "ray"
    address = "127.0.0.1:" + os.environ.get("RAY_PORT", "17300")
    on = "ray:" + address
    too_much = on + " --cpus 3", "4 ranks with 3 CPU each: the cluster has no room for them, its nodes have 2 CPU, 2 CPU"
    queued = on + " --nodes 2 --gpus 1", "placement group is PENDING, INFEASIBLE: 2 CPU 2 GPU \\+ 2 CPU 2 GPU wanted; the cluster has 4 of 4 CPU free, 0 of 0 GPU"
    silent = "ray:127.0.0.1:%d", r"the Ray cluster at 127\.0\.0\.1:\d+ has not answered within %d s"
    few = 1
    ended = "Ray has ended the agent's actor: The actor died"

    settings = {}  # for ray.sh and the nodes

    def script(self, word):
        done = subprocess.run([SCRIPT, word], env={**os.environ, **self.settings}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise EngineError("ray.sh %s: %s" % (word, done.stdout + done.stderr))
        return done.stdout

    def up(self):
        (self.python,) = glob.glob(self.script("install").split()[1] + "/lib/python3.*/site-packages")
        self.script("up")
        (self.folder,) = re.findall(r"^tmp=(.*)", (pathlib.Path(os.environ.get("ENGINES_STATE", SCRIPT.parents[2] / ".build" / "engines")) / "ray" / "env")
                                    .read_text(), re.M)

    def down(self):
        self.script("down")

    def gpus(self, environment, folder):
        """On another cluster, each of whose nodes has two of the machine's GPUs. Either may have the first agent, and Ray has an order of
        its own for what it gives of a node."""
        self.down()
        self.settings = {**environment, "RAY_NODE_GPUS": "2", "CELLSPAN_GPU_LEASES": folder + "/leases"}
        self.up()
        first, second = ("0,1", "1,0"), ("2,3", "3,2")
        return (self.on, *([a, a, b, b] for x, y in ((first, second), (second, first)) for a in x for b in y))

    def variables(self):
        """The Python of the tests has no Ray, and that of Ray's workers has not what cells use."""
        return {"PYTHONPATH": self.python, "CELLSPAN_REMOTE_PYTHON": sys.executable}

    def actors(self):
        """Of this cluster: Ray names another address of this machine, with the same port."""
        port = re.compile(r"--gcs-address=\S+:%s " % self.address.rpartition(":")[2])
        return [pid for pid in pids() if processes.read(pid, "cmdline").startswith(b"ray::CellspanAgent") and port.search(processes.command(parent(pid)) + " ")]

    def end(self):
        for pid in self.actors():
            os.kill(pid, signal.SIGKILL)

    def left(self):
        return processes.described(self.actors())

    def logs(self):
        """Also its object stores: memory that its raylets have as files without a name."""
        files = [path for path in glob.glob(self.folder + "/**", recursive=True) if os.path.isfile(path) and not os.path.islink(path)]
        stores = [path for pid in pids() if processes.read(pid, "comm").strip() == b"raylet" and self.folder in processes.command(pid)
                  for path in glob.glob("/proc/%d/fd/*" % pid) if "/dev/shm/" in os.path.realpath(path)]
        assert stores
        return files + stores


ENGINES = [Ray]
