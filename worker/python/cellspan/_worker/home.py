# SPDX-License-Identifier: BSD-3-Clause
"""Home: the notebook's own interpreter. It serves Jupyter's requests, and the requests of distributed cells."""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import importlib.util
import os
import sys
import threading
import time
import weakref

from .. import _link
from .._base import shadows, versions
from .._base.errors import in_words, text_of
from .._base.imports import when_imported
from .._capture import class_versions, lent
from .._capture.reads import refuse_what_is_no_python
from .._jupyter import fake_ipykernel, fake_zmqshell, real_ipykernel, requests
from .._jupyter.clients import Kernel
from .._jupyter.comms import Comms
from .._jupyter.prepare_jedi import END_LIMIT, Jedi
from . import cpp_builds, environment, idle_questions, reloads, spark_session, spawned
from .begin import begin_collecting, begin_process, begin_within_limits
from .execution import Cell, ignore_errors, own_error
from .follow import Lead
from .home_calls import Calls, may_send_code
from .publish import to_json, unshown
from .shell import ZMQInteractiveShell
from .startup import run_startup, shell_config
from .wanted import Wanted
from .worker import Waiting, _current, loads, parent_of

_OWN = "_cellspan_cell"  # attribute of a thread: the number of the cell that started it
_POOLS = ("cellspan.", "concurrent.futures.", "multiprocessing.")  # threads of these modules belong to no cell
VERSION = ".".join(map(str, sys.version_info[:3]))
TAB = ("complete_request", "inspect_request")
A_MOMENT = 0.02  # seconds between two checks of a Tab that waits
RECENT = 64  # number of requests to which late output may still belong: kernel/notebook/notebook.h
GATHERED = (_link.BIND_MORE, _link.BIND_LAST, _link.BIND_LISTS)  # BINDs of values that become lists


class Home(Calls):
    """HANDLERS lists the messages that it serves."""

    HANDLERS = {
        "REQUEST": "_request",
        "CAPTURE": "_capture",
        "PACK": "_pack",
        "BIND": "_bind",
        "NEWER": "_newer",
        "HANDED": "_handed",
        "EXIT": "_exit",
    }
    CELL = "REQUEST"

    def __init__(self, fd):
        super().__init__()
        begin_process("home")
        class_versions.side, class_versions.is_older = class_versions.HOME, reloads.imported.is_older
        cpp_builds.meet()
        versions.watch()
        when_imported("mpi4py.MPI", self._remove_mpi_names)
        self.start(fd)
        self.shell = ZMQInteractiveShell.instance(worker=self, config=shell_config("home"))
        fake_zmqshell.install(ZMQInteractiveShell)
        fake_ipykernel.install(self)
        self.comms = Comms(self)
        self.shell.kernel = Kernel(self)
        spawned.watch(self.shell.user_ns)
        real_ipykernel.watch(self)
        self._gathered = {}  # values of BINDs of one cell, until the last; None: one of them could not be taken
        self._lead = Lead(self.shell)
        self.jedi = Jedi(self.shell, self._wait_idle)
        self._stopped = ()  # the last distributed cells of which a step here was interrupted
        self.streams.owners(self.number, self._tell_output_parent)
        self._tag_threads()
        self._requests = collections.deque(maxlen=RECENT)  # (number, header as JSON)
        self.after_ranks = False  # the last cell ran on ranks
        self._capturer = None  # made for the first distributed cell
        self._torch = False
        self._expecting = False  # _expect_values() has been called
        self._hook_input()
        self._add_magics()
        self.subshells = None  # the Subshells, once a client has made one

    def _add_magics(self):
        from .._jupyter import clientmagics, kernelmagics, scattermagics

        kernelmagics.register(self)
        scattermagics.register(self)
        clientmagics.register(self)

    def _hook_input(self):
        builtins.input = self._input
        when_imported("getpass", lambda: setattr(sys.modules["getpass"], "getpass", self._getpass))

    def _remove_mpi_names(self):
        from . import mpi

        mpi.remove_names()

    def run(self):
        """Sends READY, then serves messages until the process ends."""
        info = {
            "prefix": sys.prefix,
            "executable": sys.executable,
            "hostname": os.uname().nodename,
            "cwd": environment.folder(),
            "language_info": environment.language_info(),
            "debugger": importlib.util.find_spec("debugpy") is not None,
        }
        begin_collecting()
        self.send("READY", 0, {"pid": os.getpid(), "python": VERSION, "info": to_json(info)})
        environment.search_path()
        self._lead.paths.begin()
        run_startup(self.shell)
        self.streams.flush()
        _link.subshells(self._for_subshells)
        _link.finds(self.has_no_code)
        self.serve()

    def _for_subshells(self):
        """Something has come for subshells. Called in a thread that is not Python's, so that the main thread may be busy."""
        if self.subshells is None:
            from .subshells import Subshells

            self.subshells = Subshells(self)
        self.subshells.take()

    def exclusive(self, message):
        return message.kind == "REQUEST" and message.fields["type"] == "execute_request"

    def failed(self, kind, number, error):
        if kind in ("REQUEST", "BIND"):
            own = own_error(self.cell, number) if kind == "REQUEST" else None
            self._reply(number, {"status": "error", **own} if own else failure(type(error).__name__, text_of(error)))
        elif kind == "CAPTURE":
            self.send("CAPTURED", number, {"names": to_json({"error": in_words(error)})})
        elif kind == "PACK":
            self.send("PACKED", number, {"error": in_words(error)})

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _handle(self, message):
        __tracebackhide__ = True
        kind = message.fields["type"] if message.kind == "REQUEST" else message.kind
        self.jedi.before(kind)
        super()._handle(message)
        if self.running is None:
            self.jedi.after(kind)

    def _wait_idle(self, done, seconds):
        """Waits until done(), at most so long. A message that is not about Tab ends the wait, and so does an interrupt."""
        end = time.monotonic() + seconds
        if self.cell is not None or threading.current_thread() is not self.main_thread:
            return
        while not done() and time.monotonic() < end:
            self._collect()
            if any(message.kind != "REQUEST" or message.fields["type"] not in TAB for message in tuple(self._queue)):
                return
            _link.wait(A_MOMENT)

    def _request(self, message):
        number, fields = message.cell, message.fields
        kind = fields["type"]
        content = loads(fields["content"])
        self._requests.append((number, fields["header"]))
        if kind == "execute_request":
            self._execute(number, fields, content)
        elif kind in ("comm_open", "comm_msg", "comm_close"):
            self._serve_request(number, fields, lambda: self._comm(kind, fields, content))
        elif kind in ("complete_request", "inspect_request"):
            serve = idle_questions.complete if kind == "complete_request" else idle_questions.inspect
            self._serve_request(number, fields, lambda: serve(self, content))
        elif kind == "cellspan_handle":
            self._serve_request(number, fields, lambda: self._handle_for(content))
        elif kind in requests.SERVED:
            self._serve_request(number, fields, lambda: requests.SERVED[kind](self.shell, content))
        else:
            self._reply(number, failure("NotImplementedError", f"home serves no {kind}"))

    def _serve_request(self, number, fields, serve):
        """Serves a request that is not a cell. It may be interrupted; errors go into its reply."""
        if fields["type"].startswith("comm_"):
            self.streams.expect_others()
        kept, token = self.header, _current.set(number)
        self.header = fields["header"]
        content, error = self.attempt(number, serve)
        if error is not None:
            content = failure(type(error).__name__, text_of(error))
            if fields["type"].startswith("comm_"):
                self.shell.showtraceback((type(error), error, error.__traceback__))
        self.streams.flush()
        self._reply(number, content or {"status": "ok"})
        self.header = kept
        _current.reset(token)

    def _comm(self, kind, fields, content):
        self.comms.handle(kind, content, loads(fields["metadata"]), fields["buffers"], loads(fields["header"]))

    def _reply(self, number, content, metadata=None):
        fields = {"status": content.get("status", "ok"), "content": to_json(content)}
        if fields["status"] not in ("ok", "error"):
            fields["status"] = "ok"  # is_complete has others: "incomplete", …
        fields["metadata"] = to_json(metadata) if metadata else "{}"
        self.send("REPLY", number, fields)

    # ---- which cell output belongs to --------------------------------------------------------------------------------

    def number(self):
        """The number of the cell to which this task or thread belongs, else of the running cell, else of the last one."""
        own = _current.get() or getattr(threading.current_thread(), _OWN, None)
        return own or super().number()

    def _tag_threads(self):
        """Marks each new thread with the cell that starts it, except threads of pools, which work for the running cell."""
        start = threading.Thread.start
        self._started = set()

        @functools.wraps(start)
        def tagged(thread):
            __tracebackhide__ = True
            module = getattr(getattr(thread, "_target", None), "__module__", None) or ""
            if not module.startswith(_POOLS) or self.in_subshell():
                setattr(thread, _OWN, self.number())
            start(thread)
            if getattr(thread, _OWN, None):
                self._started.add(weakref.ref(thread, self._started.discard))  # weak, so that an ended thread can be freed

        threading.Thread.start = tagged

    def others_may_write(self):
        if self.loop.has_more():
            return True
        if not self._started:
            return False  # the usual case
        started = [(known, known()) for known in tuple(self._started)]
        for known, thread in started:
            if thread is None or not thread.is_alive():
                self._started.discard(known)
        return any(getattr(known(), _OWN, None) for known in tuple(self._started))

    def _tell_output_parent(self, number, keep):
        self.send("OUTPUT_PARENT", number, {"keep": int(keep)})

    def awaits(self, cell):
        self.send("AWAITS", cell.number, {})

    def parent(self):
        """The request to which output belongs here: in a task or thread, that of its cell."""
        number = self.number()
        header = next((text for known, text in reversed(tuple(self._requests)) if known == number), self.header)
        return parent_of(header)

    def number_of(self, parent):
        """The number of a request from get_parent(), or of its header. If it is too old, that of the current request."""
        wanted = (parent.get("header") or parent).get("msg_id")
        numbers = (number for number, text in reversed(tuple(self._requests)) if loads(text).get("msg_id") == wanted)
        return next(numbers, self.number()) if wanted else self.number()

    @contextlib.contextmanager
    def under(self, number):
        """Within the block, output of this task or thread belongs to request `number`."""
        token = _current.set(number)
        try:
            yield
        finally:
            _current.reset(token)

    def set_parent(self, parent):
        """From now on output of this task or thread belongs to the cell of `parent`. Returns a token for reset_parent()."""
        self.streams.expect_others()
        return _current.set(self.number_of(parent))

    def reset_parent(self, token):
        """From now on the thread's output belongs to the running cell."""
        _current.reset(token)
        setattr(threading.current_thread(), _OWN, None)

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _execute(self, number, fields, content):
        cell = Cell.of_request(number, fields, content)
        if self._capturer is not None:
            self._capturer.began(hidden=not cell.store_history)
        self.execute(cell, self._executed)

    def _executed(self, cell):
        """The cell is over: sends its reply. Slow work that the user need not wait for comes after the reply."""
        ignore_errors(reloads.imported.note_new)  # their files may change once the user sees the reply
        self.answer_cell(cell)
        if self._capturer is not None:
            ignore_errors(functools.partial(self._capturer.ran, cell.code, cell.error is None, hidden=not cell.store_history))
        ignore_errors(self.shell.history_manager.save)
        ignore_errors(self.jedi.nothing_runs)

    def answer_cell(self, cell):
        """Sends the reply."""
        shell = self.shell
        content = {"status": "ok", "execution_count": cell.count, "user_expressions": {}}
        if cell.error is not None:
            content.update(cell.error, status="error")
        elif cell.expressions:
            content["user_expressions"] = shell.user_expressions(cell.expressions)
            self.streams.flush()
        content["payload"] = list(shell.payload_manager.read_payload())
        if content["payload"]:
            shell.payload_manager.clear_payload()
        metadata = None
        if not self._torch and "torch" in sys.modules:
            self._torch = True
            metadata = {"cellspan_imported_torch": True}
        self.after_ranks = False
        self._reply(cell.number, content, metadata)

    def show_result(self, data, metadata):
        super().show_result(data, metadata)
        self.publish("execute_result", {"execution_count": self.count, "data": data, "metadata": metadata})

    def show_error(self, ename, evalue, traceback, ends=True, error=None):
        super().show_error(ename, evalue, traceback, ends)
        if not self.number():  # of a startup file: the kernel keeps text for the first cell, but no errors
            print(*traceback, sep="\n", file=sys.stderr, flush=True)
        elif self.cell is None or not self.cell.silent:
            self.publish("error", {"ename": ename, "evalue": evalue, "traceback": list(traceback)})

    # ---- input -------------------------------------------------------------------------------------------------------

    def _input(self, prompt=""):
        """input(): asks the client that sent the cell."""
        __tracebackhide__ = True
        return self._ask(prompt, False)

    def _getpass(self, prompt="Password: ", stream=None):
        """getpass.getpass(): as input(), but the client hides the typed text."""
        __tracebackhide__ = True
        return self._ask(prompt, True)

    def _ask(self, prompt, password):
        __tracebackhide__ = True
        if self.cell is None or not self.cell.allow_stdin:
            from IPython.core.error import StdinNotImplementedError

            raise StdinNotImplementedError("input was asked for, but this client takes no input requests")
        return self.ask(prompt, password)

    # ---- requests of distributed cells ---------------------------------------------------------------------------------

    def _capture(self, message):
        number, fields = message.cell, message.fields
        found = {"names": [], "assigned": [], "tied": [], "deleted": []}
        warnings, error = self.attempt(number, self._fill_captured, number, fields, found)
        if error is not None:
            self.failed("CAPTURE", number, error)
        else:
            self.send("CAPTURED", number, {"names": to_json(found), "warnings": "\n".join(warnings)})
        self._expect_values()

    def _fill_captured(self, number, fields, found):
        """Fills `found`, the content of CAPTURED. Returns its warnings."""
        flags, code, transform = fields["flags"], fields["code"], self.shell.transform_cell
        self.after_ranks = True
        if flags & _link.CAPTURE_RECORD:
            self._record(fields["count"], fields["raw"])
        self.far, script = may_send_code() and bool(flags & _link.CAPTURE_FAR), ""
        if flags & _link.CAPTURE_SCRIPT:
            script, code, found["script"] = code, "", environment.script_text(code)
        if flags & _link.CAPTURE_PYTHON:
            refuse_what_is_no_python(code, transform)
            environment.refuse_missing(fields["cwd"], fields["script"])
        only = [n.strip() for n in fields["names"].split(",") if n.strip()] or None
        captures = self.captures()
        none, pushing = bool(flags & _link.CAPTURE_NONE), bool(flags & _link.CAPTURE_PUSH)
        found["names"], warnings = lent.seen(captures, number, fields["call"], captures.names, code, transform, only, none, pushing)
        if flags & _link.CAPTURE_PYTHON:
            lent.seen(captures, number, 0, captures.refuse, found["names"])
        code_part, lines, bring = None, [], loads(fields["bring"]) or ()
        if self.far and not flags & _link.CAPTURE_NO_CODE:
            code_part, lines = self.code_for_ranks(found.get("script") or code, script, bring)
        else:
            environment.refuse_lacking(bring)
        return warnings + lines + self._add_state(found, code_part, flags & _link.CAPTURE_ENGINE)

    def _add_state(self, found, code, starts):
        """Adds to the content of CAPTURED what is not about the names that are read. code: as of code_for_ranks(). starts: an engine may.
        Returns warnings."""
        captures = self.captures()
        found["assigned"] = captures.assigned()
        found["tied"], found["deleted"] = captures.tied(), captures.deleted()
        found["newer"], found["lists"], found["unsent"] = captures.newer(), sorted(captures.lists), captures.unsent
        found["home"], warnings = self._lead.text(code)
        if starts:
            found["env"] = spark_session.variables(self._lead.environ, environment.runtime())
        return warnings

    def _newer(self, message):
        """NEWER: ranks have bound names by themselves, so home's values of these are older."""
        number, fields = message.cell, message.fields
        self.attempt(number, self.captures().ranks_bound, fields["names"].split(","), self.shell.transform_cell)

    def _expect_values(self):
        """Imports the modules for receiving a rank's value, once, while the first ranks start and home is idle."""
        if self._expecting:
            return
        self._expecting = True
        try:
            from .._capture import vars_bundle  # noqa: F401
            if "numpy" in Wanted(_link.setting("CELLSPAN_PRELOAD")).modules and not shadows.hiding("numpy"):
                import numpy  # noqa: F401
        except BaseException:  # noqa: BLE001 - receiving a value will report it
            pass

    def captures(self):
        """The Capture, which knows home's variables and which of them were sent."""
        if self._capturer is None:
            from .._capture import capture, class_states

            self._capturer = capture.Capture(self.shell.user_ns)
            class_states.AtHome(self.shell.user_ns)
        return self._capturer

    def _record(self, count, raw):
        """Records a distributed cell in the history."""
        if count and raw:
            self.shell.history_manager.store_inputs(count, raw, raw)
            self.shell.execution_count = self.count = count
            self.shell.history_manager.save()

    def _step(self, message, function, *args):
        """As attempt(), for one of several steps for a distributed cell: after one was interrupted, later ones fail."""
        if message.cell in self._stopped:
            if message.fd >= 0:
                os.close(message.fd)
            return None, KeyboardInterrupt()
        value, error = self.attempt(message.cell, function, *args)
        if isinstance(error, KeyboardInterrupt):
            self._stopped = (*self._stopped[-15:], message.cell)
        return value, error

    def _pack(self, message):
        number, blob, fields = message.cell, message.blob, message.fields
        names = [n for n in fields["names"].split(",") if n]
        captures = self.captures()
        packed, error = self._step(message, lent.seen, captures, number, 0, captures.pack, names)
        if error is not None:
            self.failed("PACK", number, error)
            return
        fd, size, on_gpu = packed
        try:
            self.send("PACKED", number, {"error": "", "gpu": on_gpu}, blob, fd, size)
        finally:
            os.close(fd)

    def _bind(self, message):
        number, fields = message.cell, message.fields
        lines = []
        content, error = self._step(message, self._take, message, lines)
        if error is not None:
            if fields["how"] != _link.BIND_DICT:
                error = getattr(error, "original", error)  # of a LoadError, which names a variable only where several come
            content = failure(type(error).__name__, text_of(error))
            if fields["how"] == _link.BIND_MORE:
                self._gathered[number] = None
            else:
                self._gathered.pop(number, None)
        if lines:
            content = {**content, "lines": lines}  # what home prints now would come too late for the cell
        self._reply(number, content)

    def _take(self, message, lines):
        """Handles a BIND. Returns the reply's content; appends lines for the user."""
        number, blob, fd, fields = message.cell, message.blob, message.fd, message.fields
        try:
            has, value = self._unpack(message, lines.append)
            if blob and fd < 0:  # the agent could not get the blob; names says why
                raise OSError(fields["names"])
            if fields["how"] in GATHERED:
                value = self._gather(number, fields["how"], value, has)
                if value is None:
                    return {"status": "ok"}
            with self.held():  # a value that is bound and not noted would count as home's own, and replace the ranks' values
                self._bind_value(number, fields["names"], fields["how"], fields["count"], value)
                self._note_pulled(fields, value, fd, message.size)
            return self._shown(fields, value)
        finally:
            if fd >= 0:
                os.close(fd)

    def _note_pulled(self, fields, value, fd, size):
        """Records values that came from ranks, so that they are not sent back automatically."""
        how = fields["how"]
        names = list(value) if how == _link.BIND_DICT and value else [n for n in fields["names"].split(",") if n]
        if names:
            self.captures().pulled(names, *((fd, size) if how not in GATHERED else ()))

    def _unpack(self, message, say=None):
        """(is there a blob?, the value in it); the caller keeps its descriptor. say: for lines for the user."""
        from .._capture.vars_bundle import unpack, unpack_bytes

        if message.kind == "BIND" and message.fields["value"]:
            return True, unpack_bytes(message.fields["value"], self.shell.user_ns, label=message.fields["names"], say=say)
        if message.fd < 0:
            return False, None
        label = message.fields["names"] if message.kind == "BIND" else ""
        return bool(message.blob), unpack(message.fd, message.size, self.shell.user_ns, label=label, say=say)

    def _gather(self, number, how, value, has):
        """Keeps a value that is one of several. Returns all of them with the last, unless one could not be taken."""
        values = self._gathered.setdefault(number, [])
        if has and values is not None:
            values.append(value)
        return None if how == _link.BIND_MORE else self._gathered.pop(number)

    def _bind_value(self, number, names, how, count, value):
        """Binds the value as BIND says."""
        ns = self.shell.user_ns
        if how == _link.BIND_DICT:
            ns.update(value or {})
            return
        if how == _link.BIND_LISTS:
            ns.update({name: [each[name] for each in value] for name in names.split(",")})
            return
        if how == _link.BIND_LAST and not count and not names:
            self._lists[number] = value  # for the call that waits; see returned()
        self._bind_names(names, count, value)

    def _shown(self, fields, value):
        """The content of the reply to a BIND whose value was bound."""
        content = {"status": "ok"}
        if fields["how"] == _link.BIND_LAST and fields["count"]:
            content["data"], content["metadata"] = self.shell.display_formatter.format(value)
            if not content["data"]:  # a __repr__ has failed, and no cell of home's runs that could show it
                content["data"] = {"text/plain": unshown(value)}
        return content

    def _bind_names(self, names, count, value):
        for name in filter(None, names.split(",")):
            self.shell.user_ns[name] = value
        if count:
            self.count = count
            self.shell.displayhook.update_user_ns(value)

    def _handle_for(self, content):
        """Binds a Handle for a result that stayed on its rank: as Out[count], which can fetch it."""
        from .._api import handle_from

        self._bind_names(content.get("into") or "", content.get("count") or 0, handle_from(content))
        return {"status": "ok"}

    # ---- questions to idle ranks -----------------------------------------------------------------------------------------

    def ask_ranks(self, what, content, everybody=False):
        """Asks rank 0, or all ranks, if they run nothing; see idle_questions.py. Returns a function that waits and returns
        [[rank, answer], …]."""
        if threading.current_thread() is not self.main_thread or not _link.alive():
            return list
        waiting = Waiting(self.number())
        self._asked[waiting.cell] = waiting
        self.send("ASK", waiting.cell, {"what": what, "content": to_json(content), "all": int(everybody)})
        return lambda: self.wait_for(waiting)

    def hints(self, error):
        lines = super().hints(error) or idle_questions.hint(self, error)
        if "torch" not in sys.modules:
            return lines
        from . import torch_errors

        return [*lines, *torch_errors.at_home(error)]

    def exit_functions(self):
        self.jedi.give_up(END_LIMIT)  # what it is writing to its cache on disk must be whole
        super().exit_functions()

    def _exit(self, message):
        self.leave()


def failure(ename, evalue):
    """The content of an error reply."""
    return {"status": "error", "ename": ename, "evalue": evalue, "traceback": []}


def main(fd):
    """`python -m cellspan._worker home FD`."""
    home = begin_within_limits(Home, fd)
    _set_current(home)
    home.run()


def _set_current(home):
    global current
    current = home


current = None  # the Home of this process; None elsewhere
