# SPDX-License-Identifier: BSD-3-Clause
"""Servers that run cells themselves and keep the outputs in a document that clients share: what stands in it, for a client in its room
and in the file. They apply no updates of displays, so there are no tabs and no status, and of a progress bar there is the last state."""

from __future__ import annotations

import contextlib
import re

import nbformat
import pytest
from documents import Room
from jupyter_server_documents.rooms.ynotebook_room import _source_hash
from test_other_clients import PLAIN, RANKS, Server, text_of, until

LINES = "\nimport os, time\nfor k in range(4):\n    print('rank', os.environ['RANK'], 'line', k, flush=True)\n    time.sleep(1)"
LONG, TABS = RANKS.partition("\n")[0] + LINES, RANKS.partition("\n")[0] + " --merge panel" + LINES
BAR = RANKS.partition("\n")[0] + ("\nimport sys, time\nfor k in range(4):\n    sys.stderr.write('\\r%d of 3' % k)\n    sys.stderr.flush()\n"
                                   "    time.sleep(0.7)\nsys.stderr.write('\\n')")
ERROR = "%%distribute -n 2 --no-gpu\n1 / 0"


class Documents:
    """jupyter-server-documents."""

    EXTENSIONS = "jupyter_server_documents", "jupyter_server_fileid"

    def __init__(self, server):
        self.server = server
        self.room = "json:notebook:" + server.ask("POST", "/api/fileid/index?path=a.ipynb").json()["id"]
        self.query = ""

    def execute(self, kernel, cells):
        wanted = [{"cell_id": cell.id, "source_hash": _source_hash(cell.source)} for cell in cells]
        answer = self.server.ask("POST", f"/api/kernels/{kernel}/execute", json={"document_id": self.room, "cells": wanted})
        assert answer.ok, answer.text


class Collaboration:
    """jupyter-collaboration, with jupyter-server-nbmodel, by which its server runs cells."""

    EXTENSIONS = "jupyter_server_ydoc", "jupyter_server_nbmodel", "jupyter_server_fileid"

    def __init__(self, server):
        self.server = server
        session = server.ask("PUT", "/api/collaboration/session/a.ipynb", json={"format": "json", "type": "notebook"}).json()
        self.room = "json:notebook:" + session["fileId"]
        self.query = "?sessionId=" + session["sessionId"]

    def execute(self, kernel, cells):
        for cell in cells:
            what = {"code": cell.source, "metadata": {"cell_id": cell.id, "document_id": self.room}}
            answer = self.server.ask("POST", f"/api/kernels/{kernel}/execute", json=what)
            assert answer.status_code == 202, answer.text


@contextlib.contextmanager
def executed(kind, folder, *codes):
    """The cells in the room when all were executed, and a function for those in the file."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    nbformat.write(notebook, folder / "a.ipynb")
    server = Server(folder, *kind.EXTENSIONS)
    kernels = []
    try:
        session = {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": {"name": "cellspan"}}
        answer = server.ask("POST", "/api/sessions", json=session)
        assert answer.ok, answer.text
        kernels.append(answer.json()["kernel"]["id"])
        document = kind(server)
        with contextlib.closing(Room(f"ws://127.0.0.1:{server.port}/api/collaboration/room/{document.room}{document.query}", server.token)) as room:
            until(lambda: len(room.cells()) == len(codes), "the notebook does not come")
            document.execute(kernels[0], notebook.cells)
            until(lambda: all(cell["execution_count"] for cell in room.cells()), "a cell was not executed")

            def stored():
                """The server answers with an error while it writes the file."""
                return server.ask("GET", "/api/contents/a.ipynb").json().get("content", {"cells": []})["cells"]

            yield room.cells, stored
    finally:
        server.close(*kernels)


def without_transient(cells):
    """What is in both: in a room, a stream may stand in several outputs, but in their order."""
    return [(cell["execution_count"], [output["output_type"] for output in cell["outputs"]], text_of(cell["outputs"])) for cell in cells]


@pytest.mark.parametrize("kind", [Documents, Collaboration])
def test_outputs_stand_in_the_shared_document_and_in_the_file(kind, tmp_path):
    with executed(kind, tmp_path, PLAIN, RANKS, LONG, TABS, BAR, ERROR) as (cells, stored):
        plain, ranks, long, tabs, bar, error = (cell["outputs"] for cell in cells())
        assert text_of(plain) == "plain 42\n"
        assert sorted(text_of(ranks).splitlines()) == ["[0] rank 0", "[1] rank 1"]
        for outputs in (long, tabs):
            assert {output["output_type"] for output in outputs} == {"stream"}, outputs
            assert sorted(text_of(outputs).splitlines()) == [f"[{r}] rank {r} line {k}" for r in range(2) for k in range(4)]
        assert len(re.findall(r"3 of 3", text_of(bar))) == 1 and "0 of 3" not in text_of(bar), bar
        assert error[-1]["ename"] == "ZeroDivisionError", error
        until(lambda: without_transient(stored()) == without_transient(cells()), "the file has other outputs")
