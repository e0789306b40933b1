# SPDX-License-Identifier: BSD-3-Clause
"""Messages that are unsigned, wrongly signed, cut off, repeated, random or huge do no harm."""

from __future__ import annotations

import json
import os
import random

import processes
import pytest
import zmq

DELIMITER = b"<IDS|MSG>"
LIMIT = 60_000  # milliseconds for what takes a few; far off, to catch what hangs


@pytest.fixture
def raw(nb):
    """A DEALER of our own on shell or control, that may say anything."""
    sockets = []

    def connect(channel="shell", socket_type=zmq.DEALER):
        socket = zmq.Context.instance().socket(socket_type)
        socket.connect("tcp://%s:%d" % (nb.km.ip, getattr(nb.km, channel + "_port")))
        sockets.append(socket)
        return socket

    yield connect
    for socket in sockets:
        socket.close(linger=0)


def good(nb, kind="kernel_info_request", content=None):
    """A message as it should be: delimiter, signature, four parts."""
    return nb.kc.session.serialize(nb.kc.session.msg(kind, content or {}))


def unanswered(nb, socket, frames, milliseconds=300):
    socket.send_multipart(frames)
    assert not socket.poll(milliseconds), socket.recv_multipart()
    assert nb.ok("6 * 7").value == "42"


@pytest.mark.parametrize("channel", ["shell", "control"])
def test_a_good_message_of_a_stranger_with_the_key_is_answered(nb, raw, channel):
    socket = raw(channel)
    socket.send_multipart(good(nb))
    assert socket.poll(LIMIT)


@pytest.mark.parametrize("channel", ["shell", "control", "stdin"])
def test_unsigned_and_wrongly_signed_messages_are_not_answered(nb, raw, channel):
    frames = good(nb)
    for signature in (b"", b"0" * 64, b"x", frames[1][:-1] + b"?", frames[1].upper() + b"0"):
        unanswered(nb, raw(channel), [frames[0], signature] + frames[2:])


def test_a_changed_message_is_not_answered(nb, raw):
    frames = good(nb, "execute_request", {"code": "harm = 1", "silent": False})
    frames[-1] = frames[-1].replace(b"harm = 1", b"harm = 2")
    unanswered(nb, raw(), frames)
    nb.run("harm").assert_error("NameError")


@pytest.mark.parametrize("channel", ["shell", "control"])
def test_a_repeated_message_is_answered_once(nb, raw, channel):
    socket, frames = raw(channel), good(nb)
    socket.send_multipart(frames)
    assert socket.poll(LIMIT)
    socket.recv_multipart()
    unanswered(nb, socket, frames)
    unanswered(nb, raw(channel), frames)  # nor for somebody else


def test_cut_messages_are_not_answered(nb, raw):
    frames = good(nb)
    for n in range(1, len(frames)):
        unanswered(nb, raw(), frames[:n], 100)
    unanswered(nb, raw(), [b""], 100)


def signed(nb, parts):
    return [DELIMITER, nb.kc.session.sign(parts)] + parts


@pytest.mark.parametrize(
    "part",
    [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b'{"msg_id": 5}', b'{"a":' * 5000, b"[" * 100_000, b'{"x": 1e999}', b"{}\0{}"],
    ids=lambda part: repr(part[:12]),
)
def test_signed_junk_in_each_part_harms_nobody(nb, raw, part):
    """Who has the key may be broken all the same."""
    whole = good(nb)[2:]
    for i in range(4):
        parts = list(whole)
        parts[i] = part
        socket = raw()
        socket.send_multipart(signed(nb, parts))
        socket.poll(100)
    assert nb.ok("6 * 7").value == "42"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"code": 5},
        {"code": None},
        {"code": "1", "silent": "maybe", "store_history": [], "user_expressions": 3},
        {"code": "1", "user_expressions": {"a": 1}},
        {"code": "\ud800"},
    ],
    ids=repr,
)
def test_requests_of_the_wrong_shape_harm_nobody(nb, content):
    for kind in ("execute_request", "complete_request", "inspect_request", "is_complete_request", "history_request", "comm_open", "comm_msg", "comm_info_request"):
        try:
            nb.send(kind, content)
        except UnicodeError:
            return  # this client can't say it
    nb.run("pass")  # aborted, perhaps, as one of those before it failed
    assert nb.ok("6 * 7").value == "42"


@pytest.mark.parametrize("pos", [-1, 10**6, 2**40, "x", None, 1.5])
def test_positions_beyond_the_text_harm_nobody(nb, pos):
    for kind in ("complete_request", "inspect_request"):
        for code in ("print", "%%distribute -n", "\U0001d7d8"):
            nb.send(kind, {"code": code, "cursor_pos": pos, "detail_level": 0})
    nb.quiet(0.3)
    assert nb.ok("6 * 7").value == "42"


def test_garbage_on_every_channel_harms_nobody(nb, raw):
    r = random.Random(3)
    for channel in ("shell", "control", "stdin"):
        for _ in range(100):
            raw_frames = [r.randbytes(r.randrange(200)) for _ in range(r.randrange(1, 9))]
            if r.random() < 0.5:
                raw_frames.insert(r.randrange(len(raw_frames) + 1), DELIMITER)
            raw(channel).send_multipart(raw_frames)
    listener = raw("iopub", zmq.XSUB)
    listener.send(b"\x07what is this")
    heart = raw("hb", zmq.REQ)
    heart.send(os.urandom(5000))
    assert heart.poll(LIMIT)
    assert nb.ok("6 * 7").value == "42"


def test_a_gigantic_message_is_refused_and_the_kernel_does_not_grow(nb, raw):
    before = processes.pss(nb.pid)
    socket = raw()
    socket.send_multipart([DELIMITER, b"0" * 64, b"{}", b"{}", b"{}", b"x" * (300 << 20)])
    socket.send_multipart(good(nb))  # its answer says that the kernel has done with what came before it
    assert socket.poll(LIMIT)
    socket.recv_multipart()
    assert not socket.poll(300)
    assert nb.ok("6 * 7").value == "42"
    assert processes.wait_until(lambda: processes.pss(nb.pid) - before < 64, 60), processes.pss(nb.pid) - before
    # one that is signed, and too big to be a cell
    cell = nb.send("execute_request", {"code": "#" + "y" * (100 << 20), "silent": False})
    try:
        nb.wait(cell, 8, lambda: cell.reply_message is not None)
    except AssertionError:
        pass  # refused in silence
    assert nb.ok("6 * 7").value == "42"


def test_thousands_of_frames_are_refused(nb, raw):
    frames = good(nb)
    unanswered(nb, raw(), frames + [b"buffer"] * 20_000)


def test_a_tcp_client_that_speaks_no_zeromq_harms_nobody(nb):
    import socket

    for channel in ("shell", "control", "stdin", "iopub", "hb"):
        with socket.create_connection((nb.km.ip, getattr(nb.km, channel + "_port"))) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + os.urandom(1000))
    assert nb.ok("6 * 7").value == "42"


def test_what_is_refused_is_logged_without_its_content(fresh, tmp_path):
    log = tmp_path / "kernel.log"
    with open(log, "wb") as file:
        notebook = fresh(output=file)
    frames = good(notebook, "execute_request", {"code": "very_secret_text = 1"})
    frames[1] = b"0" * 64
    for _ in range(50):
        notebook.channels["shell"].socket.send_multipart(frames)
    assert notebook.ok("6 * 7").value == "42"
    notebook.close()
    text = log.read_text()
    assert "very_secret_text" not in text and notebook.km.session.key.decode() not in text
    assert len(text.splitlines()) <= 5, text


def test_an_empty_key_means_unsigned(fresh):
    from jupyter_client.session import Session

    notebook = fresh(session=Session(key=b""))
    assert notebook.ok("6 * 7").value == "42"


def test_a_client_that_reconnects_with_the_same_identity_is_answered(nb):
    socket = zmq.Context.instance().socket(zmq.DEALER)
    for _ in range(3):
        socket = zmq.Context.instance().socket(zmq.DEALER)
        socket.identity = b"the same one"
        socket.connect("tcp://%s:%d" % (nb.km.ip, nb.km.shell_port))
        socket.send_multipart(good(nb))
        assert socket.poll(LIMIT)
        reply = socket.recv_multipart()
        assert json.loads(reply[reply.index(DELIMITER) + 2])["msg_type"] == "kernel_info_reply"
        socket.close(linger=0)
