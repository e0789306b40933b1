# SPDX-License-Identifier: BSD-3-Clause
"""Settings that the notebook changes in its own environment. The kernel has read them at its start, and ranks get those it has read. So a
line says that the change has no effect, and what has."""

from __future__ import annotations

import os
import shlex

from .. import _link

# The option of a cell that stands for a setting.
OPTIONS = {"CELLSPAN_SEED": "--seed", "CELLSPAN_N": "-n", "CELLSPAN_ON": "--on", "CELLSPAN_IN": "--in", "CELLSPAN_TIMEOUT": "--timeout",
           "CELLSPAN_GRACE": "--grace", "CELLSPAN_MERGE": "--merge"}
WHEN_NEEDED = ("CELLSPAN_CODE", "CELLSPAN_HOROVOD")  # home reads them each time
FIRST_CELL = "CELLSPAN_CAPTURE_LIMIT"  # home reads it for the first distributed cell
SHOWN = 80  # characters of a value


class LateSettings:
    def __init__(self):
        self._counts = self._seen = _now()
        self._first = True

    def lines(self):
        """For the user, before a distributed cell: a line for each change since the last one."""
        now, seen = _now(), self._seen
        self._seen = now
        if self._first:
            self._first, self._counts = False, {**self._counts, FIRST_CELL: now.get(FIRST_CELL)}
        return [_line(name, now.get(name), self._counts.get(name)) for name in sorted({*now, *seen})
                if now.get(name) != seen.get(name) and now.get(name) != self._counts.get(name)]


def _now():
    """{name: value} of the settings in this process's environment."""
    return {name: value for name, value in os.environ.items() if name.startswith("CELLSPAN_") and name not in WHEN_NEEDED and value and _is_setting(name)}


def _is_setting(name):
    try:
        _link.setting(name)
    except ValueError:
        return False
    return True


def _line(name, value, counts):
    when = "when the first distributed cell runs" if name == FIRST_CELL else "when the kernel starts"
    what = f"{name}={_shown(value)} has no effect now" if value else f"{name} was removed here, which has no effect now"
    still = f", and {_shown(counts)} still counts" if counts else ""
    option = OPTIONS.get(name)
    here = f"write {option} {_shown(shlex.quote(value))} behind %%distribute, or " if option and value else ""
    place = f"{'set' if value else 'unset'} it where Jupyter is started{', or in cellspan.toml' if value else ''}"
    return f"{what}: settings are read {when}{still}; {here}{place}"


def _shown(value):
    value = value if len(value) <= SHOWN else value[:SHOWN] + "…"
    return value if value.isprintable() else repr(value)
