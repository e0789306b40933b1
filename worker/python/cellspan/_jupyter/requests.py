# SPDX-License-Identifier: BSD-3-Clause
"""Jupyter's requests that only inspect the shell and run no cell: content in, content out."""

from __future__ import annotations

import inspect as _inspect
import re

from .. import _link
from .._base.errors import in_words, undefined


def _places(magic):
    """Expressions for the text of such a magic's line before a name of a variable."""
    if magic["names"]:
        yield rf"%{magic['name']}\b(?:.*[\s,])?"
    options = "|".join(option["name"] for option in magic["options"] if option["is_name"])
    if options:
        yield rf"%%?{magic['name']}\b.*--(?:{options})[ =](?:[\w,]*,)?"


# These patterns are compiled by the first request that needs them, for most kernels never get one.
# The line of a magic up to the cursor, where one of home's names is typed. (IPython would offer names of magics there.)
NAME = rf"[ \t]*({'|'.join(place for magic in _link.magics() for place in _places(magic))})(?P<name>\w*)$"
_PULLS = "|".join(magic["name"] for magic in _link.magics() if magic["names"] == "ranks")
PULLED = rf"[ \t]*%(?:{_PULLS})\b(?!.*--into[ =]\w*$)(?:.*[\s,])?(?P<name>\w*)$"  # the same for a name of the ranks
# Where a public module of cellspan, or a name of one, is imported. IPython looks only into cellspan's folder, where all modules are
# private, and jedi offers also what a module has imported for itself.
OURS = (
    r"(?:^|[\n;])[ \t]*(?:(?:import[ \t]+(?:[^\n;]*,[ \t]*)?|from[ \t]+)cellspan(?P<below>(?:\.[^\W_]\w*)*)\."
    r"|from[ \t]+cellspan(?P<of>(?:\.[^\W_]\w*)*)[ \t]+import(?:[ \t]+(?:[^\n;(]*[ \t,])?|[ \t]*\((?:[^()]*[\s,])?))(?P<name>\w*)\Z"
)
TYPES = "_jupyter_types_experimental"


def complete(shell, content):
    """complete_request. Positions are code points. Includes types and signatures that jedi or IPython knows."""
    from IPython.core.completer import provisionalcompleter, rectify_completions

    code, at = cursor(content)
    line = code[code.rfind("\n", 0, at) + 1 : at]
    named = re.match(NAME, line)
    if named:
        return names_reply(own_names(shell, named.group("name")), named.group("name"), at)
    ours = re.search(OURS, code[:at])
    if ours:
        return names_reply(names_to_import(**ours.groupdict()), ours.group("name"), at)
    with provisionalcompleter():
        try:
            found = list(rectify_completions(code, shell.Completer.completions(code, at)))
        except Exception:  # noqa: BLE001 - jedi fails on some code; names can still be completed
            return _complete_plainly(shell, code, at)
    types = [
        {"start": c.start, "end": c.end, "text": c.text, "type": c.type, "signature": getattr(c, "signature", "")}
        for c in found
    ]
    return {
        "status": "ok",
        "matches": [c.text for c in found],
        "cursor_start": found[0].start if found else at,
        "cursor_end": found[0].end if found else at,
        "metadata": {TYPES: types},
    }


def cursor(content):
    """(the request's code, where its cursor is)."""
    code, at = content.get("code", ""), content.get("cursor_pos")
    return code, len(code) if at is None else max(0, min(at, len(code)))


def own_names(shell, typed):
    """The user's own variables that begin with `typed`."""
    hidden = shell.user_ns_hidden
    own = [n for n, value in shell.user_ns.items() if isinstance(n, str) and (n not in hidden or value is not hidden[n])]
    return sorted(n for n in own if n.startswith(typed) and (typed or n[:1] != "_"))


def names_to_import(below, of, name):
    """What begins with `name`: the modules in cellspan, or in a package of it, such as ".maggy". below: this package. of: this package or
    module, whose other names are wanted, too. Private names are offered only where an underscore is typed."""
    import importlib
    import os
    import pkgutil

    import cellspan

    path = (below or of or "").split(".")
    found = {module.name for module in pkgutil.iter_modules([os.path.join(folder, *path) for folder in cellspan.__path__])}
    if of is not None:
        try:  # as IPython does for other modules
            module = importlib.import_module("cellspan" + of)
        except Exception:  # noqa: BLE001 - the user's import will raise it
            return []
        found.update(vars(module) if name.startswith("_") else (), dir(module))
    return sorted(one for one in found if one.startswith(name) and (name or one[0] != "_"))


def names_reply(names, typed, at):
    """A complete_reply that offers `names` in place of the typed text."""
    return {
        "status": "ok",
        "matches": names,
        "cursor_start": at - len(typed),
        "cursor_end": at,
        "metadata": {},
    }


def _complete_plainly(shell, code, at):
    start = code.rfind("\n", 0, at) + 1
    end = code.find("\n", at)
    line = code[start : end if end >= 0 else len(code)]
    text, matches = shell.complete("", line, at - start)
    return {
        "status": "ok",
        "matches": list(matches),
        "cursor_start": at - len(text),
        "cursor_end": at,
        "metadata": {},
    }


def inspect(shell, content):
    """inspect_request: describes the name at the cursor; detail_level 1 shows its source."""
    from IPython.utils.tokenutil import token_at_cursor

    code = content.get("code", "")
    at = content.get("cursor_pos")
    name = token_at_cursor(code, len(code) if at is None else at)
    options = {"detail_level": content.get("detail_level", 0)}
    if "omit_sections" in _inspect.signature(shell.object_inspect_mime).parameters:
        options["omit_sections"] = content.get("omit_sections", ())
    try:
        data = dict(shell.object_inspect_mime(name, **options))
    except KeyError:
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}
    if not shell.enable_html_pager:
        data.pop("text/html", None)
    return {"status": "ok", "found": True, "data": data, "metadata": {}}


def is_complete(shell, content):
    """is_complete_request: is the code complete, and how far must the next line be indented?"""
    state, indent = shell.input_transformer_manager.check_complete(content.get("code", ""))
    reply = {"status": state}
    if state == "incomplete":
        reply["indent"] = " " * (indent or 0)
    return reply


def history(shell, content):
    """history_request: tail, range or search."""
    manager = shell.history_manager
    how = content.get("hist_access_type")
    raw, output = content.get("raw", True), content.get("output", False)
    if how == "tail":
        lines = manager.get_tail(_number(content.get("n"), 10), raw=raw, output=output, include_latest=True)
    elif how == "range":
        session, start = content.get("session") or 0, content.get("start")
        lines = manager.get_range(session, 1 if start is None else start, content.get("stop"), raw=raw, output=output)
        lines = [(number or session, *rest) for number, *rest in lines]  # IPython returns 0 for the current session, even if asked by number
    elif how == "search":
        lines = manager.search(
            content.get("pattern") or "*", raw=raw, output=output, n=content.get("n"), unique=content.get("unique", False)
        )
    else:
        lines = []
    return {"status": "ok", "history": [list(line) for line in lines]}


def _number(value, otherwise):
    return otherwise if value is None else value


def expand(shell, content):
    """cellspan_expand: expands `{name}` and `$name` in a magic's line from the user's names. After an error the whole line stays
    as it is, as in IPython."""
    from IPython.utils.text import DollarFormatter

    text = content.get("text", "")
    try:
        return {"status": "ok", "text": DollarFormatter().vformat(text, args=[], kwargs=shell.user_ns)}
    except Exception as error:  # noqa: BLE001 - the braces may contain any expression
        name = getattr(error, "name", None) if type(error) is NameError else None
        return {"status": "ok", "text": text, "why": in_words(undefined(name, shell.user_ns) if name else error)[:300]}


SERVED = {
    "is_complete_request": is_complete,
    "history_request": history,
    "cellspan_expand": expand,
}
