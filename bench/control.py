# SPDX-License-Identifier: BSD-3-Clause
"""Requests on the control channel while a cell of home runs C code that holds the interpreter lock."""

from __future__ import annotations

import time

import zmq

from common import Cell, Kernel

HOLD = 3.0  # seconds that the cell holds the lock
ASK = [0.3 + 0.1 * i for i in range(10)]  # when kernel_info is asked, seconds after the cell was sent
INTERRUPT = 1.6  # when the interrupt is
# sum() over a range runs in C from end to end and never offers the lock.
CALIBRATE = "import time\n_t = time.perf_counter()\n_ = sum(range(10_000_000))\n_n = int(1e7 * %f / (time.perf_counter() - _t))"


def held(system):
    """How long kernel_info and interrupt take on control, and how the cell ends."""
    with Kernel(system) as kernel:
        kernel.must(CALIBRATE % HOLD)
        control = kernel.client.control_channel
        kernel.poller.register(control.socket, zmq.POLLIN)
        asked, answered = {}, {}
        plan = sorted([(at, "kernel_info_request") for at in ASK] + [(INTERRUPT, "interrupt_request")])
        cell = Cell(kernel, "sum(range(_n))")
        deadline = cell.begin + 3 * HOLD
        while time.perf_counter() < deadline and not (cell.idle_at and cell.reply_at and len(answered) == len(ASK) + 1):
            while plan and time.perf_counter() - cell.begin >= plan[0][0]:
                request = kernel.client.session.msg(plan.pop(0)[1], {})
                asked[request["header"]["msg_id"]] = (request["msg_type"], time.perf_counter())
                control.send(request)
            due = plan[0][0] - (time.perf_counter() - cell.begin) if plan else 0.05
            for socket, _ in kernel.poller.poll(max(0, due) * 1000):
                if socket is control.socket:
                    parent = control.get_msg(timeout=0)["parent_header"].get("msg_id")
                    answered[parent] = time.perf_counter()
                else:
                    cell._take(socket)
        return outcome(cell, asked, answered)


def outcome(cell, asked, answered):
    """Milliseconds from request to answer; what did not come is None."""
    info, interrupt = [], None
    for request, (kind, sent) in asked.items():
        took = (answered[request] - sent) * 1000 if request in answered else None
        if kind == "interrupt_request":
            interrupt = took
        else:
            info.append(took)
    came = sorted(t for t in info if t is not None)
    return {
        "kernel_info": came[len(came) // 2] if came else None,
        "kernel_info, slowest": came[-1] if came else None,
        "kernel_info, missing": len(info) - len(came),
        "interrupt": interrupt,
        "reply": cell.reply.get("ename", cell.status) if cell.reply else "none",
        "reply after": cell.reply_at,
    }


SECTIONS = {"control": (("python3", "xpython", "cellspan"), held)}
