# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._link alone. Each test has a process of its own, since a process can have only one link."""

import mmap
import os
import subprocess
import sys
import textwrap
import weakref

import numpy
import pytest

from cellspan import _link as link

START = """
import os, signal, socket, sys, time
from cellspan import _link
agent, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
_link.start(worker.detach(), lambda: None)
def tell(*args, **kw): agent.send(b"\\0" + _link.encode(*args, **kw))
"""


def run(code):
    """Runs the code beside a started link; its output. It must end well."""
    script = START + textwrap.dedent(code) + "\nsys.stdout.flush()\n_link.stop()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, start_new_session=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_setting_is_read_by_its_name(monkeypatch):
    monkeypatch.setenv("CELLSPAN_PRELOAD", "a,b")
    monkeypatch.delenv("CELLSPAN_HOROVOD", raising=False)
    assert link.setting("CELLSPAN_PRELOAD") == "a,b" and link.setting("CELLSPAN_HOROVOD") == ""
    for name in ("CELLSPAN_NOTHING", "PATH"):
        with pytest.raises(ValueError, match=name):
            link.setting(name)


def test_what_is_encoded_is_decoded():
    fields = {"type": "t", "content": "é\0\U0001f600", "buffers": [b"", b"\0\xff"], "count": 2**64 - 1}
    kind, cell, worker, blob, fd, size, back = link.decode(link.encode("REQUEST", 5, fields, 7))
    assert (kind, cell, worker, blob, fd, size) == ("REQUEST", 5, 7, 0, -1, 0)
    assert back == dict(fields, header="", metadata="", flags=0)


@pytest.mark.parametrize("kind, fields", [("NOPE", {}), ("PACK", {"names": 3}), ("PACK", {"names": "x" * (1 << 20) + "x"}), ("BIND", {"how": -1}), ("REPLY", {"buffers": 3})])
def test_what_cannot_be_a_message_is_refused(kind, fields):
    with pytest.raises((ValueError, TypeError, OverflowError)):
        link.encode(kind, 0, fields)


def test_text_that_is_no_unicode_is_sent_replaced():
    assert link.decode(link.encode("PACK", 0, {"names": "a\ud800"}))[6]["names"] == "a?"


def test_bytes_that_are_no_message_are_refused():
    good = link.encode("PACK", 1, {"names": "abc"})
    for n in range(len(good)):
        with pytest.raises(ValueError):
            link.decode(good[:n])
    with pytest.raises(ValueError):
        link.decode(good + b"x")


def test_no_step_waits_when_the_kernel_has_called_it_off_also_before_python_sees_that():
    assert run("""
        tell("COUNT", 7)
        agent.recv(1000)
        first = _link.step()
        tell("MEET", 7, {"how": _link.MEET_OFF})
        while _link.steps_asked():
            time.sleep(0.01)
        tell("COUNT", 7)
        agent.recv(1000)
        print(first, _link.step())
    """) == "1 2\n"


def test_a_cell_that_has_not_come_yet_has_made_no_step():
    assert run("""
        def counted(cell):
            tell("COUNT", cell)
            return _link.decode(agent.recv(1000)[1:])[6]["step"]
        tell("RUN", 7)
        assert _link.wait(60) and _link.recv()[1] == 7
        _link.step(), _link.step()
        seven, eight = counted(7), counted(8)
        tell("RUN", 8)
        assert _link.wait(60) and _link.recv()[1] == 8
        print(seven, eight, _link.step())
    """) == "2 0 1\n"


def test_buffers_are_compared():
    assert link.equal(b"abc", memoryview(bytearray(b"abc")))
    assert not link.equal(b"abc", b"abd") and not link.equal(b"abc", b"ab")
    with pytest.raises(TypeError):
        link.equal("abc", b"abc")


def test_messages_arrive_in_order_and_wake_the_descriptor():
    run(
        """
        import select
        assert not select.select([_link.fileno()], [], [], 0)[0] and not _link.wait(0.01)
        for n in range(100): tell("PACK", n)
        for n in range(100):
            assert _link.wait(60) and select.select([_link.fileno()], [], [], 0)[0]
            assert _link.recv()[1] == n
        assert _link.recv() is None and not select.select([_link.fileno()], [], [], 0)[0]
        """
    )


def test_a_message_over_a_packet_travels_in_memory_beside_it():
    run(
        """
        _link.send("REPLY", 1, {"content": "x" * 1000000})
        data, fds, _, _ = socket.recv_fds(agent, 65536, 2)
        assert data[0] == 1 and int.from_bytes(data[1:9], "little") > 1000000 and len(fds) == 1
        assert _link.decode(os.pread(fds[0], 1 << 21, 0))[6]["content"] == "x" * 1000000
        """
    )


def test_a_send_that_nobody_reads_can_be_interrupted_and_goes_on_when_somebody_does():
    assert run(
        """
        import threading
        signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(TimeoutError()))
        _link.stop()
        agent, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        beside = worker.dup()
        _link.start(worker.detach(), lambda: None)
        sent = 0
        try:
            while True:
                beside.send(b"\\0" + _link.encode("REPLY", sent, {"content": "x" * 30000}), socket.MSG_DONTWAIT)
                sent += 1
        except BlockingIOError:
            pass
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            _link.send("REPLY", sent, {"content": "x" * 30000})
            print("it was sent")
        except TimeoutError:
            pass
        got = []
        def read():
            while len(got) <= sent: got.append(_link.decode(agent.recv(65536)[1:])[1])
        t = threading.Thread(target=read); t.start()
        _link.send("REPLY", sent, {"content": ""})
        t.join()
        assert got == list(range(sent + 1)), got
        """
    ) == ""


def test_an_interrupt_is_a_signal_from_begin_to_end_and_never_later():
    run(
        """
        hits = 0
        for n in range(200):
            try:
                _link.begin(3)
                tell("INTERRUPT", 3)
                time.sleep(600)
            except KeyboardInterrupt:
                hits += 1
            _link.end(3)
            try:
                _link.begin(4)
                tell("INTERRUPT", 3)
                tell("INTERRUPT", 4)
            except KeyboardInterrupt:
                pass
            _link.end(4)
            tell("INTERRUPT", 4)
        assert hits == 200
        time.sleep(0.05)
        """
    )


def test_an_interrupt_that_comes_before_begin_is_a_signal_when_its_cell_begins():
    run(
        """
        hits = 0
        for n in range(1, 101):
            tell("RUN", n)
            tell("INTERRUPT", n)
            tell("PACK", n)
            for _ in range(2):
                assert _link.wait(60) and _link.recv()[1] == n  # and so the interrupt has been read
            _link.begin(1000 + n)
            assert not _link.end(1000 + n)
            try:
                _link.begin(n)
                time.sleep(0)
            except KeyboardInterrupt:
                hits += 1
            assert not _link.end(n)
        assert hits == 100, hits
        tell("INTERRUPT", 7)  # of what did not come, or is over
        tell("INTERRUPT", 100)
        tell("RUN", 101)
        assert _link.wait(60) and _link.recv()[1] == 101
        for n in (7, 101):
            _link.begin(n)
            assert not _link.end(n)
        """
    )


def test_an_interrupt_that_comes_while_it_is_held_is_a_signal_when_it_is_let():
    run(
        """
        hits = 0
        for n in range(1, 201):
            came = []
            _link.begin(n)
            try:
                try:
                    _link.hold()
                    tell("RETURN", n)
                    tell("INTERRUPT", n)
                    tell("RETURN", n)
                    while len(came) < 2:  # the interrupt has been read when the second one comes
                        came += [message for message in [_link.recv()] if message]
                    came.append("all")
                finally:
                    _link.release()
            except KeyboardInterrupt:
                hits += 1
            _link.end(n)
            assert came[-1:] == ["all"], came
        assert hits == 200, hits
        """
    )


def test_an_interrupt_does_not_divide_an_import_of_ours(tmp_path):
    """The module has the interrupt read while it is imported. If it were divided, it would run again in the next import."""
    (tmp_path / "once.py").write_text("import __main__\n__main__.begun.append(1)\n__main__.interrupt()\n__main__.ran.append(1)\n")
    assert run(
        f"""
        sys.path.insert(0, {str(tmp_path)!r})
        from cellspan._base import imports
        begun, ran = [], []
        def interrupt():
            tell("INTERRUPT", 1)
            tell("PACK")
            while _link.recv() is None: pass
        try:
            _link.begin(1)
            imports.whole("once")
        except KeyboardInterrupt:
            print("interrupted")
        print(_link.end(1), _link.held(), imports.whole("once") is sys.modules["once"], begun, ran)
        _link.begin(2)
        _link.hold()
        imports.whole("once")
        print(_link.held())  # what others hold stays so
        _link.release()
        print(_link.held())
        _link.end(2)
        """
    ) == "interrupted\nFalse False True [1] [1]\nTrue\nFalse\n"


def test_an_interrupt_ends_a_wait_that_begins_before_python_has_checked_for_it():
    """qsort() calls pause() as its comparison, twice or more: between these calls Python has no chance to handle the signal."""
    assert run("""
    import ctypes, threading
    libc = ctypes.CDLL(None)
    items = ctypes.create_string_buffer(b"cab")
    _link.begin(1)
    threading.Timer(0.2, tell, ("INTERRUPT", 1)).start()
    try:
        libc.qsort(items, ctypes.c_size_t(3), ctypes.c_size_t(1), libc.pause)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
    _link.end(1)
    """) == "interrupted\n"


def test_a_program_keeps_its_handler_of_the_signal_that_wakes():
    assert run("""
    came = []
    signal.signal(signal.SIGURG, lambda *args: came.append(args))
    _link.begin(1)
    try:
        tell("INTERRUPT", 1)
        while True:  # nothing wakes a wait that begins just after the SIGINT
            time.sleep(0.01)
    except KeyboardInterrupt:
        time.sleep(0.2)
    _link.end(1)
    print(came)
    """) == "[]\n"


def test_cells_may_be_nested_and_not_without_end():
    run(
        """
        for n in range(16): _link.begin(n + 1)
        try:
            _link.begin(99)
            raise SystemExit(1)
        except RuntimeError: pass
        for n in range(16): _link.end(n + 1)
        _link.begin(1); _link.end(1)
        """
    )


def test_connections_are_cut_by_their_inodes_and_others_are_not():
    run(
        """
        a, b = socket.socketpair(); c, d = socket.socketpair()
        tell("CUT_SOCKETS", 0, {"inodes": os.fstat(a.fileno()).st_ino.to_bytes(8, "little")})
        b.settimeout(60)
        assert b.recv(1) == b""
        d.setblocking(False)
        try:
            d.recv(1)
            raise SystemExit(1)
        except BlockingIOError: pass
        """
    )


def test_text_is_flushed_by_a_timer_only_while_a_cell_runs():
    run(
        """
        _link.stop()
        calls = []
        agent, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _link.start(worker.detach(), lambda: calls.append(1))
        def until(n):
            limit = time.monotonic() + 30
            while len(calls) < n:
                assert time.monotonic() < limit, calls
                time.sleep(0.005)
        begun = time.monotonic()
        _link.begin(1); until(4); _link.end(1)
        assert len(calls) <= 3 + (time.monotonic() - begun) / 0.05, calls
        n = len(calls); time.sleep(0.2); assert len(calls) <= n + 1  # nothing runs
        time.sleep(1.2)  # long enough for the timer's thread to rest
        _link.begin(2); until(n + 2); _link.end(2)
        """
    )


def test_a_worker_ends_with_its_agent_even_while_python_is_stuck():
    script = START + "import ctypes\nagent.close()\nctypes.PyDLL(None).sleep(600)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, start_new_session=True)
    assert done.returncode == -9


def test_a_fork_has_no_link():
    out = run(
        """
        pid = _link.fork()
        if pid == 0:
            _link.after_fork_child()
            try: _link.send("SYNC")
            except _link.LinkDead: os._exit(7 if not _link.alive() and _link.recv() is None else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print("parent lives"); _link.send("SYNC")
        """
    )
    assert out == "parent lives\n"


def test_a_namespace_tells_what_was_bound():
    names = {"a": 1, "b": [], "_i1": "x", "_7": 2, "__x__": 0, "_oh": {}, "_w": 5, 3: 4, "": 5, "c": None, "é": "f", "In": [""], "Out": {}}
    before = link.marks(names)
    assert sorted([*before[0], *before[1]]) == ["_w", "a", "b", "c", "é"]
    assert link.rebound(names, before) == []
    names["b"] = [1]
    names["new"] = names["_i2"] = names["_iii"] = 3
    names["_w"] = 6
    del names["a"]
    names["a"] = "2"
    names["Out"][7] = names["_"] = "a result"
    names["In"].append("7")
    assert sorted(link.rebound(names, before)) == ["_w", "a", "b", "new"]
    with pytest.raises(TypeError):
        link.rebound(names, None)
    with pytest.raises(TypeError):
        link.rebound({"a": 1}, ({}, []))


class Plain:
    pass


@pytest.mark.parametrize(
    "make", [lambda k: [k, k], lambda k: [[k], 0], lambda k: [Plain()], lambda k: {"k": k}, lambda k: (k, k), lambda k: "x" * 9000 + str(k), lambda k: k + 0.5, lambda k: 10**9 + k, lambda k: Plain(), lambda k: numpy.float64(k), lambda k: numpy.float32(k)]
)
def test_another_object_at_the_same_place_is_another(make):
    """What was there before is freed as soon as the name gets another value, and memory is used again."""
    names = {"n": make(0)}
    for k in range(1, 200):
        before, old = link.marks(names), id(names["n"])
        for again in range(5):
            names["n"] = None
            names["n"] = make(1000 * k + again)
        assert link.rebound(names, before) == ["n"], (k, id(names["n"]) == old)


def test_a_change_in_place_binds_nothing():
    names = {"l": [1], "d": {"a": 1}, "b": bytearray(3)}
    before = link.marks(names)
    names["l"].append(Plain())
    names["d"]["b"] = [2]
    names["b"][0] = 1
    assert link.rebound(names, before) == []


def test_what_a_name_had_is_freed_with_it():
    names = {"n": Plain(), "box": [Plain()]}
    inner = weakref.ref(names["n"]), weakref.ref(names["box"][0])
    before = link.marks(names)
    names.clear()
    assert [ref() for ref in inner] == [None, None] and before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages were written")
def test_a_private_mapping_tells_what_was_written(tmp_path):
    page = mmap.PAGESIZE
    file = tmp_path / "bytes"
    file.write_bytes(os.urandom(3000 * page))
    with open(file, "rb") as opened:
        memory = memoryview(mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    assert link.written(memory) == []
    assert link.written(memory[:0]) == []
    assert memory[5] + memory[page * 9] >= 0, "reading writes nothing"
    assert link.written(memory) == []
    memory[page + 5] = memory[2 * page + 5] = memory[2500 * page] = 1
    assert link.written(memory) == [(page, 2 * page), (2500 * page, page)]
    assert link.written(memory[page + 7 : 2 * page + 9]) == [(0, page + 2)]
    assert link.written(memory[3 * page : 2500 * page]) == []
    memory[-1] = 3
    assert link.written(memory[2999 * page + 1 :]) == [(0, page - 1)]
    assert link.address(memory[page:]) == link.address(memory) + page
