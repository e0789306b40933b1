# SPDX-License-Identifier: BSD-3-Clause
"""The option lines of magics that are written in Python. Those of magics/ are parsed by the kernel, in the same form."""

from __future__ import annotations

from typing import NamedTuple

from .. import _link


class Option(NamedTuple):
    """A row of a magic's table."""

    flags: tuple  # ("-t", "--targets")
    name: str  # in the result
    value: str = ""  # what the user gives, for the help: "SPEC"; "": the option takes no value
    help: str = ""
    sets: object = True  # what an option without value sets


def parse(magic, line, table):
    """(options, rest): {name: text, or what a flag sets} of the options at the start of the line, and the text behind them.

    Raises IPython's UsageError for an option that is not in the table or lacks its value. `--` ends the options.
    """
    known = {flag: row for row in table for flag in row.flags}
    found, rest = {}, line.lstrip()
    while rest.startswith("-") and len(rest) > 1:
        word, rest = _word(rest)
        if word == "--":
            break
        flag, equals, value = word.partition("=")
        if flag not in known and not flag.startswith("--") and word[:2] in known and known[word[:2]].value:
            flag, equals, value = word[:2], "=", word[2:]
        row = known.get(flag) or _refuse(magic, flag, known)
        if not row.value:
            if equals:
                _fail(f"{magic}: {flag} takes no value, but got {value!r}")
            found[row.name] = row.sets
            continue
        if not equals:
            value, rest = _word(rest) if rest else ("", "")
        if not value:
            _fail(f"{magic}: {flag} needs a value: {flag} {row.value}")
        found[row.name] = value
    return found, rest


def usage(form, about, table):
    """The text of --help."""
    rows = [("  " + ", ".join(row.flags) + (f" {row.value}" if row.value else ""), row.help) for row in table]
    width = max(len(left) for left, _ in rows) + 2
    return "\n".join([form, "", about, "", *(left.ljust(width) + right for left, right in rows)])


def _word(text):
    """The first word, without its quotes, and the rest."""
    word, quote, at = [], "", 0
    for at, char in enumerate(text):
        if quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "'\"":
            quote = char
        elif char.isspace():
            return "".join(word), text[at:].lstrip()
        else:
            word.append(char)
    if quote:
        _fail(f"{text}: a quote is not closed")
    return "".join(word), ""


def _refuse(magic, flag, known):
    try:
        bare = {name.lstrip("-"): name for name in known}  # with their dashes, any two options would be near
        near = bare.get(_link.nearest(flag.lstrip("-"), list(bare)))
    except ValueError:  # it has a NUL, or is no text
        near = None
    _fail(f"{magic}: {flag}: unknown option" + (f"; did you mean {near}?" if near else f"; {magic} --help lists them"))


def _fail(text):
    from IPython.core.error import UsageError

    raise UsageError(text)
