# SPDX-License-Identifier: BSD-3-Clause
"""Home's answers to ranks that ask about the notebook's code, beside the main thread: it may run a cell, or wait for the ranks.

The main thread may hold an import lock meanwhile, so nothing here may import: what is needed is imported with this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

from .. import _link
from .._base import threads
from .._base.errors import in_words
from .._capture import vars_bundle
from .._code import code_home, entries
from .message import Message

NO_MEMORY = '{"error": "home has no memory for the answer"}'
WORD_S = 5  # seconds between two words that an answer is under way

_begun = False
_at_work = threading.Event()


def begin():
    """From now on questions are answered."""
    global _begun

    if not _begun:
        _begun = True
        with contextlib.suppress(RuntimeError):  # no thread can be started: ranks wait for an answer as long as after one word
            threads.begin("at-work", _say_at_work)
        _link.finds(_take)


def _say_at_work():
    """Says again and again that ranks may wait. Nothing is said while a call at home keeps the interpreter's lock."""
    while True:
        _at_work.wait()
        time.sleep(WORD_S)
        if _at_work.is_set():
            try:
                _link.send("FOUND", 0, {"more": 1})
            except _link.LinkDead:
                return
            except Exception:  # noqa: BLE001 - no memory; the next word may find some
                continue


def _take():
    """Answers what has come. Its thread was not started by Python: see Subshells.take()."""
    while True:
        parts = _link.next_find()
        if parts is None:
            return
        message = Message._make(parts)
        try:
            if not message.cell:  # it is a rank's; the answer may take longer than ranks would wait
                _at_work.set()
                _link.send("FOUND", 0, {**_question(message), "more": 1})
            _reply(message)
        except _link.LinkDead:
            return
        except Exception:  # noqa: BLE001 - there is no memory; the rank does not wait for ever
            continue
        finally:
            _at_work.clear()


def _reply(message):
    """Answers, with an error if need be: the rank waits."""
    try:
        _send(message, *_answer(message))
        return
    except _link.LinkDead:
        raise
    except Exception as error:  # noqa: BLE001 - it is too long, or there is no memory for it
        why = error
    try:
        _send(message, {"error": in_words(why)}, None)
    except _link.LinkDead:
        raise
    except Exception:  # noqa: BLE001 - there is no memory for that, either
        _link.send("FOUND", message.cell, {**_question(message), "content": NO_MEMORY})


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
