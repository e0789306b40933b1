#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the table of a cell's states in docs/architecture.md with the one in the kernel. Prints TAP."""
import os
import pathlib
import re

TOP = pathlib.Path(os.environ.get("top_srcdir", "."))


def rows_of_source():
    source = next((TOP / "kernel").rglob("*steps.c")).read_text()
    rows = re.findall(r"\{ &cell_(\w+), CELL_(\w+), &cell_(\w+) \}", source)
    return [(start.upper(), outcome, to.upper()) for start, outcome, to in rows]


def states_of_kernel():
    """Those that the kernel's files define, and which file it is."""
    files = {str(path.relative_to(TOP)): path.read_text() for path in (TOP / "kernel").rglob("*.c")}
    return {name.upper(): path for path, text in files.items() for name in re.findall(r"^(?:static )?const struct cell_step cell_(\w+) =", text, re.M)}


def rows_of_document():
    text = (TOP / "docs/architecture.md").read_text()
    table = re.search(r"\| state \| how it ends \| next state \| file \|\n\| --- .*\n((?:\|.*\n)+)", text)[1]
    return [tuple(word.strip() for word in line.strip("|\n").split("|")) for line in table.splitlines()]


source, document, states = rows_of_source(), rows_of_document(), states_of_kernel()
reached = {to for _, _, to in source} | {"EXPANDING"}
checks = [
    (len(source) > 20, "the source has a table"),
    (source == [row[:3] for row in document], "docs/architecture.md shows the same rows"),
    (all(row[3].startswith(f"`{states.get(row[0])}`") for row in document), "and each row names the file that has the state"),
    (reached == set(states), "each state is reached"),
    ({start for start, _, _ in source} == set(states) - {"OVER"}, "each state but the last goes on"),
    (len({row[:2] for row in source}) == len(source), "no state ends twice in one way"),
]
for number, (right, what) in enumerate(checks, 1):
    print(f"{'ok' if right else 'not ok'} {number} - {what}")
print(f"1..{len(checks)}")
