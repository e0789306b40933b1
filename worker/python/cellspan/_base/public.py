# SPDX-License-Identifier: BSD-3-Clause
"""What dir() and Tab show of a public module: its interface, not what it imports for itself."""

from __future__ import annotations

import types


def directory(names):
    """The __dir__ of a module. names: its globals()."""

    def inside():
        """Its modules that were imported; Python makes them attributes of a package."""
        for name, value in names.items():
            if type(value) is types.ModuleType and value.__name__ == f"{names['__name__']}.{name}" and name[0] != "_":
                yield name

    return lambda: sorted({*names["__all__"], *inside()})
