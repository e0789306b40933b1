# SPDX-License-Identifier: BSD-3-Clause
"""nbconvert, papermill and the examples: notebooks without a browser."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from client import KERNEL
from packages import needs

pytestmark = pytest.mark.clients
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def jupyter(jupyter_env, tmp_path):
    """Runs `python -m …` in tmp_path; (exit status, all that it said)."""

    def run(*words, limit=200):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, words)],
            cwd=tmp_path,
            env=jupyter_env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    return run


def write(path, *codes, tags=None):
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    for at, names in (tags or {}).items():
        notebook.cells[at].metadata["tags"] = names
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
    nbformat.write(notebook, str(path))
    return path


def outputs(path):
    import nbformat

    notebook = nbformat.read(str(path), 4)
    nbformat.validate(notebook)
    return [cell.get("outputs", []) for cell in notebook.cells]


def test_nbconvert_executes_and_writes_html(jupyter, tmp_path):
    write(tmp_path / "n.ipynb", "print('at home')", "%%distribute -n 2 --merge prefix\nprint('on ranks')\n6 * 7")
    code, said = jupyter("jupyter", "nbconvert", "--execute", "--to", "html", "n.ipynb")
    assert code == 0, said
    shown = "".join(re.findall(r"<pre>(.*?)</pre>", (tmp_path / "n.html").read_text(), re.S))
    assert re.search(r"^at home$", shown, re.M) and re.search(r"^42$", shown, re.M), shown
    assert "[0] on ranks" in shown and "[1] on ranks" in shown, shown


@pytest.mark.parametrize("words", [["jupyter", "nbconvert", "--execute", "--to", "notebook", "--output", "out.ipynb"], ["papermill"]])
def test_the_last_state_of_ranks_widgets_is_in_the_notebook(jupyter, tmp_path, words):
    import nbformat

    needs("ipywidgets")
    write(tmp_path / "n.ipynb", "%%distribute -n 2\nimport cellspan, ipywidgets\nfrom IPython.display import display\n"
          "bar = ipywidgets.FloatProgress(max=1000)\ndisplay(bar)\nout = ipywidgets.Output()\ndisplay(out)\n"
          "for i in range(1000):\n    bar.value = 1 + i * (1 + cellspan.rank())\nwith out:\n    print('captured by', cellspan.rank())",
          "%%distribute -r 1\nbar.value = 7")
    code, said = jupyter(*words, "n.ipynb", *(["out.ipynb"] if words == ["papermill"] else []))
    assert code == 0, said
    states = nbformat.read(str(tmp_path / "out.ipynb"), 4).metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert sorted(s["state"]["value"] for s in states.values() if s["model_name"] == "FloatProgressModel") == [7, 1000]
    texts = [s["state"]["outputs"][0]["text"] for s in states.values() if s["model_name"] == "OutputModel"]
    assert sorted(texts) == ["captured by 0\n", "captured by 1\n"]
    shown = [o for o in outputs(tmp_path / "out.ipynb")[0] if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
    assert {o["data"]["application/vnd.jupyter.widget-view+json"]["model_id"] for o in shown} <= set(states) and len(shown) == 4


def test_nbconvert_exports_a_script(jupyter, tmp_path):
    import nbformat

    write(tmp_path / "n.ipynb", "print('at home')")
    code, said = jupyter("jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", "n.ipynb")
    assert code == 0, said
    assert nbformat.read(str(tmp_path / "n.ipynb"), 4).metadata.language_info.file_extension == ".py"
    code, said = jupyter("jupyter", "nbconvert", "--to", "script", "n.ipynb")
    assert code == 0 and (tmp_path / "n.py").exists(), said


def test_nbconvert_fails_when_a_rank_fails(jupyter, tmp_path):
    write(tmp_path / "n.ipynb", "%%distribute -n 2\n1 / 0")
    code, said = jupyter("jupyter", "nbconvert", "--execute", "--to", "notebook", "n.ipynb")
    assert code != 0 and "ZeroDivisionError" in said


def test_papermill_sets_parameters(jupyter, tmp_path):
    write(tmp_path / "n.ipynb", "count = 1\nname = 'x'", "%%distribute -n {count} --gather\nname", tags={0: ["parameters"]})
    code, said = jupyter("papermill", "n.ipynb", "out.ipynb", "-p", "count", 3, "-p", "name", "ranks")
    assert code == 0, said
    found = [o for cell in outputs(tmp_path / "out.ipynb") for o in cell if o.output_type == "execute_result"]
    assert found[0].data["text/plain"] == "['ranks', 'ranks', 'ranks']"


@pytest.mark.parametrize(
    "failure, words",
    [
        ("import os\nif os.environ['RANK'] == '1':\n    raise ValueError('one rank')", ["ValueError on rank 1 of 2"]),
        ("import os\nif os.environ['RANK'] == '1':\n    os._exit(3)\nimport time; time.sleep(600)", ["rank 1 ended with exit status 3"]),
    ],
    ids=["exception", "death"],
)
def test_papermill_fails_when_a_rank_fails(jupyter, tmp_path, failure, words):
    write(tmp_path / "n.ipynb", "%%distribute -n 2\n" + failure, "print('never')")
    code, said = jupyter("papermill", "--log-output", "n.ipynb", "out.ipynb")
    assert code != 0
    assert all(word in said for word in words), said
    assert outputs(tmp_path / "out.ipynb")[-1] == []


def test_jupyter_execute_runs_the_notebook(jupyter, tmp_path):
    write(tmp_path / "n.ipynb", "print('ran')")
    code, said = jupyter("jupyter", "execute", "--inplace", "n.ipynb")
    assert code == 0, said
    assert outputs(tmp_path / "n.ipynb")[0][0].text == "ran\n"


def test_jupyter_run_runs_a_script(jupyter, tmp_path):
    (tmp_path / "script.py").write_text("print(6 * 7)\n")
    code, said = jupyter("jupyter", "run", "--kernel", KERNEL, "script.py")
    assert code == 0 and "42\n" in said, said


@pytest.mark.limit(1000)
@pytest.mark.parametrize("name", ["horovod_digits", "maggy_scalar_field", "torch_distributor"])
def test_the_examples_end_with_checks_that_hold(jupyter, jupyter_env, tmp_path, name):
    needs("torch", "matplotlib")
    jupyter_env["CELLSPAN_PRELOAD"] = "torch._dynamo"  # otherwise each rank's optimizer imports it
    code, said = jupyter(
        "jupyter", "nbconvert", "--execute", "--to", "notebook", "--output-dir", tmp_path, "--output", "done.ipynb",
        "--ExecutePreprocessor.kernel_name=" + KERNEL, EXAMPLES / f"{name}.ipynb", limit=900,
    )
    assert code == 0, said
    flat = [o for cell in outputs(tmp_path / "done.ipynb") for o in cell]
    assert any("image/png" in o.get("data", {}) for o in flat)
