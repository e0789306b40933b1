# SPDX-License-Identifier: BSD-3-Clause
"""The example from a Delta table to a model in MLflow. It ends with the check that two ranks learn what one process learns."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import nbformat
import pytest
from client import KERNEL

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "lightning_delta_mlflow.ipynb"


@pytest.mark.limit(400)
def test_the_example_ends_with_checks_that_hold(tmp_path):
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--output-dir", tmp_path, "--output", "done.ipynb",
               "--ExecutePreprocessor.kernel_name=" + KERNEL, EXAMPLE]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=350)
    assert done.returncode == 0, done.stdout
    notebook = nbformat.read(tmp_path / "done.ipynb", 4)
    assert any("image/png" in o.get("data", {}) for cell in notebook.cells for o in cell.get("outputs", ()))
