# SPDX-License-Identifier: BSD-3-Clause
"""Home's calls: magics in the middle of a cell and cellspan.run(), from the cell and from threads, with a double for kernel and agent."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402
from cellspan._capture import reducers, vars_bundle  # noqa: E402
from fake_agent import packed  # noqa: E402


def test_a_magic_in_the_middle_of_a_cell_is_the_kernels(home):
    cell = home.execute("x = 1\nv = get_ipython().run_cell_magic('distribute', '-n 2', 'x')\nprint(v)")
    call = home.expect("CALL", cell)
    assert (call.fields["text"], call.fields["flags"]) == ("%%distribute -n 2\nx", _link.CALL_SHOWN | _link.CALL_VALUE)
    home.send("CAPTURE", 900, {"code": "x"})
    assert home.expect("CAPTURED", 900).json("names")["names"][0][0] == "x"
    home.send("RETURN", cell, {"call": call.fields["call"], "status": "ok", "content": "{}"}, blob=5, data=packed({"a": 1}))
    assert home.expect("REPLY", cell).json()["status"] == "ok"
    assert home.text[1] == b"{'a': 1}\n"


def test_a_remote_error_can_be_caught_by_its_own_name_and_is_shown_once(home):
    lines = ["Traceback (most recent call last)", "remote line"]
    error = json.dumps({"ename": "ZeroDivisionError", "evalue": "on rank 1", "traceback": lines})
    cell = home.execute("try:\n    %distribute s.py\nexcept ZeroDivisionError as e:\n    print('caught', e)\n%push a")
    call = home.expect("CALL", cell).fields["call"]
    home.send("RETURN", cell, {"call": call, "status": "error", "content": error})
    call = home.expect("CALL", cell).fields["call"]
    home.send("RETURN", cell, {"call": call, "status": "error", "content": error})
    reply = home.expect("REPLY", cell).json()
    assert home.text[1] == b"caught on rank 1\n"
    assert (reply["ename"], reply["traceback"]) == ("ZeroDivisionError", lines)


def test_while_a_call_waits_home_serves_what_the_table_of_messages_says():
    from cellspan._worker.home import Home

    assert set(_link.call_kinds()) == {"CAPTURE", "PACK", "BIND", "NEWER", "HANDED"}
    assert set(Home.DURING_CALL) == {*_link.call_kinds(), "EXIT"} <= set(Home.HANDLERS)


def test_an_interrupted_call_waits_for_the_kernel_to_end_it(home):
    cell = home.execute("%distribute s.py\nprint('not reached')")
    call = home.expect("CALL", cell).fields["call"]
    home.send("INTERRUPT", cell)
    home.pump(0.3)
    assert not [m for m in home.seen if m.kind == "REPLY"]
    home.send("RETURN", cell, {"call": call, "status": "error", "content": '{"ename": "KeyboardInterrupt", "evalue": ""}'})
    assert home.expect("REPLY", cell).json()["ename"] == "KeyboardInterrupt"
    assert home.text[1] == b""


def returned(home, call, values):
    home.send("RETURN", call.cell, {"call": call.fields["call"], "status": "ok", "content": "{}", "values": values})


def flat(value):
    return vars_bundle.flat(reducers.Pickled(value), 1 << 20)


def test_a_small_function_goes_along_with_its_call_and_small_values_come_with_return(home):
    cell = home.execute("import cellspan\nk = 3\ndef f(x): return x + k\nprint(cellspan.run(f, 4, n=2, gather=True))")
    call = home.expect("CALL", cell)
    fn, args, kw = vars_bundle.unpack_bytes(call.fields["load"], {"k": 10})
    assert fn(*args, **kw) == 14 and [row[0] for row in call.json("names")["names"]] == ["k"]
    returned(home, call, [flat(7), flat([8])])
    assert home.expect("REPLY", cell).json()["status"] == "ok" and home.text[1] == b"[7, [8]]\n"


def test_calls_of_threads_are_under_way_at_once_also_while_the_cell_waits_for_them(home):
    cell = home.execute("import cellspan, threading\nfound = {}\ndef go(x): found[x] = cellspan.run(abs, x)\n"
                        "ts = [threading.Thread(target=go, args=(x,)) for x in (-1, -2)]\n"
                        "for t in ts: t.start()\nfor t in ts: t.join()\nprint(found)")
    first, second = home.expect("CALL", cell), home.expect("CALL", cell)
    home.send("PACK", 900, {"names": "found"}, blob=3)
    assert home.expect("PACKED", 900).fields["error"] == ""  # although the cell itself is in join()
    for call in second, first:
        assert call.fields["flags"] & _link.CALL_ASYNC
        returned(home, call, [flat(abs(vars_bundle.unpack_bytes(call.fields["load"])[1][0]))])
    assert home.expect("REPLY", cell).json()["status"] == "ok"
    assert eval(home.text[1]) == {-1: 1, -2: 2}


class Slow:
    """Its unpickling takes a moment, and gives the number."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return eval, (f"__import__('time').sleep(0.005) or {self.number}",)


def test_the_values_of_a_threads_call_come_in_order_although_home_serves_too(home):
    home.run("import cellspan, threading\ngot = []\n"
             "t = threading.Thread(target=lambda: got.append(cellspan.run(abs, 1, gather=True))); t.start()")
    call = home.expect("CALL")
    for n in range(40):
        home.send("BIND", 950, {"how": _link.BIND_LAST if n == 39 else _link.BIND_MORE}, blob=6, data=packed(Slow(n)))
    for n in range(40):
        home.expect("REPLY", 950)
    home.send("RETURN", call.cell, {"call": call.fields["call"], "status": "ok", "content": '{"gathered": 950}'})
    home.run("t.join(); print(got == [list(range(40))])")
    assert home.text[1] == b"True\n"


def test_the_cells_own_call_ends_also_where_another_thread_has_taken_its_answer(home):
    cell = home.execute("import cellspan, threading\nt = threading.Thread(target=cellspan.run, args=(abs, 1)); t.start()\n"
                        "for x in range(200): assert cellspan.run(abs, -x) == x\nt.join(); print('all')")
    first = None
    for x in range(201):
        call = home.expect("CALL", cell)
        if first is None and call.fields["flags"] & _link.CALL_ASYNC:
            first = call  # it stays under way, so that its thread takes what comes
        else:
            returned(home, call, [flat(abs(vars_bundle.unpack_bytes(call.fields["load"])[1][0]))])
    returned(home, first, [flat(1)])
    assert home.expect("REPLY", cell).json()["status"] == "ok" and home.text[1] == b"all\n"


def test_code_for_which_a_cell_on_ranks_waits_can_call_nothing_there(home):
    home.run("import cellspan\nclass C:\n    def __reduce__(self): cellspan.run(abs, 1)\nc = C()")
    home.send("PACK", 900, {"names": "c"}, blob=3)
    assert "another cell is running on the ranks" in home.expect("PACKED", 900).fields["error"]


def test_home_ends_while_a_thread_pickles_a_call_and_handlers_can_call_nothing(home):
    home.run("import atexit, cellspan, threading, time\nbegun = threading.Event()\nclass C:\n    def __reduce__(self): begun.set(); time.sleep(600)\n"
             "def last():\n    try: cellspan.run(abs, 1)\n    except RuntimeError: print('refused', flush=True)\natexit.register(last)\n"
             "threading.Thread(target=cellspan.run, args=(abs, C()), daemon=True).start(); assert begun.wait(60)")
    home.send("EXIT")
    assert home.process.wait(60) == 0
    home.drain_pipes()
    assert home.text[1].endswith(b"refused\n")


def test_a_value_that_home_can_not_load_is_the_calls_error(home):
    cell = home.execute("import cellspan\ntry: cellspan.run(abs, 1)\nexcept RuntimeError as e: print(type(e).__name__, e)")
    returned(home, home.expect("CALL", cell), [b"no bundle"])
    home.expect("REPLY", cell)
    assert b"home could not load the value: a bundle of 9 bytes is cut off" in home.text[1]


def sent(home, number, call=0):
    """What a %push of `a` sends. number: of its cell."""
    home.send("CAPTURE", number, {"names": "a", "flags": _link.CAPTURE_PUSH, "call": call})
    assert [row[0] for row in home.expect("CAPTURED", number).json("names")["names"]] == ["a"]
    home.send("PACK", number, {"names": "a"}, blob=number)
    answer = home.expect("PACKED", number)
    return vars_bundle.unpack(answer.fd, answer.size, {})["a"]


def test_only_the_cell_of_a_push_finds_its_values(home):
    """Others that push the same name come first while ranks are busy."""
    home.run("import threading, cellspan\na = 'own'\n"
             "push = threading.Thread(target=cellspan.group().push, kwargs={'a': 'lent'}); push.start()")
    call = home.expect("CALL")
    number = call.fields["call"]
    assert (sent(home, 900), sent(home, 901, number + 1)) == ("own", "own")
    home.run("a = 'newer'")
    assert (sent(home, 902), sent(home, 903, number), sent(home, 904)) == ("newer", "lent", "newer")
    assert sent(home, 903, number) == "lent", "ranks have died, and home looks again"
    home.send("RETURN", call.cell, {"call": number, "status": "ok", "content": "{}"})
    home.run("push.join(); assert a == 'newer'")
    assert sent(home, 905, number) == "newer"
