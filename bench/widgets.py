#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A widget's round trip: a page moves a slider, its callback sets a label, and the page has the label's new value and the kernel's idle.
ipykernel, cellspan's home, and a rank of cellspan's. A page that is opened anew: the state of 1,000 widgets of 8 ranks that are busy.

    bench/widgets.py [--prefix DIR] [--repeat N] [--moves N]     prints rows of RESULTS.md

The systems take turns. A figure is the median of the turns' medians.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time

from common import Kernel

MADE = """
import ipywidgets
slider, label = ipywidgets.IntSlider(), ipywidgets.Label()
def moved(change):
    label.value = str(change['new'])
slider.observe(moved, 'value')
"""
MANY = "import ipywidgets\nmany = [ipywidgets.IntText(value=n) for n in range(42)]"  # 126 comms: with layout and style
NAMES = {"ipykernel": "ipykernel", "home": "cellspan, at home", "rank": "cellspan, a rank of 4"}


class Page:
    """A kernel with the two widgets; moves the slider."""

    def __init__(self, stack, name, head=""):
        self.kernel = stack.enter_context(Kernel(name))
        opened = self.kernel.must(head + MADE).events
        self.slider, self.label = (
            next(e.content["comm_id"] for e in reversed(opened) if e.kind == "comm_open" and e.content["data"]["state"].get("_model_name") == model)
            for model in ("IntSliderModel", "LabelModel")
        )
        self.value = 0

    def ask(self, kind, content, until):
        """Sends a request; the seconds until its idle is read. until(message) must have been true before."""
        session, client = self.kernel.client.session, self.kernel.client
        message = session.msg(kind, content)
        begin, seen = time.perf_counter(), False
        session.send(client.shell_channel.socket, message)
        while True:
            frames = session.feed_identities(client.iopub_channel.socket.recv_multipart())[1]
            got = session.deserialize(frames)
            if (got["parent_header"] or {}).get("msg_id") != message["header"]["msg_id"]:
                continue
            seen = seen or until(got)
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                if not seen:
                    raise RuntimeError("idle came before the answer")
                return time.perf_counter() - begin

    def move(self):
        self.value = self.value % 100 + 1
        wanted = str(self.value)
        data = {"method": "update", "state": {"value": self.value}, "buffer_paths": []}
        return self.ask(
            "comm_msg",
            {"comm_id": self.slider, "data": data},
            lambda m: m["msg_type"] == "comm_msg"
            and m["content"]["comm_id"] == self.label
            and m["content"]["data"]["state"].get("value") == wanted,
        )

    def moves(self, count):
        times = []
        for _ in range(count):
            times.append(self.move())
            time.sleep(0.005)  # a page waits for idle, and people are slower still
        return statistics.median(times)


def anew(page):
    """Seconds until a page that is opened anew has the state of all widgets, though all ranks are busy."""
    page.kernel.must("%%distribute -n 8\n" + MANY)
    cell = page.kernel.start("%%distribute\nimport time\nprint('busy', flush=True)\ntime.sleep(5)")
    cell.wait(60, until=lambda c: "busy" in c.output)
    page.ask("comm_open", {"comm_id": "c", "target_name": "jupyter.widget.control", "data": {}}, lambda m: True)
    states = []

    def answered(message):
        if message["msg_type"] == "comm_msg":
            states.append(len(message["content"]["data"]["states"]))
        return bool(states)

    took = page.ask("comm_msg", {"comm_id": "c", "data": {"method": "request_states"}}, answered)
    cell.wait(60)
    return took, states[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--moves", type=int, default=50)
    args = parser.parse_args()
    if args.prefix:
        os.environ["JUPYTER_PATH"] = os.path.join(os.path.abspath(args.prefix), "share", "jupyter")
    with contextlib.ExitStack() as stack:
        pages = {
            "ipykernel": Page(stack, "python3"),
            "home": Page(stack, "cellspan"),
            "rank": Page(stack, "cellspan", "%%distribute -n 4"),
        }
        found = {name: [] for name in pages}
        for page in pages.values():
            page.moves(args.moves)
        for _ in range(args.repeat):
            for name, page in pages.items():
                found[name].append(page.moves(args.moves))
        opened = [anew(pages["rank"]) for _ in range(3)]
    print("| a widget's round trip, with its callback | ms |\n| --- | --- |")
    for name, times in found.items():
        print("| %s | %.2f |" % (NAMES[name], statistics.median(times) * 1e3))
    print("| a page opened anew gets %d widgets of busy ranks | %.0f |" % (opened[0][1], statistics.median(t for t, _ in opened) * 1e3))


if __name__ == "__main__":
    main()
