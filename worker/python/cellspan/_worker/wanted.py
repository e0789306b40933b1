# SPDX-License-Identifier: BSD-3-Clause
"""Which modules CELLSPAN_PRELOAD wants to be imported before ranks are forked."""

from __future__ import annotations

PRELOAD = ("cloudpickle", "numpy", "numpy.random", "torch", "torch.distributed")


class Wanted:
    """What CELLSPAN_PRELOAD wants. asked: modules that are to be imported. without: packages that are not to be imported, written with "-"
    before the name. idle: those packages of `without` that nothing would import. modules: all that are to be imported, ours first."""

    def __init__(self, setting):
        names = [name.strip() for name in setting.split(",")]
        self.without = [name[1:].strip() for name in names if name.startswith("-")]
        self.asked = [name for name in names if name and not name.startswith("-") and package_of(name) not in self.without]
        ours = [name for name in PRELOAD if package_of(name) not in self.without]
        self.modules = list(dict.fromkeys([*ours, *self.asked]))
        self.packages = {package_of(name) for name in (*PRELOAD, *names) if not name.startswith("-")}
        self.idle = [name for name in self.without if name not in self.packages]


def package_of(name):
    return name.partition(".")[0]
