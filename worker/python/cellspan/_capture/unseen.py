# SPDX-License-Identifier: BSD-3-Clause
"""Names that home has only because a client ran something that the user does not see: VS Code's variables view, an inspector.

Such requests leave names behind (a loop variable, an import). Home's value of such a name is not newer than the one that ranks
have bound: it is not sent to ranks once a cell on ranks has given the name a value. When a cell of the notebook binds the name, it
is the user's again."""

from __future__ import annotations

from . import reads


class Unseen:
    """user_ns: home's namespace."""

    def __init__(self, user_ns):
        self._user_ns = user_ns
        self._before = None  # the namespace when the running request began
        self._left = {}  # {name: id() of the value that such a request has bound}
        self._texts = []  # of the notebook's cells since then that have one of these names
        self.ranks_bind = set()  # names that cells on ranks give a value

    def began(self):
        """A request begins that the user does not see."""
        self._before = dict(self._user_ns)

    def ran(self):
        """It is over. It may have begun before there was anything to record."""
        before, self._before = self._before, None
        if before is not None:
            missing = object()
            self._left.update({n: id(v) for n, v in self._user_ns.items() if before.get(n, missing) is not v})

    def seen(self, code):
        """A cell of the notebook is over."""
        if self._left and any(name in code for name in self._left):
            self._texts.append(code)

    def read(self, transform):
        """Analyses these texts. transform: IPython's transform_cell."""
        for code in self._texts:
            found = reads.analyse(code, transform)
            for name in found.bound if found else ():
                self._left.pop(name, None)
        self._texts.clear()

    def _is(self, name, ident):
        return name in self._user_ns and id(self._user_ns[name]) == ident

    def hides(self, name):
        """Have ranks a value of this name, and home only one that such a request has left behind?"""
        return name in self._left and name in self.ranks_bind and self._is(name, self._left[name])
