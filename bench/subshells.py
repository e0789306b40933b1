#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Subshells: from the request to make one until the reply and the idle of its first cell, `1+1`, while home's cell runs; then until those of a
second cell; then until the reply to its deletion. ipykernel and cellspan.

    bench/subshells.py [--prefix DIR] [--repeat N]     prints rows of RESULTS.md

Home's cell sleeps, or computes and so holds the interpreter's lock for 5 ms at a time. The systems take turns. A figure is the median.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time

from common import Kernel

HOME = {
    "sleeps": "import time\nuntil = time.monotonic() + %d\nwhile time.monotonic() < until: time.sleep(0.01)",
    "computes": "import time\nuntil = time.monotonic() + %d\nwhile time.monotonic() < until: pass",
}
LONG = 3600  # seconds: longer than all measurements
NAMES = {"python3": "ipykernel", "cellspan": "cellspan"}


def request(kernel, channel, kind, content, header=None, idle=False):
    """Sends a request; waits for its reply and, if wanted, its idle. Returns the reply's content."""
    client = kernel.client
    session = client.session
    message = session.msg(kind, content)
    message["header"].update(header or {})
    session.send(channel.socket, message)
    reply, waits = None, {channel.socket: True, client.iopub_channel.socket: idle}
    for socket, wanted in waits.items():
        while wanted:
            got = session.deserialize(session.feed_identities(socket.recv_multipart())[1])
            if (got["parent_header"] or {}).get("msg_id") != message["header"]["msg_id"]:
                continue
            if socket is channel.socket:
                reply = got["content"]
                break
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                break
    if reply["status"] != "ok":
        raise RuntimeError(f"{kind}: {reply}")
    return reply


def turn(kernel):
    """Seconds: the first cell, with the creation; the second; the deletion."""
    client = kernel.client
    times = [time.perf_counter()]
    made = request(kernel, client.control_channel, "create_subshell_request", {})["subshell_id"]
    for _ in range(2):
        content = {"code": "1+1", "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        request(kernel, client.shell_channel, "execute_request", content, {"subshell_id": made}, idle=True)
        times.append(time.perf_counter())
    request(kernel, client.control_channel, "delete_subshell_request", {"subshell_id": made})
    times.append(time.perf_counter())
    return [later - earlier for earlier, later in zip(times, times[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--repeat", type=int, default=30)
    args = parser.parse_args()
    if args.prefix:
        os.environ["JUPYTER_PATH"] = os.path.join(os.path.abspath(args.prefix), "share", "jupyter")
    print("| while home's cell | | a subshell's first cell, ms | its second, ms | its deletion, ms |\n| --- | --- | --- | --- | --- |")
    for what, code in HOME.items():
        with contextlib.ExitStack() as stack:
            kernels = {name: stack.enter_context(Kernel(name)) for name in NAMES}
            for kernel in kernels.values():
                kernel.must("1")
                kernel.start(code % LONG)
                turn(kernel)
            found = {name: [] for name in NAMES}
            for _ in range(args.repeat):
                for name, kernel in kernels.items():
                    found[name].append(turn(kernel))
        for name, times in found.items():
            row = " | ".join("%.2f" % (statistics.median(column) * 1e3) for column in zip(*times))
            print(f"| {what} | {NAMES[name]} | {row} |")


if __name__ == "__main__":
    main()
