# SPDX-License-Identifier: BSD-3-Clause
"""A notebook's namespace without a kernel, and another process that unpickles what was pickled in it."""

import os
import subprocess
import sys

from cellspan._capture import vars_bundle

LOADER = """
import sys
from cellspan._capture import vars_bundle
ns = sys.modules["__main__"].__dict__
values = vars_bundle.unpack(int(sys.argv[1]), int(sys.argv[2]), ns)
ns.update(values)
exec(compile(sys.argv[3], "<cell>", "exec"), ns)
"""


class Notebook:
    """Cells are executed in __main__'s namespace, as IPython does; names that were added are taken out by close()."""

    def __init__(self):
        self.ns = sys.modules["__main__"].__dict__
        self.before = dict(self.ns)
        self.capture = None  # a Capture that is told of the cells

    def run(self, code):
        if self.capture is not None:
            self.capture.began()
        exec(compile(code, "<cell>", "exec"), self.ns)
        if self.capture is not None:
            self.capture.ran(code, True)

    def close(self):
        self.ns.clear()
        self.ns.update(self.before)

    def pack(self, *names):
        return vars_bundle.pack({name: self.ns[name] for name in names}, self.ns)

    def elsewhere(self, names, code, **options):
        """Packs the names, runs code with them in a process of its own, and returns what it printed."""
        return load_elsewhere(*self.pack(*names.split()), code, **options)


def load_elsewhere(fd, size, code, **options):
    """Loads a bundle in another process and runs code there; returns its output. Closes fd."""
    try:
        command = [sys.executable, "-c", LOADER, str(fd), str(size), code]
        done = subprocess.run(command, pass_fds=[fd], capture_output=True, text=True, timeout=120, **options)
    finally:
        os.close(fd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def round_trip(value, ns=None):
    """The value through a bundle, in this process."""
    fd, size = vars_bundle.pack(value, ns)
    try:
        return vars_bundle.unpack(fd, size, ns)
    finally:
        os.close(fd)
