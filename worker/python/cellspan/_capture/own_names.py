# SPDX-License-Identifier: BSD-3-Clause
"""Names that each worker has by itself: those of Python, and IPython's history, `exit` and so on. They do not travel. But a user may
have given one of IPython's another value, as `_ = gettext.gettext`: IPython leaves this alone, and it is a variable as any other."""

from __future__ import annotations

import re
import sys

ALWAYS_OWN = frozenset(
    "_ih _oh _dh _sh __name__ __doc__ __package__ __loader__ __spec__ __builtin__ __builtins__ __annotations__ __session__".split()
)
OWN_UNTIL_BOUND = frozenset("In Out _ __ ___ _i _ii _iii exit quit get_ipython".split())
NUMBERED = re.compile(r"_i\d+$")
_NONE = object()


def is_own(name, value, user_ns):
    """Is this Python's or IPython's own variable?"""
    if name in ALWAYS_OWN:
        return True
    if name not in OWN_UNTIL_BOUND and not (name[:2] == "_i" and NUMBERED.match(name)):
        return False
    shell = getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", None)
    shell = getattr(shell, "_instance", None)
    if shell is None or shell.user_ns is not user_ns:
        return True
    return shell.user_ns_hidden.get(name, _NONE) is value or getattr(shell.displayhook, name, _NONE) is value
