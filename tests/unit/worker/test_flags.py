# SPDX-License-Identifier: BSD-3-Clause
"""Flags and messages: the numbers of protocol/README.md reach Python by name, and Python has no others of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import cellspan
from cellspan import _link
from cellspan._worker.message import decoded

README = Path(__file__).parents[3] / "protocol" / "README.md"
ROW = re.compile(r"^\| ([A-Z_]+) \| (\w+) \| ([A-Z_]+) \| (\d+) \| ", re.MULTILINE)
FIELDS = {"flags", "how", "role", "share", "code"}  # of messages, whose values have names
MODULES = sorted(Path(cellspan.__file__).parent.rglob("*.py"))


def parts(side):
    """The constants that a side is, or that it lists."""
    return [part for part in (side, *getattr(side, "elts", ())) if isinstance(part, ast.Constant)]


def numbers(tree):
    """Comparisons and combinations of such a field with a number other than 0."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            sides = [node.left, node.right]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            sides = [node.target, node.value]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        else:
            continue
        named = any(re.search(r"\b(%s)\b" % "|".join(FIELDS), ast.unparse(side)) for side in sides)
        if named and any(type(part.value) is int and part.value for side in sides for part in parts(side)):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_python_has_the_flags_of_the_readme():
    text = README.read_text(encoding="utf-8")
    rows = ROW.findall(text[text.index("<!-- flags:") : text.index("\n## What they mean")])
    wanted = {name: int(value) for _, _, name, value in rows}
    assert len(wanted) == len(rows) > 40
    numbers = {name: value for name, value in vars(_link).items() if type(value) is int and not name.startswith("ZYGOTE_")}
    for part, name in enumerate(("ALL", "ANSWERS", "CALLS", "SUBSHELLS")):
        assert numbers.pop(name) == part
    for bit, name in enumerate(("INTERRUPT", "LATE", "OVER")):  # of why()
        assert numbers.pop(name) == 1 << bit
    del numbers["STACKS_SIGNAL"]  # a signal's number, which the system chooses
    assert numbers == wanted


def test_every_flag_that_python_uses_is_there():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\b_link\.([A-Z][A-Z_]+)\b", text):
            assert hasattr(_link, name), (path, name)
        assert list(numbers(ast.parse(text))) == [], path


def test_the_parts_of_a_message_have_names():
    message = decoded(_link.encode("RUN", 5, {"flags": _link.RUN_STDIN}, worker=2, blob=7, size=9))
    assert (message.kind, message.cell, message.worker, message.blob, message.fd, message.size) == ("RUN", 5, 2, 7, -1, 9)
    assert message.fields["flags"] == _link.RUN_STDIN
