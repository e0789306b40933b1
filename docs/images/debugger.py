# SPDX-License-Identifier: BSD-3-Clause
"""Makes lab-debugger.png: JupyterLab's debugger in a headless Chromium, at a breakpoint on four ranks.

Wants what tests/e2e/test_lab.py wants: Chromium with its driver, and in CELLSPAN_TEST_PREFIX the prefix into which the
kernelspec was installed.

    CELLSPAN_TEST_PREFIX=PREFIX python docs/images/debugger.py
"""

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "e2e"))

CELLS = (
    "%%distribute -n 4 --no-gpu\n"
    "import cellspan\n"
    "rank = cellspan.rank()\n"
    "\n"
    "def loss(step):\n"
    "    scale = 10 ** rank\n"
    "    return scale / (step + 1)\n"
    "\n"
    "print(loss(3))",
    "%ranks debug -r 2",
)
SIZE = "1300,800"


def pictured(lab):
    """Sets a breakpoint, runs the first cell, and chooses rank 2."""
    from processes import wait_until

    lab.driver.execute_script("document.querySelectorAll('.Toastify').forEach(e => e.remove())")
    lab.driver.execute_script("window.jupyterapp.shell.collapseLeft()")
    lab.break_at(0, 7)
    lab.driver.execute_script("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    lab.command("notebook:run-cell")
    if not wait_until(lambda: lab.all(".jp-DebuggerCallstackFrame"), 60):
        raise SystemExit("nothing stopped")
    lab.run(1, CELLS[1])
    if not wait_until(lambda: "[2]" in lab.prompt(1) and "100" in "".join(e.text for e in lab.all(".jp-DebuggerVariables-body")), 60):
        raise SystemExit("rank 2 is not shown")
    if not wait_until(lambda: "at a breakpoint" in lab.output(0), 60):
        raise SystemExit("the status does not say who stands: " + lab.output(0))


def main():
    import conftest  # noqa: F401 - says where Jupyter finds the kernelspec
    import test_lab
    from client import KERNEL

    import nbformat

    test_lab.FLAGS[:] = [flag for flag in test_lab.FLAGS if "window-size" not in flag] + ["--window-size=" + SIZE]
    with tempfile.TemporaryDirectory() as folder, test_lab.serving(pathlib.Path(folder)) as url:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
        notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
        nbformat.write(notebook, os.path.join(folder, "debugger.ipynb"))
        driver = test_lab.browser(pathlib.Path(folder))
        try:
            lab = test_lab.Lab(driver, url + "/lab/tree/debugger.ipynb?reset")
            pictured(lab)
            driver.save_screenshot(str(HERE / "lab-debugger.png"))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
