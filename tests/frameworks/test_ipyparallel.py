# SPDX-License-Identifier: BSD-3-Clause
"""ipyparallel's own example notebooks, from its source distribution, on cellspan.px: only the lines that docs/migrating.md lists differ."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tarfile

import nbclient
import nbformat
import pytest
from client import ANSI, KERNEL

PINNED = next(line for line in pathlib.Path(__file__).with_name("ipyparallel.txt").read_text().split() if line.startswith("ipyparallel=="))
IMPORT = ("import ipyparallel as ipp", "import cellspan.px as ipp")
CLIENT = ("ipp.Client()", "ipp.Client(n=4)")
ON_ENGINES = ("import ipyparallel as ipp\n\nipp.bind_kernel()", "import cellspan.px as ipp\n\nipp.bind_kernel()")
# A notebook: (what takes the place of what, once each; words of the cells that go; words of cells that raise an exception;
# what the outputs hold)
NOTEBOOKS = {
    "Parallel Decorator and map": ([IMPORT, CLIENT], [], [], [
        "Simple, default map:  [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]", "Submitted tasks, got ids:", "Using a parallel function:  [0, 2, 4"]),
    "Monte Carlo Options": ([IMPORT], [], [], ["Strike prices:", "30", "image/png"]),
    "Parallel Magics": ([ON_ENGINES, IMPORT], [], ["'invalid shape'", "rank 0 failed!"], [
        "[0-3] 5", "<AsyncResult(%px): pending>", "%autopx enabled", "rank 0 failed!", "image/svg+xml", "[stderr:3] stderr2", "per loop"]),
    "progress": ([IMPORT], [], [], ["rank 3: done!", "application/vnd.jupyter.widget-view+json"]),
    "Using MPI with IPython Parallel": ([IMPORT, CLIENT], [], [], ["[0, 1, 2, 3]", "{0: 0, 1: 1, 2: 2, 3: 3}", "'data': 16, 'rank': 3"]),
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The folder of the notebooks."""
    folder = tmp_path_factory.mktemp("sdist")
    python = os.path.join(os.environ["CELLSPAN_TEST_PREFIX"], "bin", "python")
    subprocess.run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", "ipyparallel", PINNED],
                   cwd=folder, check=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # Python 3.11.4
    return folder / archive.name.removesuffix(".tar.gz") / "docs" / "source" / "examples"


def changed(notebook, replaced, left_out):
    """Replaces the lines and leaves out the cells. Each of them must be there."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for word in left_out:
        assert any(word in cell.source for cell in cells), word
    cells = [cell for cell in cells if not any(word in cell.source for word in left_out)]
    for old, new in replaced:
        found = [cell for cell in cells if old in cell.source]
        assert len(found) == 1 and found[0].source.count(old) == 1, old
        found[0].source = found[0].source.replace(old, new)
    notebook.cells = cells


@pytest.mark.limit(400)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_headless(examples, tmp_path, name):
    replaced, left_out, raising, wanted = NOTEBOOKS[name]
    notebook = nbformat.read(examples / f"{name}.ipynb", 4)
    changed(notebook, replaced, left_out)
    for cell in notebook.cells:
        cell.outputs = []
        tags = cell.metadata.pop("tags", [])
        raises = any(word in cell.source for word in raising)
        assert raises or "raises-exception" not in tags, cell.source
        cell.metadata["tags"] = ["raises-exception"] if raises else []
    nbclient.NotebookClient(notebook, kernel_name=KERNEL, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in notebook.cells:
        errors = [output.ename for output in cell.outputs if output.output_type == "error"]
        assert bool(errors) == bool(cell.metadata["tags"]), (cell.source, errors)
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    said = ANSI.sub("", "".join(output.get("text", "") + str(output.get("data", "")) + output.get("evalue", "") for output in outputs))
    for text in wanted:
        assert text in said, (text, said[-4000:])


WORLD = """%%distribute -n 4 --gather {}
from mpi4py import MPI
import numpy as np
comm = MPI.COMM_WORLD
total = np.empty(100_000)
comm.Allreduce(np.full(100_000, comm.rank + 1.0), total)
(comm.rank, comm.size, float(total[-1]), comm.allgather(comm.rank), 'MPICH' in MPI.Get_library_version())"""


def test_ranks_are_a_world_of_mpi_and_new_ones_a_new_world(tmp_path):
    cells = [WORLD.format(options) for options in ("", "", "--fresh", "--beside")]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    before = set(os.listdir("/dev/shm"))
    nbclient.NotebookClient(notebook, kernel_name=KERNEL, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in notebook.cells:
        [result] = [output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"]
        assert "".join(result.split()) == "".join(str([(rank, 4, 10.0, [0, 1, 2, 3], True) for rank in range(4)]).split())
    assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("mpich")]
