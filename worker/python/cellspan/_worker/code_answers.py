# SPDX-License-Identifier: BSD-3-Clause
"""Home's answers to ranks that ask about the notebook's code, beside the main thread: it may run a cell, or wait for the ranks.

The main thread may hold an import lock meanwhile, so nothing here may import: what is needed is imported with this module.
"""

from __future__ import annotations

import json
import os

from .. import _link
from .._base.errors import in_words
from .._capture import vars_bundle
from .._code import code_home, entries
from .message import Message

_begun = False


def begin():
    """From now on questions are answered."""
    global _begun

    if not _begun:
        _begun = True
        _link.finds(_take)


def _take():
    """Answers what has come. Its thread was not started by Python: see Subshells.take()."""
    while True:
        parts = _link.next_find()
        if parts is None:
            return
        message = Message._make(parts)
        try:
            if not message.cell:  # it is a rank's; the answer may take longer than ranks would wait
                _link.send("FOUND", 0, {**_question(message), "more": 1})
            try:
                _send(message, *_answer(message))
            except (ValueError, MemoryError) as error:  # it is too long
                _send(message, {"error": in_words(error)}, None)
        except _link.LinkDead:
            return


def _question(message):
    return {"what": message.fields["what"], "question": message.fields["question"]}


def _answer(message):
    try:
        if message.fields["what"] == "report":
            return {"text": code_home.report()}, None
        return code_home.answer(message.fields["what"], json.loads(message.fields["question"]))
    except Exception as error:  # noqa: BLE001 - the rank waits for an answer
        return {"error": in_words(error)}, None


def _send(message, content, data):
    fields = _question(message)
    try:
        fd, size = (-1, 0) if data is None else vars_bundle.sealed([data] if isinstance(data, bytes) else data)
    except OSError as error:  # there is no memory for it, or no descriptor
        content, fd, size = {"error": in_words(error)}, -1, 0
    try:
        fields.update(modules=content.pop("modules", 0), files=len(content.get("files", ())), content=json.dumps(content) if message.cell else entries.packed(content))
        _link.send("FOUND", message.cell, fields, message.blob if size else 0, fd, size)
    finally:
        if fd >= 0:
            os.close(fd)
