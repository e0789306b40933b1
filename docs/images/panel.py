# SPDX-License-Identifier: BSD-3-Clause
"""Makes lab-panel.png: the tabs of --merge panel in JupyterLab, in a headless Chromium. The cell is the guide's.

Wants what tests/e2e/test_lab.py wants, and in CELLSPAN_TEST_PREFIX the prefix into which the kernelspec was installed.

    CELLSPAN_TEST_PREFIX=PREFIX python docs/images/panel.py
"""

import os
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "e2e"))

SIZE = "1000,1000"


def cells():
    """The guide's cell, after one that gives `rank` a value."""
    text = (HERE.parent / "guide.md").read_text()
    return "%%distribute -n 4\nimport cellspan\nrank = cellspan.rank()", re.search(r"```python\n(%%distribute -n 4 --merge panel\n.*?)```", text, re.S)[1].rstrip()


def pictured(lab, wait_until):
    """Chooses the tab of rank 2 when the cell is done."""
    buttons = lab.driver.find_elements("css selector", ".cellspan-tabs input")
    buttons[3].click()
    if not wait_until(lambda: "rank 2 done" in lab.output(1) and "«image»" in lab.output(1), 60):
        raise SystemExit("no figure appeared: " + lab.output(1))


def main():
    import conftest  # noqa: F401 - says where Jupyter finds the kernelspec
    import test_lab
    from client import KERNEL
    from processes import wait_until

    import nbformat

    test_lab.FLAGS[:] = [flag for flag in test_lab.FLAGS if "window-size" not in flag] + ["--window-size=" + SIZE]
    with tempfile.TemporaryDirectory() as folder:
        with test_lab.serving(pathlib.Path(folder)) as url:
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells()])
            notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
            nbformat.write(notebook, os.path.join(folder, "tabs.ipynb"))
            driver = test_lab.browser(pathlib.Path(folder))
            try:
                lab = test_lab.Lab(driver, url + "/lab/tree/tabs.ipynb?reset")
                driver.execute_script("document.querySelectorAll('.Toastify').forEach(e => e.remove())")
                driver.execute_script("window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.collapseRight()")
                lab.command("runmenu:run-all")
                lab.wait_output(1, "ranks 0-3 done in", 100)
                pictured(lab, wait_until)
                driver.execute_script("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
                driver.save_screenshot(str(HERE / "lab-panel.png"))
            finally:
                driver.quit()


if __name__ == "__main__":
    main()
