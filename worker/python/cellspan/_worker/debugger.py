# SPDX-License-Identifier: BSD-3-Clause
"""The debugger of home or of a rank: pydevd, which is part of debugpy. The kernel's first DEBUG starts it.

pydevd speaks the Debug Adapter Protocol over a socketpair. A thread of its own takes the kernel's requests, another one takes pydevd's
answers and events. So both work while a breakpoint stops the main thread.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import sys
import threading
import time

from .. import _link
from .._base import threads
from .._base.errors import text_of
from .._base.modules import names_of
from .._base.own_code import module_named
from .._capture import sources
from .._code.finders import home_path, path_here
from . import torchenv

ANSWER_LIMIT = 5.0  # seconds that a cell waits for the debugger, and that pydevd may take to answer
SIGNAL_LIMIT = 1.0  # seconds in which the signal of an interrupt comes
HIDDEN = re.compile(r"_i|_\d|(__(name|doc|package|loader|spec|annotations|builtins?|display)__|get_ipython|exit|quit|In|Out|_oh|_dh|_{1,3})$")
REPEATED = ("setBreakpoints", "setFunctionBreakpoints", "setExceptionBreakpoints")

_current = None  # the Debugger of this process, or None
_late = None  # what _done() was when a cell waited in vain; later cells don't wait until it is more
_news = threading.Condition()


def begin():
    """Starts the thread; the extension calls this once."""
    global _current
    _current = Debugger()
    os.register_at_fork(after_in_child=_leave_child)
    threads.begin("debugger", _current.serve)


def _done():
    return -1 if _current is None else _current.done


def settle(cell, come):
    """Called by the main thread when a cell begins: waits until what the kernel sent before it has been done."""
    global _late
    with _news:
        late = _done() < come and (_done() == _late or not _news.wait_for(lambda: _done() >= come, ANSWER_LIMIT))
        reported, _late = late and _done() == _late, _done() if late else None
    if _current is not None:
        _current.cell_begins(cell)
    if late and not reported:
        print("cellspan: the debugger is busy; cells may not stop at breakpoints until it is done", file=sys.stderr)


def cell_ends():
    """The main thread no longer steps: what follows is not the user's code, though it calls libraries."""
    if _current is not None and _current.prefix is not None:
        _current.pydevd.stop_stepping()


def _worker():
    """The Home or Rank of this process; it may still be starting."""
    while True:
        for name in ("home", "rank"):
            module = sys.modules.get(f"cellspan._worker.{name}")
            if getattr(module, "current", None) is not None:
                return module.current
        time.sleep(0.02)


def _leave_child():
    """A fork of this process is not debugged: nobody would let it go on from a breakpoint."""
    global _current
    started, _current = _current is not None and _current.pydevd is not None, None
    if not started:
        return
    from _pydevd_bundle.pydevd_constants import GlobalDebuggerHolder, get_global_debugger

    from .pydevd import warn_of_settrace

    debugger = get_global_debugger()
    if debugger is not None:
        debugger.pydb_disposed = True
    GlobalDebuggerHolder.global_dbg = None
    warn_of_settrace(False)
    sys.settrace(None)
    threading.settrace(None)


def file_name(prefix, text):
    """The file name of a cell with this text: clients find it by the same rule (debugInfo)."""
    return f"{prefix}{_link.murmur2(text.encode('utf-8', 'surrogatepass'))}.py"


class Debugger:
    """Answers the kernel's requests. Most of them go to pydevd as they are."""

    def __init__(self):
        self.worker = None
        self.done = 0  # how many of the kernel's messages
        self.pydevd = None  # the Pydevd, once it is started
        self.prefix = None  # of the file names of cells, while a client is attached
        self._paths = {}  # {number of a cell that comes: its file name}
        self._explorer = None
        self._stopped = set()  # numbers of threads
        self._breaks = {}  # {(command, path): request}: what sets breakpoints, as last sent
        self._released = False  # they are removed until the next cell
        self._limit_reported = False  # in this cell
        self._path = None, None  # the file name that the kernel has sent for the cell that runs, and its text

    def serve(self):
        """Takes messages until the process ends."""
        self.worker = _worker()
        while _link.alive():
            message = _link.debug_message(60.0)
            if message is None:
                continue
            request = json.loads(message[-1]["message"])
            try:
                self._serve(request)
            except _link.LinkDead:
                return
            except BaseException as error:  # noqa: BLE001 - there must be an answer in any case
                self._refuse(request, text_of(error) or type(error).__name__)
            with _news:
                self.done += 1
                _news.notify_all()

    def _serve(self, request):
        command = request["command"]
        request.setdefault("arguments", {})
        own = getattr(self, f"_{command}", None) if command in OWN else None
        if own is not None:
            own(request)
        elif self.pydevd is None:
            self._refuse(request, "the debugger has not started")
        else:
            if command in REPEATED:
                self._note(request)
            self.pydevd.ask(request["command"], request["arguments"], lambda answer: self._answer(request, **answer))

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _send(self, message):
        try:
            self.worker.send("DEBUGGED", 0, {"message": json.dumps(message)})
        except _link.LinkDead:
            pass

    def _answer(self, request, body=None, success=True, **more):
        more.update(type="response", request_seq=request["seq"], command=request["command"], success=success, body=body or {})
        self._send(more)

    def _refuse(self, request, why):
        self._answer(request, success=False, message=why)

    def _event(self, event):
        body = event.get("body") or {}
        if event["event"] == "output" and "raised from within the callback set in sys.settrace" in body.get("output", ""):
            return  # an interrupt at a breakpoint; the next cell is traced again
        if event["event"] == "stopped":
            self._stopped.add(body.get("threadId"))
            self._tell_limit()
        elif event["event"] == "continued":
            self._stopped.clear() if body.get("allThreadsContinued") else self._stopped.discard(body.get("threadId"))
        with _news:
            _news.notify_all()
        self._send(event)

    def _tell_limit(self):
        """torch's own time limit runs on while this process is stopped: says once in each cell when it will be over."""
        limit = torchenv.time_limit()
        if limit is None or self._limit_reported:
            return
        self._limit_reported = True
        end = time.strftime("%H:%M", time.localtime(time.time() + limit))
        print(f"cellspan: while ranks are stopped, torch's time limit goes on: collectives that wait for them fail after {limit / 60:.3g} min, at {end} "
              "or later; init_process_group(timeout=...) sets it", file=sys.stderr)

    # ---- a session ---------------------------------------------------------------------------------------------------

    def _initialize(self, request):
        if self.pydevd is None:
            from .pydevd import Pydevd

            self.pydevd = Pydevd(self._event)
            threads.begin("debugger-reader", self.pydevd.read)
            threads.begin("debugger-interrupts", self.pydevd.let_go)
        self.pydevd.ask("initialize", request["arguments"], lambda answer: self._answer(request, **answer))

    def _attach(self, request):
        arguments = dict(request["arguments"])
        ours = arguments.pop("cellspan")
        if self.pydevd is None:
            self._initialize({**request, "arguments": ours["initialize"], "seq": -1})
        self.prefix = ours["prefix"]
        sources.CELL = (sources.CELL[0], self.prefix)
        self.pydevd.know(self.prefix, self._earlier())
        arguments["rules"] = [{"path": folder, "include": False} for folder in self.pydevd.folders]
        arguments.setdefault("debugOptions", ["DebugStdLib"])
        answer = self.pydevd.attach(arguments, ours["requests"])
        self._breaks.clear()
        for one in ours["requests"]:
            self._note(one)
        answer["body"] = {**(answer.get("body") or {}), "mainThread": self.pydevd.main_thread()}
        self.worker.shell.compile.get_code_name = self._code_name
        self._answer(request, **answer)

    def _disconnect(self, request):
        self.prefix, self._released = None, False
        self._breaks.clear()
        self._paths.clear()
        self._stopped.clear()
        self.worker.shell.compile.__dict__.pop("get_code_name", None)
        if self.pydevd is None:
            self._answer(request)
            return
        from .pydevd import take_breakpoints

        take_breakpoints(False)
        arguments = {"restart": False, "terminateDebuggee": False}
        self.pydevd.ask("disconnect", arguments, lambda answer: self._answer(request, **answer))

    def _note(self, request):
        path = (request["arguments"].get("source") or {}).get("path")
        if request["arguments"].get("breakpoints") == []:
            self._breaks.pop((request["command"], path), None)
        else:
            self._breaks[request["command"], path] = request["arguments"]

    def _release(self, request):
        """For an interrupt: nothing stops any more until the next cell. The main thread continues: a SIGINT raises KeyboardInterrupt where it
        was stopped, and without one it continues as well."""
        if self.pydevd is None:
            self._answer(request)
            return
        self._released = True
        for (command, _), arguments in list(self._breaks.items()):
            cleared = {**arguments, **{name: [] for name in ("breakpoints", "filters", "filterOptions", "exceptionOptions") if name in arguments}}
            self.pydevd.wait_for(command, cleared)
        main = self.pydevd.main_thread()
        with _news:
            _news.wait_for(lambda: main not in self._stopped, SIGNAL_LIMIT)
        self.pydevd.ask("continue", {"threadId": "*"}, lambda answer: self._answer(request, **answer))

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _cell(self, request):
        self._paths = {request["arguments"]["cell"]: request["arguments"]["path"]}

    def cell_begins(self, cell):
        """On the main thread."""
        self._limit_reported = False
        if self.prefix is None and self.pydevd is not None:
            self.pydevd.rest()
        elif self.pydevd is not None:
            self.pydevd.mend()
        self._path = self._paths.pop(cell.number, None), cell.code
        if self._released and self.pydevd is not None:
            self._released = False
            for (command, _), arguments in list(self._breaks.items()):
                self.pydevd.wait_for(command, arguments)

    def _code_name(self, raw_code, code, number):
        """IPython's CachingCompiler asks for the file name of a cell's code. A rank gets a part of the cell's text, so the kernel has
        sent the name."""
        path, text = self._path
        return path if path and raw_code == text else file_name(self.prefix, raw_code)

    def _earlier(self):
        """{IPython's file name of a cell that ran before: that of the debugger's rule}, for home."""
        shell = self.worker.shell
        counts = {}  # {count: names}: requests that are not in the history have the last cell's count
        for name, count in getattr(shell.compile, "_filename_map", {}).items():
            counts.setdefault(count, []).append(name)
        raw = getattr(shell.history_manager, "input_hist_raw", ())
        return {_name_of(text, counts[n]): file_name(self.prefix, text) for n, text in enumerate(raw) if n in counts and text}

    # ---- what Jupyter adds to the protocol -----------------------------------------------------------------------------

    def _variables(self, request):
        number = request["arguments"].get("variablesReference")
        if self._explorer is not None and self._explorer.owns(number):
            self._answer(request, {"variables": _accepted(self._explorer.children(number))})
            return

        def filtered(answer):
            if answer.get("success"):
                answer["body"]["variables"] = _accepted(answer["body"]["variables"])
            self._answer(request, **answer)

        if self.pydevd is None:
            self._refuse(request, "the debugger has not started")
        else:
            self.pydevd.ask("variables", request["arguments"], filtered)

    def _stackTrace(self, request):
        """The text of a cell, or of a module that came from home, is the client's, so nobody need ask us for it. JupyterLab shows no threads,
        so frames say whose they are."""
        rank = getattr(self.worker, "rank", None)

        def cells(answer):
            frames = (answer.get("body") or {}).get("stackFrames", [])
            if frames and (frames[-1].get("source") or {}).get("path") == "<string>":
                frames.pop()  # what the agent gave to `python -c` to start this process
            for frame in frames:
                source = frame.get("source") or {}
                if rank is not None:
                    frame["name"] = f"rank {rank}: {frame.get('name', '')}"
                path = source.get("path", "")
                if (self.prefix and path.startswith(self.prefix)) or path_here(path) != path:
                    source["sourceReference"] = 0
            self._answer(request, **answer)

        if self.pydevd is None:
            self._refuse(request, "the debugger has not started")
        else:
            self.pydevd.ask("stackTrace", request["arguments"], cells)

    def _inspectVariables(self, request):
        from .pydevd import Explorer

        self._explorer = Explorer(self.worker.shell.user_ns)
        self._answer(request, {"variables": _accepted(self._explorer.children())})

    def _richInspectVariables(self, request):
        name, frame = request["arguments"].get("variableName", ""), request["arguments"].get("frameId")
        if not name.isidentifier():
            self._answer(request, {"data": {}, "metadata": {}}, success=name in ("special variables", "function variables"))
        elif frame and self._stopped:
            expression = f"{module_named('IPython')}.get_ipython().display_formatter.format({name})"
            arguments = {"expression": expression, "frameId": frame, "context": "clipboard"}
            self.pydevd.ask("evaluate", arguments, lambda answer: self._rich(request, answer))
        else:
            shown = self.worker.shell.user_expressions({name: name})[name]
            self._answer(request, {"data": shown.get("data", {}), "metadata": shown.get("metadata", {})})

    def _rich(self, request, answer):
        import ast

        data, metadata = {}, {}
        try:
            if answer.get("success"):
                data, metadata = ast.literal_eval(answer["body"]["result"])
        except (ValueError, SyntaxError, TypeError):
            pass  # a representation that is no literal
        self._answer(request, {"data": data, "metadata": {kind: value for kind, value in metadata.items() if kind in data}})

    def _copyToGlobals(self, request):
        asked = request["arguments"]
        arguments = {"expression": f"globals()[{asked['dstVariableName']!r}]", "value": asked["srcVariableName"], "frameId": asked["srcFrameId"]}
        self.pydevd.ask("setExpression", arguments, lambda answer: self._answer(request, **answer))

    def _modules(self, request):
        every = list(sys.modules.copy().values())
        first = request["arguments"].get("startModule") or 0
        count = request["arguments"].get("moduleCount") or len(every)
        found = []
        for n, module in list(enumerate(every))[first : first + count]:
            origin = getattr(names_of(module).get("__spec__"), "origin", None)
            if isinstance(origin, str) and origin.endswith(".py"):
                found.append({"id": n, "name": names_of(module)["__name__"], "path": home_path(origin)})
        self._answer(request, {"modules": found, "totalModules": len(every)})

    def _source(self, request):
        """The text of a file, such as a library's."""
        path = (request["arguments"].get("source") or {}).get("path") or ""
        if request["arguments"].get("sourceReference") and self.pydevd is not None:
            self.pydevd.ask("source", request["arguments"], lambda answer: self._answer(request, **answer))
            return
        try:
            with open(path_here(path), encoding="utf-8") as file:
                self._answer(request, {"content": file.read()})
        except (OSError, ValueError):
            self._refuse(request, "source unavailable")


OWN = ("initialize", "attach", "disconnect", "release", "cell", "stackTrace", "variables", "inspectVariables", "richInspectVariables", "copyToGlobals",
       "modules", "source")


def _name_of(text, names):
    """That of the names under which IPython keeps this cell; where a magic has changed the text, the first."""
    for name in names if len(names) > 1 else ():
        if "".join(linecache.cache.get(name, (0, 0, ()))[2]).strip() == text.strip():
            return name
    return names[0]


def _accepted(variables):
    return [variable for variable in variables if not HIDDEN.match(variable["name"])]
