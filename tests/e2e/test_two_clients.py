# SPDX-License-Identifier: BSD-3-Clause
"""Two clients of one kernel: each gets its own replies, and both get what is published."""

from __future__ import annotations

import pytest
from client import Cell


@pytest.fixture
def other(nb):
    client = nb.second_client()
    yield client
    client.close()


def test_both_share_variables_and_the_count(nb, other):
    first = nb.ok("shared_by_both = 5")
    second = other.ok("shared_by_both + 1")
    assert second.value == "6"
    assert second.reply["execution_count"] == first.reply["execution_count"] + 1


def test_each_hears_the_others_cell_with_its_parent(nb, other):
    cell = nb.ok("print('heard by both')\n7")
    wanted = {"execute_input", "stream", "execute_result"}

    def heard():
        return {m["msg_type"] for m in other.strays if m["parent_header"].get("msg_id") == cell.msg_id}

    assert other.until(lambda: wanted <= heard()), heard()
    other.quiet(0.3)
    assert not any(m["msg_type"] == "execute_reply" for m in other.strays)


def test_input_is_asked_of_the_client_that_runs_the_cell_only(nb, other):
    cell = other.ok("print('got', input('? '))", answer="the other")
    nb.quiet(0.3)
    assert "got the other" in cell.stdout
    assert not any(m["msg_type"] == "input_request" for m in nb.strays)


def test_a_late_client_is_welcomed_and_answered_while_a_cell_runs(nb, gate):
    cell = nb.start("print('begun', flush=True)\n" + gate.code)
    nb.wait_shown(cell, "begun")
    late = nb.second_client()
    try:
        assert late.until(lambda: any(m["msg_type"] == "iopub_welcome" for m in late.strays))
        nb.quiet()
        assert not cell.ended
    finally:
        late.close()
        gate.open()
    nb.wait(cell).assert_ok()


def test_one_clients_error_aborts_what_the_other_has_queued(nb, other, gate):
    first = nb.start("print('begun', flush=True)\n" + gate.code + "1/0")
    nb.wait_shown(first, "begun")
    queued = other.start("1")
    other.request("kernel_info_request")  # answered meanwhile, and sent behind it: it has arrived
    gate.open()
    nb.wait(first).assert_error("ZeroDivisionError")
    assert other.wait(queued).status == "aborted"
    assert other.ok("1").value == "1"


def test_one_client_can_interrupt_the_others_distributed_cell(nb, other):
    cell = nb.start("%%distribute -n 2\nprint('begun', flush=True)\nwhile True: pass")
    nb.wait_ranks(cell, "begun", 2)
    other.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")


def test_a_client_that_goes_while_its_cell_runs_harms_nobody(nb, gate):
    leaver = nb.second_client()
    cell = leaver.start(gate.code + "left_behind = 'done'")
    leaver.wait(cell, until=lambda: cell.busy_at is not None)
    leaver.close()
    gate.open()
    assert nb.ok("left_behind").value == "'done'"


def test_a_client_that_goes_while_asked_for_input_can_be_interrupted(nb):
    leaver = nb.second_client()
    cell = leaver.start("input('anyone? ')", answer=lambda prompt: None)
    leaver.wait(cell, until=lambda: cell.prompts)
    leaver.close()
    cell = nb.cells[cell.msg_id] = Cell(cell.msg_id, None)  # whose messages this client hears as well
    nb.control("interrupt_request")
    nb.wait(cell, until=lambda: cell.idle_at is not None)  # what is queued when a cell is interrupted is aborted with it
    assert nb.ok("1").value == "1"
