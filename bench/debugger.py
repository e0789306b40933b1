# SPDX-License-Identifier: BSD-3-Clause
"""The debugger: how long it takes until 8 ranks are attached, and what it costs while it is attached and has no breakpoints.

    python bench/debugger.py [-n RANKS] [--repeats N]

It prints a table of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from common import Kernel

CALLS = """import time
def f(i):
    return i + 1
def loop(n):
    s = 0
    for i in range(n):
        s += i
    return s
def best(call):
    times = []
    for _ in range(5):
        t = time.perf_counter()
        call()
        times.append(time.perf_counter() - t)
    return min(times)
figures = best(lambda: [f(i) for i in range(200_000)]), best(lambda: loop(2_000_000))"""


def ask(kernel, command, arguments=None):
    """A debug_request and its reply's content."""
    control = kernel.client.control_channel
    content = {"type": "request", "seq": 1, "command": command, "arguments": arguments or {}}
    message = kernel.client.session.msg("debug_request", content)
    control.send(message)
    while True:
        reply = control.get_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            return reply["content"]


def attach(kernel):
    """Seconds until initialize and attach are answered."""
    begin = time.perf_counter()
    for command in ("initialize", "attach"):
        reply = ask(kernel, command, {"adapterID": ""} if command == "initialize" else None)
        assert reply.get("success"), reply
    return time.perf_counter() - begin


def costs(kernel):
    """Nanoseconds of a call of a small function, and of a turn of a loop, at home."""
    kernel.must(CALLS)
    reply = ask(kernel, "richInspectVariables", {"variableName": "figures"})
    calls, loop = json.loads("[" + reply["body"]["data"]["text/plain"].strip("()") + "]")
    return calls / 200_000 * 1e9, loop / 2_000_000 * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    home, ranks, before, after = [], [], [], []
    for _ in range(options.repeats):
        with Kernel("cellspan") as kernel:
            before.append(costs(kernel))
            home.append(attach(kernel))
            after.append(costs(kernel))
        with Kernel("cellspan") as kernel:
            kernel.must("%%%%distribute -n %d --no-gpu\n1" % options.n)
            ranks.append(attach(kernel))
    print("| | |\n| --- | --- |")
    print("| attach, home alone | %.2f s |" % statistics.median(home))
    print("| attach, home and %d ranks | %.2f s |" % (options.n, statistics.median(ranks)))
    for k, what in enumerate(("a call of a small function", "a turn of a loop")):
        one, two = (statistics.median(row[k] for row in rows) for rows in (before, after))
        print("| %s, ns: without, with | %.0f, %.0f (%.1fx) |" % (what, one, two, two / one))


if __name__ == "__main__":
    main()
