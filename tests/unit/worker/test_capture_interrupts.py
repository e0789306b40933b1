# SPDX-License-Identifier: BSD-3-Clause
"""An interrupt may come between any two steps of a capture. The next capture must be as right as if it had not come."""

import gc
import itertools
import os
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import vars_bundle  # noqa: E402
from cellspan._capture.call_buffers import is_group  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402

FILES = tuple(f"/_capture/{name}.py" for name in ("assigned", "call_buffers", "capture", "fingerprints", "rank_definitions", "sharing"))


class Interrupt:
    """Within the block, a KeyboardInterrupt comes before step `at` of the files above. came: it did; there were so many steps."""

    def __init__(self, at):
        self.left, self.came = at, False

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._frame)

    def __exit__(self, kind, *_):
        sys.settrace(self.before)
        return kind is KeyboardInterrupt

    def _frame(self, frame, event, arg):
        return self._line if frame.f_code.co_filename.endswith(FILES) else None

    def _line(self, frame, event, arg):
        if event == "line" and not self.came:
            self.left -= 1
            if self.left < 0:
                self.came = True
                raise KeyboardInterrupt
        return self._line


class Ranks:
    """What ranks have: they get the names of which they lack the version."""

    def __init__(self, nb):
        self.nb, self.ns, self.versions = nb, {}, {}

    def get(self, rows):
        """The names that were sent."""
        capture = self.nb.capture
        for name in capture.deleted():
            self.ns.pop(name, None), self.versions.pop(name, None)
        lacks = [row[0] for row in rows if self.versions.get(row[0]) != row[1]]
        if lacks:
            fd, size, _ = capture.pack(lacks)
            self.ns.update(vars_bundle.unpack(fd, size, self.nb.ns))
            os.close(fd)
            self.versions.update({row[0]: row[1] for row in rows})
        return lacks

    def cell(self, code):
        return self.get(self.nb.capture.names(code)[0])

    def call(self, function, *args):
        """The arguments as a rank gets them."""
        rows, _, load, keep = self.nb.capture.function((function, args, {}), 128 << 10)
        self.get(rows)
        del keep

        def fill(views, places):
            for index, name, number in places:
                views[index] = memoryview(bytearray(self.ns[name][number]))

        return vars_bundle.unpack_bytes(load, self.nb.ns, None, fill)[1]


def each_step(scenario):
    """Calls scenario(interrupt) once for each step that it takes until it took all of them without an interrupt."""
    gc.collect()
    gc.freeze()  # the scenarios collect what they leave, and nothing else
    try:
        for at in itertools.count():
            interrupt = Interrupt(at)
            scenario(interrupt)
            if not interrupt.came:
                assert at > 50
                return
    finally:
        gc.unfreeze()


def large(value):
    return np.full(1 << 16, value, "u1")


def test_the_buffers_of_calls_stay_right(nb):
    def scenario(interrupt):
        nb.capture = Capture(nb.ns)
        ranks, kept = Ranks(nb), [large(1), large(2)]
        ranks.call(len, kept[0], large(3))  # one that is gone before the next call
        with interrupt:
            nb.capture.function((len, (kept[0], kept[1], large(4)), {}), 128 << 10)
        gc.collect()
        for value in (5, 6):
            own = large(value)
            got = ranks.call(len, own, *kept, large(value + 10))
            assert [int(each[0]) for each in got] == [value, 1, 2, value + 10]
        got = ranks.call(len, kept[0], kept[1])
        assert [int(each[0]) for each in got] == [1, 2]
        del own
        gc.collect()
        ranks.call(len, *kept)
        assert sum(map(is_group, ranks.ns)) == 2  # nothing of the interrupted call, and of those that are over, stays on ranks

    each_step(scenario)


def test_variables_stay_right(nb):
    def scenario(interrupt):
        nb.capture = Capture(nb.ns)
        ranks, code = Ranks(nb), "print(a, b, c, d, e())"
        nb.run("import numpy as np\na, b = np.zeros(1 << 18, 'u1'), np.zeros(1 << 18, 'u1')\nc, d = [1], 1\ndef e(): return d")
        ranks.cell(code)
        before = dict(ranks.versions)
        nb.run("a[5] = 7\nc.append(2)\nd = 2")
        with interrupt:
            nb.capture.names(code)
        rows = {row[0]: row for row in nb.capture.names(code)[0]}
        assert set(ranks.get(list(rows.values()))) == {"a", "c", "d"}
        assert (int(ranks.ns["a"][5]), ranks.ns["c"], ranks.ns["d"]) == (7, [1, 2], 2)
        assert {name: rows[name][4] for name in "abce"} == {name: before[name] for name in "abce"}  # none of these was assigned
        assert rows["d"][4] == rows["d"][1]

    each_step(scenario)


def test_what_was_pulled_stays_a_ranks_value(nb):
    def scenario(interrupt):
        nb.capture = Capture(nb.ns)
        ranks = Ranks(nb)
        nb.run("import numpy as np\na, b = np.zeros(1 << 18, 'u1'), [1]")
        nb.capture.names("print(a, b)")
        fd, size = nb.pack("a", "b")
        nb.capture.pulled(["a", "b"], fd, size)
        os.close(fd)
        nb.run("b.append(2)\na[0] = 1")
        with interrupt:
            nb.capture.names("print(a, b)")
        rows = {row[0]: row for row in nb.capture.names("print(a, b)")[0]}
        assert {name: rows[name][4] for name in "ab"} == {"a": 0, "b": 0}
        assert set(ranks.get(list(rows.values()))) == {"a", "b"} and ranks.ns["b"] == [1, 2]

    each_step(scenario)
