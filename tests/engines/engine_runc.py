# SPDX-License-Identifier: BSD-3-Clause
"""An engine of one's own, as docs/launchers.md says: cellspan-launch-runc, with a container for each machine."""

import json
import os
import pathlib
import shutil
import subprocess

import containers
from conformance import HERE, MPI4PY, Engine


SHM = {"/dev/shm": "nosuid,nodev,mode=1777"}


class Runc(Engine):
    name = "runc"
    on = "runc:box1,box2"
    tools = containers.TOOLS
    too_much = ("runc:box1,box2,box3", "there is no bundle box3")
    queued = ("runc:box1,box4", "box4 is taken")
    knows = ("launcher",)
    ended = "its container ended with status 137"

    def up(self):
        prefix = pathlib.Path(os.path.realpath(shutil.which("cellspan"))).parents[1]
        self.boxes = containers.Containers(dict.fromkeys(("box1", "box2", "box4"), ({}, SHM)), also=[str(prefix), "/sys", *filter(None, [MPI4PY])])
        self.boxes.prepare()
        pathlib.Path(self.boxes.folder, "box4", "taken").touch()

    def gpus(self, environment, folder):
        self.boxes.also.append(folder)
        for name, given in (("gpu1", "2,5"), ("gpu2", "0,3")):
            self.boxes.hosts[name] = {**environment, "CUDA_VISIBLE_DEVICES": given}, SHM
            self.boxes.make_bundle(name)
        return "runc:gpu1,gpu2", ["2,5", "2,5", "0,3", "0,3"]

    def down(self):
        self.boxes.down()

    def variables(self):
        return {"PATH": "%s:%s" % (HERE, os.environ["PATH"]), "RUNC_BUNDLES": self.boxes.folder}

    def left(self):
        """A launcher that is killed leaves the records of its containers, which have ended. runc lists nothing and fails if a record is
        removed while it looks."""
        for _ in range(100):
            listed = subprocess.run([*self.boxes.command, "list", "--format", "json"], capture_output=True, text=True)
            if listed.returncode == 0 or "no such file or directory" not in listed.stderr:
                break
        assert listed.returncode == 0, listed.stderr
        return [box["id"] for box in json.loads(listed.stdout) or () if box["status"] != "stopped"]

    def end(self):
        self.kill(*self.left())

    def kill(self, *names):
        for name in names:
            subprocess.check_call([*self.boxes.command, "kill", name, "KILL"])


ENGINES = [Runc]
