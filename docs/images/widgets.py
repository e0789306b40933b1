# SPDX-License-Identifier: BSD-3-Clause
"""Makes lab-widgets.png: JupyterLab in a headless Chromium, with widgets of four ranks.

Wants what tests/e2e/test_lab.py wants: Chromium with its driver, and in CELLSPAN_TEST_PREFIX the prefix into which the
kernelspec was installed.

    CELLSPAN_TEST_PREFIX=PREFIX python docs/images/widgets.py
"""

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "e2e"))

CELLS = (
    "%%distribute -n 4\n"
    "import cellspan, ipywidgets, time\n"
    "from IPython.display import display\n"
    "from tqdm.notebook import tqdm\n"
    "rank = cellspan.rank()\n"
    "rate = ipywidgets.FloatSlider(0.1 * (rank + 1), max=1, description=f'rate of {rank}')\n"
    "said = ipywidgets.Label()\n"
    "def moved(change):\n"
    "    said.value = f'rank {rank} continues with {change[\"new\"]:.1f}'\n"
    "rate.observe(moved, 'value')\n"
    "display(ipywidgets.HBox([rate, said]))",
    "%%distribute\n"
    "for step in tqdm(range(60), desc=f'rank {rank}'):\n"
    "    time.sleep(0.02 * (rank + 1))",
)
SIZE = "1100,1010"


def pictured(lab):
    """Runs the cells, and moves the slider of rank 2."""
    from processes import wait_until
    from selenium.webdriver.common.keys import Keys

    lab.driver.execute_script("document.querySelectorAll('.Toastify').forEach(e => e.remove())")
    lab.driver.execute_script("window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.collapseRight()")
    lab.command("runmenu:run-all")
    if not wait_until(lambda: len(lab.all(".noUi-handle", lab.cell(0))) == 4 and "[*]" not in lab.prompt(1) and "[2]" in lab.prompt(1), 90):
        raise SystemExit("the widgets did not appear: " + lab.output(0))
    row = next(e for e in lab.all(".jp-OutputArea-output", lab.cell(0)) if "rate of 2" in e.text)
    handle = lab.all(".noUi-handle", row)[0]
    lab.driver.execute_script("arguments[0].focus()", handle)
    handle.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    if not wait_until(lambda: "rank 2 continues with" in lab.output(0), 60):
        raise SystemExit("the slider did not move")


def main():
    import conftest  # noqa: F401 - says where Jupyter finds the kernelspec
    import test_lab
    from client import KERNEL

    import nbformat

    test_lab.FLAGS[:] = [flag for flag in test_lab.FLAGS if "window-size" not in flag] + ["--window-size=" + SIZE]
    with tempfile.TemporaryDirectory() as folder, test_lab.serving(pathlib.Path(folder)) as url:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
        notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
        nbformat.write(notebook, os.path.join(folder, "widgets.ipynb"))
        driver = test_lab.browser(pathlib.Path(folder))
        try:
            lab = test_lab.Lab(driver, url + "/lab/tree/widgets.ipynb?reset")
            pictured(lab)
            driver.save_screenshot(str(HERE / "lab-widgets.png"))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
