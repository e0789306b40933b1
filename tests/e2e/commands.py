# SPDX-License-Identifier: BSD-3-Clause
"""The command `cellspan` as a new user types it, with a home folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid

import processes
import pytest
from client import KERNEL
from jupyter_client.kernelspec import KernelSpecManager


@pytest.fixture
def cellspan(tmp_path):
    """Runs the command `cellspan` that belongs to the installed kernel, with an empty HOME."""
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    program = os.path.join(os.path.dirname(spec.argv[0]), "cellspan")
    if not os.path.exists(program):
        program = shutil.which("cellspan")
    home = tmp_path / "home"
    home.mkdir()
    marker = uuid.uuid4().hex
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "XDG"))}
    # In a virtual environment Jupyter looks there first, where a kernel of that name may be.
    env.update({"HOME": str(home), processes.MARKER: marker, "JUPYTER_PREFER_ENV_PATH": "0"})

    def run(*words, start=False, given=None, **changes):
        options = dict(cwd=tmp_path, env=dict(env, **changes))
        options.update({"stdin": subprocess.DEVNULL} if given is None else {"input": given})
        if start:
            return subprocess.Popen([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        done = subprocess.run([program, *map(str, words)], capture_output=True, timeout=100, **options)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    run.program, run.home, run.env, run.marker = program, home, env, marker
    yield run
    left = processes.gone(marker)
    processes.kill_all(marker)
    assert not left, left


def one_line(outcome, *words):
    code, out, err = outcome
    assert code > 0 and out == "" and len(err.splitlines()) == 1, outcome
    for word in words:
        assert word in err, err
