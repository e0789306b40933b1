# SPDX-License-Identifier: BSD-3-Clause
"""A client that reads nothing for a while, beside one that reads: when it reads again it gets all that it must not miss."""

from __future__ import annotations

import pytest

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


def test_clients_come_and_go_and_each_hears_all(nb):
    for _ in range(5):
        clients = [nb.second_client() for _ in range(3)]
        cell = nb.ok("print('for all of them')\n1")
        for client in clients:
            assert client.until(lambda: [m for m in client.strays if m["msg_type"] == "execute_result"
                                         and m["parent_header"].get("msg_id") == cell.msg_id])
            client.close()
    assert nb.ok("print('alone again')").stdout == "alone again\n"
