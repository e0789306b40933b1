# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of other unix users. A user is a number: nobody needs to be in /etc/passwd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from jupyter_client.kernelspec import KernelSpecManager

# Root's part, in a mount namespace: the connection file becomes the user's, and what the kernel needs is reachable although it may
# be below a folder that only root may enter. Those are after the number of them.
SCRIPT = """
uid=$1 home=$2 connection=$3 closed=$4 n=$5; shift 5
install -o $uid -g $uid -m 600 "$connection" "$home/connection.json"
if [ "$closed" ]; then
    i=0; for kept in $(seq $n); do eval "kept=\\${$kept}"; mkdir -p "$home/.held/$i"; mount --bind "$kept" "$home/.held/$i"; i=$((i + 1)); done
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    i=0; for kept in $(seq $n); do eval "kept=\\${$kept}"; mkdir -p "$kept"; mount --move "$home/.held/$i" "$kept"; i=$((i + 1)); done
fi
shift $n
cd "$home"
exec setpriv --reuid $uid --regid $uid --clear-groups "$@"
"""


def closed_above(path):
    """The uppermost folder above that only its owner may enter; "" if there is none."""
    parts = path.split(os.sep)
    for n in range(2, len(parts)):
        folder = os.sep.join(parts[:n])
        if not os.stat(folder).st_mode & 0o001:
            return folder
    return ""


class User:
    def __init__(self, uid, folder):
        self.uid = uid
        self.home = os.path.join(folder, str(uid))
        os.mkdir(self.home, 0o700)
        os.chown(self.home, uid, uid)

    @property
    def environment(self):
        return {"HOME": self.home, "USER": "user%d" % self.uid, "LOGNAME": "user%d" % self.uid, "TMPDIR": self.home, "XDG_RUNTIME_DIR": "",
                "IPYTHONDIR": self.home + "/.ipython", "JUPYTER_RUNTIME_DIR": self.home, "JUPYTER_CONFIG_DIR": self.home + "/.jupyter"}

    def run(self, *words, **options):
        """A program as this user, in its home folder."""
        env = dict(os.environ, **self.environment, **options.pop("env", {}))
        words = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", *map(str, words)]
        return subprocess.run(words, cwd=self.home, env=env, capture_output=True, text=True, timeout=100, **options)

    def start(self, *words, **options):
        env = dict(os.environ, **self.environment, **options.pop("env", {}))
        return subprocess.Popen(words, cwd=self.home, env=env, user=self.uid, group=self.uid, extra_groups=(), **options)

    def kernelspec(self, place, name, more=()):
        """Writes a kernelspec by which root starts a kernel of this user. more: for unshare, such as --net."""
        spec = KernelSpecManager().get_kernel_spec("cellspan").to_dict()
        needs = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), os.path.realpath(os.path.dirname(os.path.dirname(spec["argv"][0])))}
        closed = closed_above(os.path.realpath(sys.base_prefix))
        kept = sorted(path for path in needs if closed and path.startswith(closed + os.sep))
        argv = [word.replace("{connection_file}", self.home + "/connection.json") for word in spec["argv"]]
        spec["argv"] = ["unshare", "--mount", "--propagation", "private", *more, "sh", "-c", SCRIPT, "sh", str(self.uid), self.home,
                        "{connection_file}", closed, str(len(kept)), *kept, *argv]
        folder = os.path.join(place, "kernels", name)
        os.makedirs(folder)
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(spec, file)


class Users:
    def __init__(self, folder, fresh, monkeypatch):
        self.folder, self.fresh, self.made = folder, fresh, {}
        monkeypatch.setenv("JUPYTER_PATH", "%s:%s" % (folder, os.environ.get("JUPYTER_PATH", "")))

    def __getitem__(self, uid):
        if uid not in self.made:
            self.made[uid] = User(uid, self.folder)
        return self.made[uid]

    def notebook(self, uid, more=(), env=None, **options):
        """A notebook whose kernel runs as this user."""
        user, name = self[uid], "of-%d-%d" % (uid, len(os.listdir(self.folder)))
        user.kernelspec(self.folder, name, more)
        os.makedirs(os.path.join(self.folder, name))
        return self.fresh(kernel=name, env=dict(user.environment, **(env or {})), **options)


@pytest.fixture
def users(fresh, monkeypatch):
    """Makes notebooks of other unix users."""
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of other users")
    lacks = [program for program in ("unshare", "setpriv", "mount") if not shutil.which(program)]
    if lacks:
        pytest.skip("there is no %s" % lacks[0])
    folder = tempfile.mkdtemp(prefix="cellspan-users-")
    os.chmod(folder, 0o755)
    yield Users(folder, fresh, monkeypatch)
    shutil.rmtree(folder, ignore_errors=True)
