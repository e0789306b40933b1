# SPDX-License-Identifier: BSD-3-Clause
"""What clients and libraries that know ipykernel expect of a kernel, at home."""

from __future__ import annotations

import re

import pytest
from packages import needs


def test_arguments_that_nobody_knows_are_ignored_with_a_warning(fresh, tmp_path):
    with open(tmp_path / "said", "w+") as said:
        nb = fresh(arguments=["--nothing=1", "x.py", "--IPKernelApp.exec_lines=['a = 1', 'b = 2']",
                              "--InteractiveShell.cache_size=7", "--ZMQInteractiveShell..x=1"], output=said)
        assert nb.ok("a, b, get_ipython().cache_size, 'CELLSPAN_IPYTHON_ARGS' in __import__('os').environ").value == (
            "(1, 2, 7, False)")
    text = (tmp_path / "said").read_text()
    assert "ignored: there is no option --nothing" in text and "ignored: x.py: only options" in text


def test_an_error_that_is_shown_and_caught_does_not_fail_the_cell(nb):
    cell = nb.ok("try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\nprint('goes on')")
    assert "ZeroDivisionError" in cell.traceback and "goes on" in cell.stdout, cell.shown
    nb.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\n[][1]").assert_error("IndexError")
    nb.run("class Odd:\n    def __repr__(self):\n        1 / 0\nOdd()").assert_error("ZeroDivisionError")
    cell = nb.ok("%%distribute -n 2\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\n'on'")
    assert cell.value == "'on'" and "ZeroDivisionError" in cell.stderr, cell.shown


def test_the_magics_of_notebooks_are_there(nb, tmp_path):
    (tmp_path / "text.txt").write_text("what it says\n")
    for name in ("less", "more"):
        page = nb.ok("%%%s %s" % (name, tmp_path / "text.txt")).payloads[0]
        assert page["source"] == "page" and page["data"]["text/plain"] == "what it says\n"
    nb.run("%less /no/such/file").assert_error("UsageError")
    edited = nb.ok("%%edit %s" % (tmp_path / "text.txt")).payloads[0]
    assert edited["source"] == "edit_magic" and edited["filename"] == str(tmp_path / "text.txt")
    assert nb.km.connection_file in nb.ok("%connect_info").stdout
    assert "clear_output" in nb.ok("print(1)\n%clear").kinds
    assert "page" in nb.ok("%autosave 120").stdout
    assert nb.run("%man no-such-page-anywhere").ename == "UsageError"


def test_messages_of_a_library_go_out_by_the_kernels_session(nb):
    cell = nb.ok("k = get_ipython().kernel\n"
                 "for kind, text in (('display_data', 'a'), ('update_display_data', 'b')):\n"
                 "    content = {'data': {'text/plain': text}, 'metadata': {}, 'transient': {'display_id': 'one'}}\n"
                 "    k.session.send(k.iopub_socket, kind, content, parent=get_ipython().parent_header)")
    assert [d["text/plain"] for d in cell.displays] == ["b"], cell.shown
    assert cell.kinds.count("display_data") == 1


def test_a_client_that_comes_while_ranks_run_a_cell_gets_its_later_output(nb, gate):
    from client import Client, Session

    cell = nb.start("%%distribute -n 2\nimport sys\nprint('first')\n" + gate.code + "\nprint('la' + 'ter')\nprint('t' + 'oo', file=sys.stderr)\ndisplay('sho' + 'wn')")
    nb.wait_ranks(cell, "first", 2)
    kc = nb.km.client()
    kc.session = Session(key=nb.km.session.key)  # a page that is opened again has a session of its own
    second = Client(kc)
    try:
        asked = second.send("kernel_info_request")
        second.wait(asked, until=lambda: asked.ended)
        gate.open()
        nb.wait(cell).assert_ok()
        mine = [m for m in cell.messages if any(word in str(m["content"]) for word in ("later", "too", "'shown'"))]
        assert len(mine) >= 4, cell.shown  # the display of each rank
        assert second.until(lambda: [m for m in second.strays if m["content"].get("execution_state") == "idle"])
        theirs = {m["header"]["msg_id"] for m in second.strays if m["parent_header"].get("msg_id") == cell.msg_id}
        assert theirs >= {m["header"]["msg_id"] for m in mine}, second.strays
    finally:
        second.close()


def test_what_nobody_answers_is_refused_at_once(nb):
    for kind in ("no_such_request", "some_request"):
        reply = nb.control(kind)
        assert reply["status"] == "error" and kind in reply["evalue"], reply


def test_debug_after_an_error_on_ranks_says_where_it_works(nb):
    nb.run("1 / 0").assert_error("ZeroDivisionError")
    nb.run("%%distribute -n 2\nraise ValueError('on ranks')").assert_error("ValueError")
    cell = nb.run("%debug", answer="q").assert_error("UsageError")
    assert "ranks" in cell.shown and "breakpoint()" in cell.shown and not cell.prompts, cell.shown
    assert nb.ok("%debug", answer="q").prompts


LEFT_BEHIND = {
    "thread": "import threading, time\nfrom IPython.display import display\n"
    "def work():\n    for i in range(6):\n        print(i)\n        display({'text/plain': '9'}, raw=True)\n        time.sleep(0.1)\n"
    "t = threading.Thread(target=work)\nt.start()",
    "task": "import asyncio\nfrom IPython.display import display\nasync def work():\n    for i in range(6):\n        print(i)\n"
    "        display({'text/plain': '9'}, raw=True)\n        await asyncio.sleep(0.1)\n"
    "t = asyncio.get_event_loop().create_task(work())",
}


@pytest.mark.parametrize("kind", LEFT_BEHIND)
def test_output_of_what_a_cell_leaves_behind_stays_under_it(nb, kind):
    first = nb.start(LEFT_BEHIND[kind])
    others = [nb.start("print('other')"), nb.start("import asyncio, time\nprint('begins')\nfor i in range(8):\n    await asyncio.sleep(0.05)\n"
                                                    "    print('line')")]
    for cell in (first, *others):
        nb.wait(cell).assert_ok()
    want = [str(d) for i in range(6) for d in (i, 9)]
    nb.until(lambda: re.findall(r"\d", first.shown) == want)
    assert re.findall(r"\d", first.shown) == want, first.shown
    assert [cell.shown for cell in others] == ["other\n", "begins\n" + 8 * "line\n"]
    assert nb.ok("print('after')").stdout == "after\n"


def test_output_of_a_pools_thread_stands_under_the_cell_that_gives_it_work(nb):
    nb.ok("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 'one').result()")
    assert nb.ok("pool.submit(print, 'two').result()").stdout == "two\n"


def test_a_thread_may_say_whose_its_output_is(nb):
    first = nb.ok("import threading\nparent = get_ipython().get_parent()\ngo = threading.Event()")
    second = nb.ok("def work():\n    token = get_ipython().set_thread_parent(parent)\n    print('of the first')\n"
                   "    get_ipython().reset_thread_parent(token)\n    go.wait()\n    print('of whom runs')\n"
                   "t = threading.Thread(target=work)\nt.start()")
    third = nb.ok("go.set()\nt.join()")
    nb.until(lambda: first.shown)
    assert [cell.shown for cell in (first, second, third)] == ["of the first\n", "", "of whom runs\n"]


def test_what_a_widgets_callback_prints_belongs_to_its_message(nb):
    needs("ipywidgets")
    nb.ok("import ipywidgets, os\nbutton = ipywidgets.Button()\n"
          "def clicked(_):\n    print('clicked')\n    get_ipython().system('echo by a command')\nbutton.on_click(clicked)")
    later = nb.ok("print('later')")
    click = nb.send("comm_msg", {"comm_id": nb.ok("print(button.comm.comm_id)").stdout.strip(),
                                 "data": {"method": "custom", "content": {"event": "click"}}})
    nb.until(lambda: click.idle_at is not None and "command" in click.shown)
    assert click.shown == "clicked\nby a command\n" and later.shown == "later\n"
    assert nb.ok("print('next')").stdout == "next\n"


def test_interact_shows_what_the_slider_gives(nb):
    needs("ipywidgets")
    cell = nb.ok("from ipywidgets import interact\nw = interact(lambda x: print('x is', x), x=(0, 10))")
    slider = nb.ok("w.widget.children[0].comm.comm_id").value.strip("'")
    moved = nb.send("comm_msg", {"comm_id": slider, "data": {"method": "update", "state": {"value": 7}, "buffer_paths": []}})
    nb.until(lambda: moved.idle_at is not None)
    assert moved.stdout == "x is 7\n" and "x is 7" not in cell.shown
    assert captures(moved) == [moved.msg_id, ""], "the page puts the text into interact's own output"


def captures(cell):
    """The requests whose output an Output widget of the page is to show, in their order; "" ends that."""
    states = [m["content"]["data"].get("state", {}) for m in cell.messages if m["msg_type"] == "comm_msg"]
    return [state["msg_id"] for state in states if "msg_id" in state]


def test_an_output_widget_captures_a_cells_and_a_callbacks_text(nb):
    needs("ipywidgets")
    nb.ok("import ipywidgets\nout, button = ipywidgets.Output(), ipywidgets.Button()\n"
          "def clicked(_):\n    with out:\n        print('clicked')\nbutton.on_click(clicked)")
    cell = nb.ok("with out:\n    print('in the cell')\nprint('and below')")
    assert captures(cell) == [cell.msg_id, ""]
    kinds = [m["msg_type"] for m in cell.messages if m["msg_type"] in ("comm_msg", "stream")]
    assert kinds == ["comm_msg", "stream", "comm_msg", "stream"], "what is said within stands between"
    click = nb.send("comm_msg", {"comm_id": nb.ok("print(button.comm.comm_id)").stdout.strip(),
                                 "data": {"method": "custom", "content": {"event": "click"}}})
    nb.until(lambda: click.idle_at is not None)
    assert captures(click) == [click.msg_id, ""] and click.stdout == "clicked\n", click.shown


def test_a_cell_that_awaits_hears_comms_although_others_are_queued(nb):
    needs("comm")
    cell = nb.start("import asyncio, comm\ngot = asyncio.get_running_loop().create_future()\nasked = comm.create_comm(target_name='t')\n"
                    "asked.on_msg(lambda m: got.set_result(m['content']['data']['value']))\nawait asyncio.wait_for(got, 30)")
    after = nb.start("got.result()")
    nb.wait(cell, until=lambda: cell.of("comm_open"))
    nb.send("comm_msg", {"comm_id": cell.of("comm_open")[0]["content"]["comm_id"], "data": {"value": 42}})
    assert nb.wait(cell).assert_ok().value == "42" and nb.wait(after).assert_ok().value == "42"


def test_both_streams_keep_the_order_of_writing(nb):
    for head in ("", "%%distribute -n 1\n"):
        cell = nb.run(head + "import sys\nprint('1 out')\nprint('2 err', file=sys.stderr)\nprint('3 out')\n"
                      "sys.stderr.write('4 err\\n')\n1 / 0").assert_error("ZeroDivisionError")
        assert re.findall(r"^(\d) ...$", cell.shown, re.M) == ["1", "2", "3", "4"], cell.shown
        assert cell.kinds[-1] == "error"
