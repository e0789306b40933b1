# SPDX-License-Identifier: BSD-3-Clause
"""A client that reads nothing for a while, beside one that reads: when it reads again it gets all that it must not miss."""

from __future__ import annotations

import re

import pytest
import zmq

pytestmark = pytest.mark.clients

FLOOD = "for i in range(%d):\n    print('line', i, 'x' * 1000)\nprint('the last line')\n"


@pytest.mark.limit(400)
@pytest.mark.parametrize("where", ["", "%%distribute -n 2 --merge prefix\n"], ids=["home", "ranks"])
def test_a_client_that_stops_loses_no_error_no_status_and_no_last_line(fresh, where):
    nb = fresh()
    stopped = nb.second_client()
    try:
        cells = [nb.ok(where + FLOOD % 30_000, limit=200)]  # 30 MB and more: far beyond what waits for who stopped
        cells.append(nb.run(where + "print('before')\n1/0").assert_error("ZeroDivisionError"))
        cells += [nb.ok(where + "%d" % i) for i in range(100)]
        assert cells[0].stdout.count("\n") == (60_002 if where else 30_001), "the client that reads missed lines"

        def heard(cell, kind):
            return [m for m in stopped.strays if m["parent_header"].get("msg_id") == cell.msg_id and m["msg_type"] == kind]

        last = cells[-1]
        assert stopped.until(lambda: [m for m in heard(last, "status") if m["content"]["execution_state"] == "idle"], 200)
        for cell in cells:
            assert [m["content"]["execution_state"] for m in heard(cell, "status")] == ["busy", "idle"]
            assert len(heard(cell, "execute_input")) == 1
        assert len(heard(cells[1], "error")) == 1
        assert [m["content"]["data"] for m in heard(last, "execute_result")] == [{"text/plain": "99"}]
        assert "the last line" in "".join(m["content"]["text"] for m in heard(cells[0], "stream"))
    finally:
        stopped.close()


@pytest.mark.limit(400)
@pytest.mark.parametrize("reads", [0, 4_000_000], ids=["nothing", "something"])
def test_a_client_that_says_what_it_has_read_and_goes_holds_nothing_up(fresh, reads):
    """As `cellspan run` does it: its output waits until it reads on. It is gone while it waits."""
    nb = fresh()
    with zmq.Context() as context, context.socket(zmq.SUB) as one:
        one.setsockopt(zmq.LINGER, 0)
        one.setsockopt(zmq.RCVHWM, 0)
        one.setsockopt(zmq.SUBSCRIBE, b"")
        one.connect("tcp://127.0.0.1:%d" % nb.kc.iopub_port)
        frames = one.recv_multipart()
        number = int(re.match(rb"\x01(\d+)\x01", frames[0])[1])
        nb.send("cellspan_read", {"subscriber": number, "bytes": sum(map(len, frames))}, "control")
        cell = nb.start("%%distribute -n 1\n" + FLOOD % 40_000)
        while reads > 0:
            reads -= sum(map(len, one.recv_multipart()))
        nb.until(lambda: False, 15)  # all that may be on its way to it is, and the rank is held back
        assert not cell.ended, "nothing waits for a client that says what it has read"
    nb.wait(cell, 200).assert_ok()
    assert cell.stdout.count("\n") == 40_001


@pytest.mark.limit(400)
def test_a_stopped_client_holds_nothing_up_while_others_come_and_go(fresh):
    nb = fresh()
    stopped = nb.second_client()
    try:
        cell = nb.start("%%distribute -n 1\n" + FLOOD % 40_000)
        while not cell.ended:
            with zmq.Context() as context, context.socket(zmq.SUB) as other:
                other.setsockopt(zmq.LINGER, 0)
                other.setsockopt(zmq.SUBSCRIBE, b"")
                other.connect("tcp://127.0.0.1:%d" % nb.kc.iopub_port)
                other.poll(1000)
            nb.until(lambda: cell.ended, 2)
        assert cell.assert_ok().stdout.count("\n") == 40_001
    finally:
        stopped.close()


def test_clients_come_and_go_and_each_hears_all(nb):
    for _ in range(5):
        clients = [nb.second_client() for _ in range(3)]
        cell = nb.ok("print('for all of them')\n1")
        for client in clients:
            assert client.until(lambda: [m for m in client.strays if m["msg_type"] == "execute_result"
                                         and m["parent_header"].get("msg_id") == cell.msg_id])
            client.close()
    assert nb.ok("print('alone again')").stdout == "alone again\n"
