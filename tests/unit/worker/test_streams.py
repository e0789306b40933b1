# SPDX-License-Identifier: BSD-3-Clause
"""The streams of a worker, and what a cell does with the buffers below them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, io, os, sys
from cellspan._worker.streams import Streams

streams = Streams()

def cell(number, text):
    streams.begin(number)
    exec(text, globals())
    streams.end(number)
    os.write(1, f"<{number}>".encode())

def main(text):
    cell(1, text)
    gc.collect()
    cell(2, "print('later'); print('error', file=sys.__stderr__)")
    sys.stdout, sys.stderr = streams.out, streams.err
    cell(3, "print('last')")
"""

WRAP = "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')"


@pytest.mark.parametrize("code", [
    "def f():\n    out = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\n    print('x', file=out)\nf()",
    f"{WRAP}\n{WRAP}\nprint('x')",
    f"{WRAP}\nprint('x')",
    "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\nprint('x')",
    "print('x')\nsys.stdout.detach()",
    "print('x')\nsys.stdout.buffer.detach()",
    "print('x')\nsys.stdout.buffer.close()",
    "print('x')\nsys.stdout.flush()\nsys.stdout.buffer.raw.close()",
    "print('x')\nsys.stdout.close()",
    "sys.stdout.write('x\\n')\nsys.stderr = io.TextIOWrapper(sys.stderr.buffer)\nsys.stderr = None",
    "print('x')\nsys.stdout = None",
])
def test_later_cells_can_print_whatever_a_cell_closes(code):
    done = subprocess.run([sys.executable, "-c", f"{PROGRAM}\nmain({code!r})"], capture_output=True, text=True, timeout=120)
    hidden = code.endswith("stdout = None")
    assert done.stdout == ("x\n<1><2>last\n<3>" if hidden else "x\n<1>later\n<2>last\n<3>")
    assert done.stderr == "error\n"
    assert done.returncode == 0
