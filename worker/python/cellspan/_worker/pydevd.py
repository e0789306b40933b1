# SPDX-License-Identifier: BSD-3-Clause
"""pydevd in this process, over a socketpair, and its explorer of variables."""

from __future__ import annotations

import codeop
import concurrent.futures
import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import sys
import threading

from .._code.finders import path_here
from . import environment

ANSWER_LIMIT = 5.0  # seconds for one answer
OWN_IDS = 1 << 23  # numbers of an Explorer begin here; pydevd counts from 1


_breakpointhook = None  # debugpy's, once it is imported
_before = sys.__breakpointhook__  # what breakpoint() called before a client was attached


def _load():
    """Imports debugpy's copy of pydevd. What breakpoint() calls stays as it is: see take_breakpoints()."""
    global _breakpointhook
    hook = sys.breakpointhook
    name = "PYDEVD_DISABLE_FILE_VALIDATION"  # else it prints a warning about Python's frozen modules
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        from debugpy.server import api  # noqa: F401 - it makes pydevd importable
        import pydevd
    finally:
        if before is None:
            del os.environ[name]
    if sys.breakpointhook is not hook:
        _breakpointhook, sys.breakpointhook = sys.breakpointhook, hook
    return pydevd


def take_breakpoints(attached):
    """While a client is attached, breakpoint() stops in its debugger; else it asks in the cell, as it does without a debugger."""
    global _before
    warn_of_settrace(attached)
    if _breakpointhook is None:
        return
    if attached and sys.breakpointhook is not _breakpointhook:
        _before, sys.breakpointhook = sys.breakpointhook, _breakpointhook
    elif not attached and sys.breakpointhook is _breakpointhook:
        sys.breakpointhook = _before


def warn_of_settrace(wanted):
    """pydevd writes a warning when other code traces, as pdb does. Nobody needs it unless pydevd traces, too."""
    tracing = sys.modules.get("pydevd_tracing")
    if tracing is not None:
        tracing.TracingFunctionHolder._warn = wanted


class Pydevd:
    """Starts pydevd; read() must then run in a thread."""

    def __init__(self, on_event):
        import asyncio
        import IPython
        import traitlets

        self._on_event = on_event
        self._socket, theirs = socket.socketpair()
        self._seq = itertools.count(1)
        self._waiting = {}  # {seq: function of the response}
        self._lock = threading.Lock()
        self._initialized = threading.Event()
        self._rests = False
        self._torn = False  # the main thread must begin its tracing anew: by an interrupt, or rest()
        self._signals = queue.SimpleQueue()  # its put() may be called in a signal handler
        pydevd = _load()
        import debugpy

        ours = (environment.PACKAGE, *(os.path.join(os.path.dirname(module.__file__), "") for module in (asyncio, IPython, traitlets, debugpy)),
                contextlib.__file__, codeop.__file__)  # IPython calls these between two statements of a cell
        self.folders = [folder.rstrip(os.sep) for folder in ours]
        connect = pydevd.PyDB.connect
        pydevd.PyDB.connect = lambda self, host, port: self.initialize_network(theirs, terminate_on_socket_close=False)
        try:
            pydevd.settrace(host="", port=0, suspend=False, wait_for_ready_to_run=False, patch_multiprocessing=False,
                            notify_stdin=False, protocol="dap", dont_trace_start_patterns=ours)
        finally:
            pydevd.PyDB.connect = connect
        self._watch_stops(pydevd.PyDB)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def ask(self, command, arguments, then):
        """Sends a request; then(response) is called in read()'s thread."""
        seq = next(self._seq)
        self._waiting[seq] = then
        text = json.dumps({"type": "request", "seq": seq, "command": command, "arguments": arguments}).encode()
        with self._lock:
            self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(text) + text)

    def wait_for(self, command, arguments):
        """As ask(), but waits for the response."""
        answer = concurrent.futures.Future()
        self.ask(command, arguments, answer.set_result)
        try:
            return answer.result(ANSWER_LIMIT)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"the debugger does not answer to {command}") from None

    def read(self):
        """Takes responses and events until pydevd closes the socket."""
        with self._socket.makefile("rb") as stream:
            while True:
                size = 0
                while True:
                    line = stream.readline()
                    if not line:
                        return
                    if line == b"\r\n":
                        break
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                try:
                    self._take(json.loads(stream.read(size)))
                except Exception as error:  # noqa: BLE001 - it must not end all later answers
                    self._on_event({"event": "output", "body": {"category": "stderr", "output": f"{type(error).__name__}: {error}\n"}})

    def _take(self, message):
        if message.get("type") == "event":
            if message["event"] == "initialized":
                self._initialized.set()
            self._on_event(message)
        elif message.get("type") == "response":
            then = self._waiting.pop(message.get("request_seq"), None)
            if then is not None:
                then({name: message[name] for name in ("body", "success", "message") if name in message})

    # ---- interrupts --------------------------------------------------------------------------------------------------

    def _watch_stops(self, kind):
        """SIGINT while the debugger has stopped the main thread: the thread continues and gets KeyboardInterrupt at that line. Without
        this, pydevd itself would be interrupted."""
        before = kind.do_wait_suspend

        def do_wait_suspend(debugger, thread, frame, event, *args, **kwargs):
            __tracebackhide__ = True
            handler = signal.getsignal(signal.SIGINT)
            if threading.current_thread() is not threading.main_thread() or not callable(handler):
                return before(debugger, thread, frame, event, *args, **kwargs)
            came = []

            def note(signo, at):
                came.append(signo)
                self._signals.put(True)
                while at is not None and at.f_code is not do_wait_suspend.__code__:
                    if at.f_code.co_name == "do_it":  # a client's expression runs
                        raise KeyboardInterrupt
                    at = at.f_back

            signal.signal(signal.SIGINT, note)
            try:
                result = before(debugger, thread, frame, event, *args, **kwargs)
            finally:
                signal.signal(signal.SIGINT, handler)
            if came:
                self._torn = True
                handler(signal.SIGINT, frame)
            return result

        kind.do_wait_suspend = do_wait_suspend

    def let_go(self):
        """Runs in a thread."""
        while True:
            self._signals.get()
            self.ask("continue", {"threadId": self.main_thread()}, lambda answer: None)

    def mend(self):
        """The main thread is traced again, which only itself can begin."""
        if self._torn:
            self._torn = False
            if not self._rests:
                self._debugger().enable_tracing()

    # ---- a session ---------------------------------------------------------------------------------------------------

    def rest(self):
        """No client is attached: the calling thread, and new ones, cost nothing any more."""
        if not self._rests:
            self._rests = True
            threading.settrace(None)
            self._debugger().disable_tracing()

    @staticmethod
    def _debugger():
        from _pydevd_bundle.pydevd_constants import get_global_debugger

        return get_global_debugger()

    def attach(self, arguments, requests):
        """Begins a session. Returns the response to `attach`."""
        take_breakpoints(True)
        if self._rests:
            self._rests = False
            debugger = self._debugger()
            debugger.patch_threads()
            debugger.enable_tracing(debugger.trace_dispatch, apply_to_all_threads=True)
        self._torn = True
        self._initialized.clear()
        answer = self.wait_for("attach", arguments)
        self._initialized.wait(ANSWER_LIMIT)
        for request in requests:
            self.wait_for(request["command"], request["arguments"])
        self.wait_for("configurationDone", {})
        return answer

    @staticmethod
    def main_thread():
        """Its number in the protocol."""
        from _pydevd_bundle._debug_adapter.pydevd_base_schema import BaseSchema
        from _pydevd_bundle.pydevd_constants import get_thread_id

        return BaseSchema._translate_id_to_dap(get_thread_id(threading.main_thread()))

    @staticmethod
    def stop_stepping():
        """The calling thread steps no more."""
        from _pydevd_bundle.pydevd_additional_thread_info import set_additional_thread_info

        info = set_additional_thread_info(threading.current_thread())
        info.pydev_step_cmd, info.pydev_step_stop = -1, None
        if hasattr(info, "update_stepping_info"):
            info.update_stepping_info()

    @staticmethod
    def know(prefix, earlier):
        """Files whose names begin with prefix are cells, which need not exist. A module that came from home has home's path. earlier: {file
        name: the one that it stands for}."""
        import pydevd_file_utils

        before = getattr(pydevd_file_utils.exists, "before", pydevd_file_utils.exists)

        def exists(name):
            return name.startswith(prefix) or before(name) or before(path_here(name))

        exists.before = before
        pydevd_file_utils.exists = exists
        for name, path in earlier.items():
            pydevd_file_utils.NORM_PATHS_AND_BASE_CONTAINER[name] = path, path, os.path.basename(path)


# ---- variables while nothing is stopped ------------------------------------------------------------------------------


class _Code:
    co_filename, co_name = "<cell>", "<module>"


class _Frame:
    f_back, f_lineno, f_code = None, 1, _Code

    def __init__(self, variables):
        self.f_globals = self.f_locals = variables


class _Debugger:
    def __init__(self):
        from _pydevd_bundle.pydevd_api import PyDevdAPI

        self.variable_presentation = PyDevdAPI.VariablePresentation()


class Explorer:
    """Lists the variables of a namespace as pydevd does for a frame that is stopped."""

    def __init__(self, variables):
        _load()
        from _pydevd_bundle import pydevd_frame_utils
        from _pydevd_bundle.pydevd_suspended_frames import SuspendedFramesManager, _FramesTracker

        self._frame = _Frame(variables)
        self._debugger = _Debugger()
        self._manager = SuspendedFramesManager()
        tracker = _FramesTracker(self._manager, self._debugger)
        tracker.track("home", pydevd_frame_utils.create_frames_list_from_frame(self._frame))
        self._numbers = {}  # {our number: pydevd's reference}
        self._references = {}

    def owns(self, number):
        return number in self._numbers

    def children(self, number=None):
        """The variables in the namespace, or in one of its variables."""
        reference = id(self._frame) if number is None else self._numbers[number]
        found = self._manager.get_variable(reference).get_children_variables()
        return [self._numbered(variable.get_var_data()) for variable in found]

    def _numbered(self, data):
        reference = data.get("variablesReference")
        if reference:
            number = self._references.setdefault(reference, OWN_IDS + len(self._references))
            self._numbers[number] = reference
            data["variablesReference"] = number
        return data
