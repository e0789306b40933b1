# SPDX-License-Identifier: BSD-3-Clause
"""Makes lab-two-hosts.png: JupyterLab in a headless Chromium, with ranks on two hosts that tests/engines brings up.

Wants what tests/e2e/test_lab.py and test_hosts.py want: root, sshd, Chromium with its driver, and in
CELLSPAN_TEST_PREFIX the prefix into which the kernelspec was installed.

    CELLSPAN_TEST_PREFIX=PREFIX python docs/images/two_hosts.py
"""

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "e2e"))

CELLS = (
    "%%distribute -n 4 --on ssh:h1,h2\n"
    "import os, platform, time\n"
    "rank = int(os.environ['RANK'])\n"
    "print('hello from', platform.node())",
    "%ranks",
    "%%distribute --gather --into squares\nrank ** 2",
    "%%distribute\n"
    "print('step', 1)\n"
    "time.sleep(0 if rank == 1 else 60)",
)
SIZE = "1100,1010"


def pictured(lab):
    """Runs the cells; the last one is running, with its status, when this returns."""
    from processes import wait_until

    lab.driver.execute_script("document.querySelectorAll('.Toastify').forEach(e => e.remove())")
    lab.driver.execute_script("window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.collapseRight()")
    lab.command("runmenu:run-all")
    if not wait_until(lambda: "1 done" in lab.output(len(CELLS) - 1), 90):
        raise SystemExit("no status appeared: " + lab.output(len(CELLS) - 1))


def main():
    import conftest  # noqa: F401 - says where Jupyter finds the kernelspec
    import test_lab
    from client import KERNEL
    from engines import Hosts

    import nbformat

    test_lab.FLAGS[:] = [flag for flag in test_lab.FLAGS if "window-size" not in flag] + ["--window-size=" + SIZE]
    test_lab.CELLS[:] = CELLS
    with Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
        os.environ.update(hosts.variables())
        with test_lab.serving(pathlib.Path(folder)) as url:
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
            notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python (cellspan)", "language": "python"}
            nbformat.write(notebook, os.path.join(folder, "two_hosts.ipynb"))
            driver = test_lab.browser(pathlib.Path(folder))
            try:
                lab = test_lab.Lab(driver, url + "/lab/tree/two_hosts.ipynb?reset")
                pictured(lab)
                driver.save_screenshot(str(HERE / "lab-two-hosts.png"))
                lab.command("notebook:interrupt-kernel")
            finally:
                driver.quit()


if __name__ == "__main__":
    main()
