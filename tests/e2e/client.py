# SPDX-License-Identifier: BSD-3-Clause
"""A notebook as a client sees it: a kernel, its five channels, and the cells that were sent.

Every wait has a limit and nothing sleeps: the sockets are polled. Each message is assigned to the cell (or request)
that it answers, so several cells can run at the same time.
"""

from __future__ import annotations

import ast
import itertools
import os
import random
import re
import socket
import time
import uuid

import processes
import zmq
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session

KERNEL = os.environ.get("CELLSPAN_TEST_KERNEL", "cellspan")
LIMIT = 60  # seconds that a cell may take where a test gives no limit of its own
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LABELLED = re.compile(r"^\[([0-9,-]+)\] ?(.*)$", re.M)


def values(cell):
    """The cell's result as Python objects; it is to be a literal."""
    return ast.literal_eval(cell.value)


def rank_values(nb, expression, n=4, options=""):
    """The value of an expression on each rank, as Python objects."""
    return values(nb.ok("%%%%distribute -n %d --gather %s\n%s" % (n, options, expression)))


def by_rank(text):
    """{rank: the lines that it printed} of merged output. What ranks print alike has one line only where all of them
    came within 100 ms; on a busy machine one may be later, and then has a line of its own."""
    lines = {}
    for label, line in LABELLED.findall(text):
        for part in label.split(","):
            first, _, last = part.partition("-")
            for rank in range(int(first), int(last or first) + 1):
                lines.setdefault(rank, []).append(line)
    return lines


def all_print(text, line, n):
    """Whether each of ranks 0 … n-1 has printed `line`: together with others or not, as in by_rank()."""
    return all(line in by_rank(text).get(rank, ()) for rank in range(n))


# Ports that the system gives to nobody by itself: from a free one of its own range any program may take it before the kernel binds it.
# Each process of pytest has a part.
PORTS, PART, PARTS = 20000, 1500, 8
_next_port = itertools.count(random.randrange(PART))


def free_ports():
    """{option of a KernelManager: port} for the five channels of a kernel."""
    first = PORTS + PART * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % PARTS)
    return {name + "_port": next(port for port in map(lambda k: first + k % PART, _next_port) if not is_taken(port))
            for name in ("shell", "iopub", "stdin", "control", "hb")}


def is_taken(port, ip="127.0.0.1"):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((ip, port))
        except OSError:
            return True
    return False


class TooSlow(AssertionError):
    """Something did not happen within its limit; the text says what did."""


def is_status(message):
    return "cellspan-status" in message["content"].get("transient", {}).get("display_id", "")


class Cell:
    """A request and all that came back for it."""

    def __init__(self, msg_id, answer):
        self.msg_id = msg_id
        self.answer = answer  # what input() is given: text, a list of texts, or a function of the prompt
        self.begin = time.monotonic()
        self.messages = []  # of iopub, without busy and idle
        self.times = []  # seconds from begin, parallel to messages
        self.prompts = []  # contents of the input_requests
        self.reply_message = None
        self.reply_at = None
        self.idle_at = None
        self.busy_at = None

    @property
    def ended(self):
        return self.reply_message is not None and self.idle_at is not None

    @property
    def reply(self):
        assert self.reply_message is not None, "no reply yet; so far:\n%s" % self.shown
        return self.reply_message["content"]

    @property
    def status(self):
        return self.reply["status"]

    @property
    def ename(self):
        return self.reply.get("ename")

    @property
    def kept(self):
        """The messages, without the status of ranks that start: a slow start has one, and it is withdrawn before ranks run."""
        for at, message in enumerate(self.messages):
            if message["msg_type"] == "clear_output":
                shown = [m for m in self.messages[:at] if m["msg_type"] != "execute_input"]
                if shown and all(is_status(m) for m in shown):
                    return [m for m in self.messages[:at] if m not in shown] + self.messages[at + 1 :]
                break
        return self.messages

    def of(self, *kinds):
        return [m for m in self.kept if m["msg_type"] in kinds]

    def of_code(self, *kinds):
        """The same without the status, which each cell of ranks has that takes more than 2 s."""
        return [m for m in self.of(*kinds) if not is_status(m)]

    @property
    def kinds(self):
        return [m["msg_type"] for m in self.kept]

    def stream(self, name):
        return "".join(m["content"]["text"] for m in self.of("stream") if m["content"]["name"] == name)

    @property
    def stdout(self):
        return self.stream("stdout")

    @property
    def stderr(self):
        return self.stream("stderr")

    @property
    def result(self):
        """The mime bundle of the execute_result, or None."""
        found = self.of("execute_result")
        assert len(found) <= 1, found
        return found[0]["content"]["data"] if found else None

    @property
    def value(self):
        """The result's text, or None."""
        return self.result["text/plain"] if self.result else None

    @property
    def displays(self):
        """The mime bundles that are shown at the end: an updated display keeps its place and shows its last state. Not a status
        that was emptied."""
        return self.displayed(self.of)

    @property
    def displays_of_code(self):
        """The same without the status."""
        return self.displayed(self.of_code)

    @staticmethod
    def displayed(of):
        shown, places = [], {}
        for message in of("display_data", "update_display_data"):
            content = message["content"]
            place = content.get("transient", {}).get("display_id")
            if place is not None and place in places:
                shown[places[place]] = content["data"]
                continue
            if place is not None:
                places[place] = len(shown)
            if message["msg_type"] == "display_data":
                shown.append(content["data"])
        return [data for data in shown if data != {"text/plain": "", "text/html": ""}]

    @property
    def error(self):
        """The content of the error message that stands in the cell, or None."""
        found = self.of("error")
        return found[-1]["content"] if found else None

    @property
    def traceback(self):
        """The error's traceback as a user reads it: lines joined, colours removed."""
        return ANSI.sub("", "\n".join(self.error["traceback"])) if self.error else ""

    @property
    def shown(self):
        """All that a user reads under the cell, in order, without colours."""
        parts = []
        for message in self.kept:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                parts.append(content["text"])
            elif kind in ("display_data", "update_display_data", "execute_result"):
                parts.append("\n%s\n" % content["data"].get("text/plain", ""))
            elif kind == "error":
                parts.append("\n%s\n" % "\n".join(content["traceback"]))
        pages = [p["data"].get("text/plain", "") for p in self.payloads if p.get("source") == "page"]
        return ANSI.sub("", "".join(parts + pages))

    @property
    def payloads(self):
        return (self.reply_message["content"].get("payload") or []) if self.reply_message else []

    @property
    def seconds(self):
        """From the request to reply and idle."""
        return max(self.reply_at, self.idle_at)

    def assert_ok(self):
        assert self.status == "ok", "%s: %s: %s\n%s" % (self.status, self.ename, self.reply.get("evalue"), self.shown)
        return self

    def assert_error(self, ename):
        assert self.status == "error" and self.ename == ename, "wanted %s, got %s\n%s" % (ename, self.reply, self.shown)
        return self


class Client:
    """The channels of one client; cells are dispatched by the header of their parent."""

    def __init__(self, blocking_client):
        self.kc = blocking_client
        self.kc.start_channels(hb=False)
        self.cells = {}
        self.strays = []  # messages that answer nothing that this client sent
        self.channels = {
            name: getattr(self.kc, name + "_channel") for name in ("shell", "control", "stdin", "iopub")
        }
        self.poller = zmq.Poller()
        for channel in self.channels.values():
            self.poller.register(channel.socket, zmq.POLLIN)

    def close(self):
        self.kc.stop_channels()

    # -- sending

    def send(self, kind, content=None, channel="shell", answer=None, header=None, metadata=None, buffers=None):
        """Sends any message; what comes back for it gathers in the Cell that is returned. Its id is like a page's: jupyter_client
        would put the number of this process into it, as a server does for the cells that it runs itself."""
        message = self.kc.session.msg(kind, content or {}, metadata=metadata)
        message["header"].update({"msg_id": uuid.uuid4().hex, **(header or {})})
        cell = Cell(message["header"]["msg_id"], answer)
        self.cells[cell.msg_id] = cell
        self.kc.session.send(self.channels[channel].socket, message, buffers=buffers)
        return cell

    def start(self, code, answer=None, metadata=None, **options):
        """Sends a cell and returns at once."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": answer is not None,
            "stop_on_error": True,
        }
        content.update(options)
        return self.send("execute_request", content, answer=answer, metadata=metadata)

    def run(self, code, limit=LIMIT, answer=None, **options):
        """Runs a cell to its end, whatever that is."""
        return self.wait(self.start(code, answer, **options), limit)

    def ok(self, code, limit=LIMIT, **options):
        """Runs a cell that must end well."""
        return self.run(code, limit, **options).assert_ok()

    def request(self, kind, content=None, channel="shell", limit=LIMIT, **options):
        """A request and its reply's content."""
        cell = self.send(kind, content, channel, **options)
        self.wait(cell, limit, lambda: cell.reply_message is not None)
        return cell.reply

    def control(self, kind, content=None, limit=LIMIT):
        return self.request(kind, content, "control", limit)

    # -- receiving

    def turn(self, seconds):
        """Takes what comes within `seconds` (the first messages of each channel); True when something did."""
        ready = dict(self.poller.poll(max(0, seconds * 1000)))
        for name, channel in self.channels.items():
            if channel.socket in ready:
                self.take(name, channel.get_msg(timeout=0))
        return bool(ready)

    def take(self, name, message):
        cell = self.cells.get((message["parent_header"] or {}).get("msg_id"))
        if cell is None:
            self.strays.append(message)
            return
        now, content = time.monotonic() - cell.begin, message["content"]
        if name in ("shell", "control"):
            cell.reply_message, cell.reply_at = message, now
        elif name == "stdin":
            cell.prompts.append(content)
            self.reply_input(cell, content)
        elif message["msg_type"] == "status":
            if content["execution_state"] == "idle":
                cell.idle_at = now
            else:
                cell.busy_at = now
        else:
            cell.messages.append(message)
            cell.times.append(now)

    def reply_input(self, cell, content):
        answer = cell.answer
        if callable(answer):
            answer = answer(content["prompt"])
        elif isinstance(answer, list):
            answer = answer.pop(0)
        if answer is not None:
            self.kc.input(answer)

    def wait(self, cell, limit=LIMIT, until=None):
        """Takes messages until the cell has ended (or until() holds), at most `limit` seconds."""
        if not self.until(until or (lambda: cell.ended), limit):
            raise TooSlow("not within %.1f s; reply %s, idle %s, so far:\n%s" % (
                limit, cell.reply_message is not None, cell.idle_at is not None, cell.shown[-4000:]))
        return cell

    def until(self, holds, limit=LIMIT):
        """Takes messages until holds() gives something true, at most `limit` seconds; gives what it gave last."""
        deadline = time.monotonic() + limit
        while True:
            found = holds()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            self.turn(min(left, 0.25))

    def wait_shown(self, cell, text, limit=LIMIT):
        """Waits until `text` stands under the cell: of a line of ranks that is true with the first of them."""
        return self.wait(cell, limit, lambda: text in cell.shown)

    def wait_ranks(self, cell, line, n=4, limit=LIMIT):
        """Waits until each of ranks 0 … n-1 has printed `line`: they may be seconds apart."""
        return self.wait(cell, limit, lambda: all_print(cell.stdout, line, n))

    def ok_folded(self, code, want, limit=LIMIT):
        """Runs a cell that must end well and whose ranks print alike, until their lines came within 100 ms of one another
        and `want` is all that is shown; each time every rank has printed."""
        deadline = time.monotonic() + limit
        while True:
            cell = self.ok(code)
            assert by_rank(cell.stdout) == by_rank(want), cell.stdout
            if cell.stdout == want:
                return cell
            assert time.monotonic() < deadline, "the ranks' lines are not folded:\n" + cell.stdout

    def run_until(self, code, holds, limit=LIMIT, **options):
        """Runs a cell again and again until holds(cell): for what is so where all ranks are alike in time, as those that fail
        within 200 ms of one another. On a busy machine one may be later, and is interrupted instead."""
        deadline = time.monotonic() + limit
        while True:
            cell = self.run(code, limit, **options)
            if holds(cell):
                return cell
            assert time.monotonic() < deadline, cell.shown

    def quiet(self, seconds=0.3):
        """Takes messages until nothing came for `seconds`."""
        while self.turn(seconds):
            pass


class Notebook(Client):
    """A kernel of its own and a client of it. output: a file for what the kernel itself writes. arguments: more of them for
    its command line, as clients add some."""

    def __init__(self, kernel=KERNEL, env=None, cwd=None, limit=60, output=None, arguments=(), **manager):
        while True:
            self.marker = uuid.uuid4().hex
            ports = {} if manager.get("transport", "tcp") != "tcp" else dict(free_ports(), cache_ports=False)
            self.km = KernelManager(kernel_name=kernel, **ports, **manager)
            whole = dict(os.environ, **{processes.MARKER: self.marker}, **(env or {}))
            self.km.start_kernel(env=whole, cwd=cwd, stdout=output, stderr=output, extra_arguments=list(arguments))
            super().__init__(self.km.client())
            try:
                return self.ready(limit)
            except AssertionError:
                if not self.lost_port():
                    raise
            self.close()

    def lost_port(self):
        """Whether the kernel ended and somebody else has one of its ports: they are free when the manager names them,
        and until the kernel binds them anybody may."""
        if self.km.is_alive() or self.km.transport != "tcp":
            return False
        return any(is_taken(port, self.km.ip) for port in self.km.ports)

    def ready(self, limit=60):
        """Waits until the kernel answers and this client hears its iopub."""
        deadline = time.monotonic() + limit
        asked = []
        while True:
            asked.append(self.send("kernel_info_request"))  # nobody hears what is published before the subscription
            answered = self.until(lambda: [cell for cell in asked if cell.ended], 1.0)
            if answered:
                self.info = answered[0].reply
                return
            if not self.km.is_alive():
                raise AssertionError("the kernel ended as it started")
            if time.monotonic() > deadline:
                raise TooSlow("the kernel did not answer within %.0f s" % limit)

    @property
    def pid(self):
        return self.km.provisioner.pid

    def fine(self):
        """Whether the kernel still does its work: for the next test. If not, not_fine says why."""
        if not self.km.is_alive():
            self.not_fine = "the last one has ended"
            return False
        try:
            cell = self.run("pass", silent=True)
            self.not_fine = "the last one answered %s\n%s" % (cell.reply, cell.shown)
            return cell.status == "ok"
        except (TooSlow, AssertionError) as error:
            self.not_fine = "the last one: %s" % error
            return False

    def second_client(self):
        # A session of its own: the session's number is the identity that replies are routed by.
        session = Session(key=self.km.session.key, signature_scheme=self.km.session.signature_scheme)
        other = Client(self.km.client(session=session))
        cell = other.send("kernel_info_request")
        other.wait(cell, LIMIT, lambda: cell.reply_message is not None)
        # Until its subscription has arrived, a client hears nothing.
        while cell.idle_at is None:
            cell = other.send("kernel_info_request")
            other.wait(cell, LIMIT, lambda: cell.reply_message is not None)
            other.until(lambda: cell.idle_at is not None, 0.3)
        return other

    def rank_pids(self, n, options=""):
        """The process numbers of ranks 0 … n-1."""
        cell = self.ok("%%%%distribute -n %d --gather %s\nimport os\nos.getpid()" % (n, options))
        return [int(word) for word in re.findall(r"\d+", cell.value)]

    def home_pid(self):
        return int(self.ok("import os; os.getpid()").value)

    def close(self):
        """Ends the kernel; then nobody may be left."""
        try:
            super().close()
            self.km.shutdown_kernel(now=True)
            self.left = processes.gone(self.marker)
        finally:
            processes.kill_all(self.marker)
            self.km.cleanup_resources()
