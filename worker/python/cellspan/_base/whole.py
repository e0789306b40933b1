# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that users give."""

from __future__ import annotations

import operator


def whole(number):
    """A whole number as an int; it may have been numpy's. None: it is none, as True."""
    try:
        return None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        return None
