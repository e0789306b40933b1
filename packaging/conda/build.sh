#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What conda runs in its build folder: pip lays out $PREFIX as everywhere else, with the kernelspec.
set -ex
INSTALL_COMMAND="conda install cellspan" "$PYTHON" -m pip install . --no-deps --no-build-isolation --no-index -vv
