# SPDX-License-Identifier: BSD-3-Clause
"""Runs an engine: `PYTHON …/cellspan/_launch/__main__.py NAME [--spec SPEC] [--ranks N] -- COMMAND [ARG...]`."""
import os
import sys

if __name__ == "__main__":
    # The engines have the names of the packages that they use. So this folder must not be on the path. The package comes last, but another
    # version on PYTHONPATH is not taken for it.
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(here))
    others = [path for path in sys.path if path != here]
    if os.path.exists(os.path.join(package, os.pardir, "no-bytecode")):
        sys.dont_write_bytecode = True  # pip would not remove it
    sys.path[:] = [package, *others]
    import cellspan  # noqa: F401 - from its folder

    sys.path[:] = [*others, package]
    from cellspan._launch import launcher

    launcher.run(sys.argv[1], sys.argv[2:])
