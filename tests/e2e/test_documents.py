# SPDX-License-Identifier: BSD-3-Clause
"""Runs the pages for users, and README, from top to bottom: each block of Python is a cell, and its output stands below it.

A block ```python is run. A block ```text right below it is its expected output. Each page has a fresh notebook. Output that
differs between machines or runs is marked in one of these ways:

    …                               anything, any number of lines
    <!-- interrupted after 1 s -->  above a cell: it is interrupted when its ranks run
    <!-- asked meanwhile: … -->     above a cell: the output below is that of the cell `…`, run meanwhile; then the cell is interrupted
    <!-- numbers differ -->         above an output: each number in it may be different
    <!-- output differs -->         above an output: it is not compared

In every output, lines of ranks may come in any order, and process ids, memory addresses, folders, the machine's name
and durations may be different.
"""

from __future__ import annotations

import os
import pathlib
import re
import time

import pytest
from client import Notebook, by_rank
from torch_users import beforehand, used_by_text

pytestmark = pytest.mark.clients
TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"docs/tutorial.md": 12, "docs/guide.md": 15, "docs/machines.md": 2, "docs/failures.md": 15, "README.md": 3,
         "docs/howto/ddp.md": 3, "docs/howto/sweep.md": 2, "docs/howto/resume.md": 4, "docs/howto/script.md": 3}  # and the fewest blocks that one has
DIFFERS = re.compile(r"<!-- (numbers|output) differs? -->")
INTERRUPTED = re.compile(r"<!-- interrupted after [\d.]+ s -->")
MEANWHILE = re.compile(r"<!-- asked meanwhile: (.*) -->")
LABELLED = re.compile(r"^\[[\d,-]+\] ?.*\n?", re.M)


class Block:
    """A cell of a page. line: where it is. interrupted: is it to be interrupted? asked: the cell that runs meanwhile, or "". output: what
    the page has below it, or None."""

    def __init__(self, line, code, interrupted, asked):
        self.line, self.code, self.interrupted, self.asked = line, code, interrupted, asked
        self.output, self.differs = None, ""


def blocks_of(text):
    """The page's cells, in order."""
    found, differs, direct, interrupted, asked = [], "", False, False, ""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opened = re.match(r"^```(\w*)$", lines[at])
        if not opened:
            note, meanwhile = DIFFERS.fullmatch(lines[at]), MEANWHILE.fullmatch(lines[at])
            differs = note.group(1) if note else differs
            asked = meanwhile.group(1) if meanwhile else asked
            interrupted = interrupted or bool(INTERRUPTED.fullmatch(lines[at]))
            direct = direct and (not lines[at].strip() or bool(note) or bool(found[-1].asked))
            at += 1
            continue
        end = next(k for k in range(at + 1, len(lines)) if lines[k] == "```")
        body = "\n".join(lines[at + 1 : end])
        if opened.group(1) == "python":
            found.append(Block(at + 1, body, interrupted, asked))
            direct = True
        elif opened.group(1) == "text" and direct and found:
            found[-1].output, found[-1].differs = body, differs
            direct = False
        differs, interrupted, asked = "", False, ""
        at = end + 1
    return found


def same_everywhere(text):
    """Without what differs from machine to machine, and from run to run."""
    text = text.replace(os.uname().nodename, "vm")
    for pattern, instead in (
        (r"\x1b\[[0-9;]*m", ""),
        (r"\bpid \d+", "pid 1"),
        (r"\b0x[0-9a-f]+", "0x1"),
        (r"(?:~|\.{1,2})?(?:/[\w.+~-]+)+/(?=[\w.-]+)", "/"),
        (r"<ipython-input-\d+-[0-9a-f]+>", "<cell>"),
        (r'(File "/[^"]*", line )\d+', r"\g<1>1"),  # of a library, of which there may be another version
        (r"\b\d+(\.\d+)?(e-\d+)? ?(ms|s|µs|min)\b", "1 s"),
        (r"\b\d+:\d\d\b", "0:01"),
        (r"-{20,}", "---"),
        (r"[ \t]+$", ""),
        (r"(?<=\S) {2,}", "  "),
    ):
        text = re.sub(pattern, instead, text, flags=re.M)
    return text.strip("\n")


def lines_apart(text):
    """({rank: its labelled lines}, all that has no label)."""
    labelled = "".join(line if line.endswith("\n") else line + "\n" for line in LABELLED.findall(text))
    rest = re.sub(r"\n{2,}", "\n", LABELLED.sub("", text))
    return by_rank(labelled), rest.strip("\n")


def pattern_of(text, numbers):
    """The text, in one line, as a regular expression."""
    parts = [re.escape(part.strip()) for part in text.split("…")]
    if numbers:
        parts = [re.sub(r"(?:\d|\\\.)*\d", r"[\\d.]+", part) for part in parts]
    return r" ?.*? ?".join(parts)


def numbers_of(ranks):
    """{0, 1, 2, 4} of "0-2, 4"."""
    pairs = [part.split("-") for part in ranks.replace(" ", "").split(",")]
    return {k for pair in pairs for k in range(int(pair[0]), int(pair[-1]) + 1)}


def together(shown):
    """On a busy machine a rank may fail so late that its exception has a line of its own. A page shows the ranks together."""
    head = re.search(r"^(\w+) on ranks? ([\d, -]+) of \d+$", shown, re.M)
    late = head and re.search(r"^cellspan: also on ranks? ([\d, -]+): %s\b.*\n?" % head[1], shown, re.M)
    if not late:
        return shown
    ranks = numbers_of(head[2]) | numbers_of(late[1])
    if ranks != set(range(min(ranks), max(ranks) + 1)):
        return shown
    line = "%s on ranks %d-%d of %s" % (head[1], min(ranks), max(ranks), head[0].rpartition(" ")[2])
    return shown.replace(late[0], "", 1).replace(head[0], line, 1)


def alike(wanted, shown, differs=""):
    """Whether a cell showed what the page says."""
    if differs == "output":
        return True
    wanted, shown = same_everywhere(wanted), together(same_everywhere(shown))
    numbers = differs == "numbers"
    if "…" in wanted or numbers:
        return re.fullmatch(pattern_of(" ".join(wanted.split()), numbers), " ".join(shown.split())) is not None
    return lines_apart(wanted) == lines_apart(shown)


def shown_by(cell):
    """What a reader sees under the cell: without the status of one that takes long, which is drawn again and again."""
    parts = []
    for message in cell.messages:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            parts.append(content["text"])
        elif kind in ("display_data", "execute_result"):
            if "cellspan-status" not in content.get("transient", {}).get("display_id", ""):
                parts.append("\n%s\n" % content["data"].get("text/plain", ""))
        elif kind == "error":
            parts.append("\n%s\n" % "\n".join(content["traceback"]))
    return "".join(parts + [p["data"].get("text/plain", "") for p in cell.payloads if p.get("source") == "page"])


def ask_meanwhile(nb, block):
    """What another cell shows while the block's runs: the last, or the first that is as the page says."""
    cell = nb.start(block.code)
    nb.wait(cell, 60, lambda: "running" in cell.shown)
    asked = nb.run(block.asked)
    deadline = time.monotonic() + 60
    while not alike(block.output, shown_by(asked), block.differs) and time.monotonic() < deadline:
        asked = nb.run(block.asked)
    nb.control("interrupt_request")
    nb.wait(cell, 60)
    return asked


def run(nb, block):
    """The cell whose output stands below the block, at its end."""
    if block.asked:
        return ask_meanwhile(nb, block)
    if not block.interrupted:
        return nb.run(block.code, limit=150, answer="yes")
    cell = nb.start(block.code)
    nb.wait(cell, 60, lambda: "running" in cell.shown)  # its status says so: its ranks may have to start first
    nb.control("interrupt_request")
    return nb.wait(cell, 60)


@pytest.mark.limit(900)
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_does_what_the_page_says(page, tmp_path, torch, monkeypatch):
    wrong = []
    blocks = blocks_of((TOP / page).read_text(encoding="utf-8"))
    if page == "README.md":
        blocks = [b for b in blocks if "--on ssh:" not in b.code]  # hosts have tests of their own
    assert len(blocks) >= PAGES[page], "the page is not read any more"
    code = "\n".join(block.code for block in blocks)
    beforehand(monkeypatch, used_by_text(code), "torch._dynamo" if "optim" in code else "")
    nb = Notebook(cwd=str(tmp_path))
    try:
        for block in blocks:
            cell = run(nb, block)
            shown = shown_by(cell)
            if block.output is None:
                good = cell.status == "ok"
            else:
                good = alike(block.output, shown, block.differs)
            if not good:
                wrong.append("%s, line %d:\n%s\n--- the page says:\n%s\n--- the kernel:\n%s"
                             % (page, block.line, block.code, block.output, same_everywhere(shown)))
    finally:
        nb.close()
    assert not wrong, "%d of %d blocks differ:\n\n%s" % (len(wrong), len(blocks), "\n\n".join(wrong))
