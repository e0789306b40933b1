# SPDX-License-Identifier: BSD-3-Clause
"""Questions to ranks that run nothing: home asks which of them have a name, and asks rank 0 to complete or explain one. Nobody
waits for long: the kernel uses the answers of the first moment, and interrupts the others when a cell comes. Before others start
on the same GPUs, the kernel asks how much of their memory the ranks keep; before it takes idle ranks off their GPUs, whether they can go.
"""

from __future__ import annotations

import re
import sys
import types

from .._base.errors import text_of
from .._jupyter import requests

UNDEFINED = re.compile(r"name '(\w+)' is not defined")

# ---- on a rank: answers ----------------------------------------------------------------------------------------------


def _have(shell, asked):
    names = [name for name in asked["names"] if name in requests.own_names(shell, name)]
    values = {name: shell.user_ns.get(name) for name in names}
    return {"names": names, "modules": {name: value.__name__ for name, value in values.items() if isinstance(value, types.ModuleType)}}


def _names(shell, asked):
    return {"names": requests.own_names(shell, asked["typed"])}


def _complete(shell, asked):
    shell.Completer.use_jedi = False  # it would take seconds
    return requests.complete(shell, asked)


def _room(shell, asked):
    """Gives back the GPU memory that torch keeps but does not use. The answer is what it keeps still, in bytes."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {"kept": 0}
    cuda.empty_cache()
    return {"kept": sum(cuda.memory_reserved(device) for device in range(cuda.device_count()))}


def _park(shell, asked):
    """Before the rank leaves its GPUs: torch gives back what it does not use, and says whether NCCL connects the rank with others."""
    from . import aborts

    _room(shell, asked)
    distributed = sys.modules.get("torch.distributed")
    return {"nccl": bool(aborts.backends(distributed)) and distributed.get_world_size() > 1}


SERVED = {"have": _have, "names": _names, "complete": _complete, "inspect": requests.inspect, "room": _room, "park": _park}

# ---- at home ---------------------------------------------------------------------------------------------------------


def hint(home, error):
    """The line below a NameError at home for a name that ranks have, as a list; [] if there is none."""
    found = UNDEFINED.match(text_of(error)) if type(error) is NameError else None
    if found is None:
        return []
    name = found.group(1)
    answers = home.ask_ranks("have", {"names": [name]}, everybody=True)()
    having = [rank for rank, answer in answers if answer["names"]]
    if not having:
        return []
    module = next((answer["modules"][name] for _, answer in answers if name in answer["modules"]), None)
    if module is not None:  # each process imports it by itself
        return [f"ranks have imported it: import {module}" + (f" as {name}" if name != module else "")]
    who = f"ranks {ranges(having)} have" if len(having) > 1 else f"rank {having[0]} has"
    where = "" if len(having) == len(answers) else f" -r {ranges(having)}"
    return [f"{who} it: %pull {name}{where}"]


def ranges(numbers):
    """[0, 1, 2, 5] as "0-2,5"."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def complete(home, content):
    """complete_request at home, with rank 0's names where these are meant."""
    code, at = requests.cursor(content)
    pulled = re.match(requests.PULLED, code[code.rfind("\n", 0, at) + 1 : at])
    if pulled:
        return _complete_pulled(home, pulled.group("name"), at)
    theirs = _asked(home, "complete", content, code, at)
    own = home.jedi.complete(content)
    return _merged(own, next(iter(theirs()), None)) if theirs else own


def _complete_pulled(home, typed, at):
    for answer in map(_answer, home.ask_ranks("names", {"typed": typed})()):
        return requests.names_reply(answer["names"], typed, at)
    return requests.names_reply(requests.own_names(home.shell, typed), typed, at)


def inspect(home, content):
    """inspect_request at home: in a distributed cell, rank 0's answer comes first."""
    theirs = _asked(home, "inspect", content, *requests.cursor(content))
    for answer in map(_answer, theirs() if theirs else ()):
        if answer.get("found"):
            return answer
    return requests.inspect(home.shell, content)


def _answer(pair):
    return pair[1]


def _asked(home, what, content, code, at):
    """Asks rank 0. Returns a function that waits for the answer; None: the cursor is not in a distributed cell."""
    head = _head(code)
    if head == 0 or at < head:
        return None
    # The rank must not see the kernel's magics: replaces the lines above by comments of the same length.
    hidden = "\n".join("#" * len(line) for line in code[:head].split("\n"))
    return home.ask_ranks(what, dict(content, code=hidden + code[head:], cursor_pos=at))


def _head(code):
    """The offset of the text below `%%distribute`; 0: the cell does not start with it."""
    at = 0
    for line in code.splitlines(keepends=True):
        at += len(line)
        word = line.split(None, 1)[0] if line.strip() else ""
        if word == "%%distribute":
            return at if line.endswith("\n") else 0
        if word and not word.startswith("#") and not word.startswith("%%"):
            return 0
    return 0


def _merged(own, answer):
    """Joins the matches of both if they are for the same range; otherwise returns the rank's, if it has some."""
    theirs = answer[1] if answer else {}
    if not theirs.get("matches"):
        return own
    if own["matches"] and (own["cursor_start"], own["cursor_end"]) == (theirs["cursor_start"], theirs["cursor_end"]):
        types = {row["text"]: row for reply in (theirs, own) for row in reply["metadata"].get(requests.TYPES, ())}
        matches = list(dict.fromkeys([*theirs["matches"], *own["matches"]]))
        return dict(own, matches=matches, metadata={requests.TYPES: [types[m] for m in matches if m in types]})
    return theirs
