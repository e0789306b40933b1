"""The systems that are measured side by side, and a notebook on each."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))

import client  # noqa: E402  (from the end-to-end tests)
from jupyter_client.kernelspec import KernelSpecManager  # noqa: E402

LINES = (
    "# floor: lines {n} {width}\n"
    "for i in range({n}):\n"
    "    print(('%07d ' % i).ljust({width} - 1, 'x'){flush})\n"
)


def settings():
    """Empty settings of IPython and Jupyter, for all that is started from here."""
    folder = tempfile.TemporaryDirectory(prefix="cellspan-bench-")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        os.environ[name] = os.path.join(folder.name, name.lower())
        os.makedirs(os.environ[name], mode=0o700)
    # The floor is a kernelspec of this process only.
    kernels = os.path.join(folder.name, "kernels", "floor")
    os.makedirs(kernels)
    with open(os.path.join(kernels, "kernel.json"), "w") as file:
        argv = [sys.executable, os.path.join(HERE, "floor.py"), "{connection_file}"]
        json.dump({"argv": argv, "display_name": "floor", "language": "python"}, file)
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder.name, os.environ.get("JUPYTER_PATH")]))
    return folder


def installed(kernels):
    found = KernelSpecManager().find_kernel_specs()
    return [kernel for kernel in kernels if kernel in found]


@contextlib.contextmanager
def notebook(kernel):
    """A client.Notebook on a new kernel; its processes are ended at last."""
    opened = client.Notebook(kernel)
    try:
        yield opened
    finally:
        opened.close()


class Cellspan:
    name, kernel = "cellspan", "cellspan"

    def setup(self, n):
        return []

    def wrap(self, n, body):
        return "%%%%distribute -n %d\n%s" % (n, body)


class IPyParallel:
    name, kernel = "ipyparallel", "python3"

    def setup(self, n):
        return [
            "import ipyparallel as ipp\ncluster = ipp.Cluster(n=%d)\nrc = cluster.start_and_connect_sync()\nrc.activate()\n"
            "_ = rc[:].scatter('rank', range(%d), flatten=True, block=True)" % (n, n)
        ]

    def wrap(self, n, body):
        return "%%px\n" + body


FANOUTS = {s.name: s for s in (Cellspan(), IPyParallel())}
KERNELS = ["floor", "python3", "xpython", "cellspan"]


def versions():
    names = ("ipykernel", "xeus-python", "ipyparallel", "ipython", "jupyter_client", "nbclient", "torch")
    found = {"python": sys.version.split()[0]}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
