# SPDX-License-Identifier: BSD-3-Clause
"""What examples/run shows. tests/run has called it; where nobody has, nbconvert executes the notebook here."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from packages import needs
from test_headless import EXAMPLES, outputs


@pytest.fixture
def done(jupyter_env, tmp_path):
    needs("torch", "sklearn")
    path = pathlib.Path(EXAMPLES.parent, ".build", "examples", "digits_ddp.ipynb")
    if not path.exists():
        path = tmp_path / path.name
        command = [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--to", "notebook", "--output", path, EXAMPLES / path.name]
        said = subprocess.run(command, env=jupyter_env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
        assert said.returncode == 0, said.stderr
    return path


@pytest.mark.limit(1000)
def test_the_example_trains_on_four_ranks(done):
    flat = [o for cell in outputs(done) for o in cell]
    printed = "".join(o.text for o in flat if o.output_type == "stream" and o.name == "stdout")
    # On a busy machine a twin may come too late to be folded; each rank stands for it once all the same.
    assert re.search(r"\[[0-3,-]+\] epoch 10  accuracy 0\.9", printed), printed
    for rank in range(4):
        assert "[%d] epoch 10  loss" % rank in printed, printed
    assert any("image/png" in o.get("data", {}) for o in flat)
    assert not any(o.output_type == "error" for o in flat)
