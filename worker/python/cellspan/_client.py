# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.run() and the like in a program that is no notebook: it starts a kernel of its own as a child, and is its client.

The program's call is done by the kernel's home, as if a cell of a notebook had called it. The call goes there in a bundle, with the
variables of __main__ that it reads; the value or the exception comes back in another. Both bundles are memfds of this process, which
home opens through /proc, so they may be of any size and leave no file behind. Output comes as to any client, and is printed.

The kernel watches this process (JPY_PARENT_PID) and ends when it ends, even if it is killed. The kernel has a session of its own, so
that Ctrl-C comes to this process alone, which sends an interrupt_request.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import secrets
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time

from . import _api, _link
from ._base import own_code
from ._base.errors import text_of

START_S = 30  # seconds until the kernel welcomes its client
END_S = 15  # seconds that the kernel has for its end; then it is killed
POLL_MS = 100  # milliseconds between two checks of signals and of the kernel
ASK = "_cellspan_ask"  # the name of the call in the bundle; names that begin so are sent each time
NEEDS = {**_link.needs(), "jupyter_client": "jupyter_client"}  # modules of home and of this file, and the packages that have them

_far = None
_making = threading.Lock()


def far():
    """The Far of this process, started if there is none. NotAtHomeError: this process can't have one."""
    global _far
    __tracebackhide__ = True
    with _making:
        if _far is not None and _far.pid != os.getpid():
            raise _api.NotAtHomeError("this process was forked from the program that has cellspan's kernel: call cellspan there")
        if "multiprocessing.process" in sys.modules and sys.modules["multiprocessing.process"].parent_process() is not None:
            raise _api.NotAtHomeError("this is a process of multiprocessing: call cellspan in the program that started it")
        if _far is not None and _far.ended():
            _far.end()
            _far = None
        if _far is None:
            _far = Far()
        return _far


# ---- starting ---------------------------------------------------------------------------------------------------------------


def _check_packages():
    from importlib.util import find_spec

    lacks = [f'"{name}"' for module, name in NEEDS.items() if find_spec(module) is None]
    if lacks:
        raise _api.NotAtHomeError(
            f"outside of a notebook cellspan needs packages that this Python lacks. Install them:\n  {sys.executable} -m pip install {' '.join(lacks)}"
        )


def _find_kernel():
    """The path of cellspan-kernel: of the prefix of this package, of Python's environment, or on PATH."""
    prefix = os.path.abspath(__file__)
    for _ in range(5):  # PREFIX/lib/cellspan/python/cellspan/_client.py
        prefix = os.path.dirname(prefix)
    folders = [os.path.join(prefix, "bin"), os.path.join(sys.prefix, "bin"), os.path.dirname(sys.executable), os.path.join(site.getuserbase(), "bin")]
    for folder in folders:
        found = shutil.which("cellspan-kernel", path=folder)
        if found:
            return found
    found = shutil.which("cellspan-kernel")
    if not found:
        raise _api.NotAtHomeError(f"cellspan-kernel is neither in {', '.join(folders)} nor on PATH: put the folder where it was installed on PATH")
    return found


class Far:
    """A kernel that is a child of this process, and this process as its client."""

    def __init__(self):
        """NotAtHomeError: a package or the kernel is missing. RuntimeError: the kernel does not start."""
        __tracebackhide__ = True
        _check_packages()
        from ._capture.capture import Capture

        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._owner = None  # the thread that has the lock
        self._interrupts = 0
        self._counts = False  # does Ctrl-C only count?
        self._pictures = {}  # {id of a display: its last text}
        self._sent = {}  # {name: version that home has}
        self._ns = sys.modules["__main__"].__dict__
        self.captures = Capture(self._ns)
        self._environ = dict(os.environ)
        self._kernel = self._start(_find_kernel())
        atexit.register(self.end)

    def _start(self, kernel):
        key = secrets.token_hex(32)
        # An abstract socket, which is no file: none is left if this process is killed.
        name = f"@cellspan-{os.getpid()}-{secrets.token_hex(8)}"
        ports = {f"{port}_port": number for number, port in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
        made = {"transport": "ipc", "ip": name, "key": key, "signature_scheme": "hmac-sha256", "kernel_name": "cellspan", **ports}
        fd, path = tempfile.mkstemp(prefix="cellspan-", suffix=".json")
        try:
            with os.fdopen(fd, "w") as file:
                json.dump(made, file)
            child = self._spawn(kernel, path)
            try:
                self._connect(made, child)
            except BaseException:
                child.kill()
                child.wait()
                raise
            return child
        finally:
            os.unlink(path)  # the kernel has read it

    def _spawn(self, kernel, path):
        version = ".".join(map(str, sys.version_info[:3]))
        env = dict(os.environ, JPY_PARENT_PID=str(os.getpid()))
        package = os.path.join(os.path.dirname(os.path.dirname(kernel)), "lib", "cellspan", "python")
        if os.path.isdir(package):
            env.setdefault("CELLSPAN_PYTHONPATH", package)
        words = [kernel, "--python", sys.executable, "--python-version", version, "-f", path]
        return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, start_new_session=True)

    def _connect(self, made, child):
        import zmq
        from jupyter_client.session import Session

        self._zmq = zmq
        self._session = Session(key=made["key"].encode(), signature_scheme=made["signature_scheme"], username="cellspan")
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._sockets = {}
        for channel, kind in {"shell": zmq.DEALER, "control": zmq.DEALER, "stdin": zmq.DEALER, "iopub": zmq.SUB}.items():
            socket = self._sockets[channel] = self._context.socket(kind)
            socket.linger, socket.rcvhwm, socket.reconnect_ivl = 500, 0, 5
            if channel == "iopub":
                socket.subscribe(b"")
            else:
                socket.identity = self._session.bsession  # questions find this client by it
            socket.connect(f"ipc://{made['ip']}-{made[channel + '_port']}")
            if channel != "control":
                self._poller.register(socket, zmq.POLLIN)
        limit, welcomed = time.monotonic() + START_S, []
        while not welcomed:
            self._turn(lambda channel, message: welcomed.append(1) if message["msg_type"] == "iopub_welcome" else None)
            if child.poll() is not None:
                raise RuntimeError(f"cellspan's kernel ended when it was started (exit status {child.returncode})")
            if time.monotonic() > limit:
                raise RuntimeError(f"cellspan's kernel was started, but does not answer within {START_S} s: run `cellspan doctor`")

    # ---- end

    def ended(self):
        """Is the kernel no more?"""
        return self._kernel.poll() is not None

    def end(self):
        """Ends the kernel, in order if it does so in time."""
        if os.getpid() != self.pid:
            return
        atexit.unregister(self.end)
        if not self.ended():
            self._send("control", "shutdown_request", {"restart": False})
            try:
                self._kernel.wait(END_S)
            except subprocess.TimeoutExpired:
                self._kill()
        self._context.destroy(linger=0)

    def _kill(self):
        try:
            os.killpg(self._kernel.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._kernel.wait()

    # ---- calls

    def do(self, module, name, *args, **kwargs):
        """module.name(*args, **kwargs) in the kernel's home: its value. module: of cellspan, such as "_api". Raises what it raises;
        CaptureError: something can't be sent; KeyboardInterrupt: Ctrl-C, which has ended the call."""
        __tracebackhide__ = True
        if self._owner == threading.get_ident():
            raise RuntimeError("cellspan was called while this thread's other call to cellspan is running")
        with self._lock:
            self._owner = threading.get_ident()
            try:
                good, value = self._do({"module": module, "name": name, "args": args, "kwargs": kwargs})
            finally:
                self._owner = None
        if good:
            return value
        raise _with_traceback(value)

    def _do(self, ask):
        from ._capture import vars_bundle

        fd, size, sent = self._bundle(ask)
        out = vars_bundle.create()
        try:
            self._execute(f"{own_code.function('_client', 'serve')}({self.pid}, {fd}, {size}, {out})")
            back = os.fstat(out).st_size
            if not back and self._interrupts:  # Ctrl-C came before home began, or while it answered
                raise KeyboardInterrupt
            if not back:
                raise RuntimeError("cellspan's kernel gave no answer: " + self._failure)
            self._sent.update(sent)
            return vars_bundle.unpack(out, back, self._ns)
        finally:
            os.close(fd)
            os.close(out)

    def _bundle(self, ask):
        """(descriptor, size, {name: version}) of the call and of the variables that home lacks."""
        environ = dict(os.environ)
        names = {*environ, *self._environ}
        ask["environ"] = {name: environ.get(name) for name in names if environ.get(name) != self._environ.get(name)}
        self._environ = environ
        ask["cwd"], ask["deleted"] = _folder(), []
        self.captures.began()
        with _api._Placed(self._ns, {ASK: ask}):
            rows, warnings = self.captures.names(ASK)
            for line in warnings:
                print(f"cellspan: {line}", file=sys.stderr)
            versions = {row[0]: row[1] for row in rows}
            stale = {name for name in versions if versions[name] != self._sent.get(name)}
            for group in self.captures.tied():  # what shares memory goes together, so that it shares it there too
                if stale.intersection(group):
                    stale.update(group)
            ask["deleted"] = [name for name in self.captures.deleted() if self._sent.pop(name, None) is not None]
            fd, size, _ = self.captures.pack([ASK, *sorted(stale - {ASK})])
        versions.pop(ASK, None)
        return fd, size, versions

    def _execute(self, code):
        """Lets home execute the code, and prints what comes of it."""
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": True, "stop_on_error": True}
        asked, left = "", {"busy", "reply", "idle"}
        self._failure = ""

        def take(channel, message):
            kind, content = message["msg_type"], message["content"]
            if channel == "iopub" and kind != "status":
                self._print(kind, content)  # also of what an earlier call has begun and left to run
            elif message["parent_header"].get("msg_id") != asked:
                return
            elif channel == "shell" and kind == "execute_reply":
                left.discard("reply")
                if content.get("status") != "ok":
                    self._failure = f"{content.get('ename', 'error')}: {content.get('evalue', '')}"
            elif kind == "status":
                left.discard(content.get("execution_state"))
            elif channel == "stdin" and kind == "input_request":
                self._answer(content)

        with self._counting():
            passed_on = 0
            asked = self._send("shell", "execute_request", content)["header"]["msg_id"]
            while left:
                self._turn(take)
                # An interrupt that the kernel has before the call would end nothing.
                if self._interrupts > max(passed_on, "busy" in left):
                    passed_on = self._interrupts
                    if passed_on > 2:
                        self._kill()
                        raise KeyboardInterrupt
                    self._send("control", "interrupt_request", {})
                if self.ended() and left:
                    raise RuntimeError(f"cellspan's kernel ended by itself (exit status {self._kernel.returncode})")
        self._show_pictures()

    @contextlib.contextmanager
    def _counting(self):
        """Within the block, Ctrl-C is only counted: an exception in the middle of a message would lose that."""
        self._interrupts = 0
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        old = signal.signal(signal.SIGINT, self._count)
        self._counts = True
        try:
            yield
        finally:
            self._counts = False
            signal.signal(signal.SIGINT, old)

    def _count(self, signo, frame):
        self._interrupts += 1

    # ---- messages

    def _send(self, channel, kind, content):
        return self._session.send(self._sockets[channel], kind, content)

    def _turn(self, take):
        """Waits for messages, and gives each one to take(channel, message)."""
        ready = dict(self._poller.poll(POLL_MS))
        for channel in ("iopub", "stdin", "shell"):
            socket = self._sockets[channel]
            while socket in ready:
                try:
                    _, message = self._session.recv(socket, mode=self._zmq.NOBLOCK)
                except ValueError:  # not signed with our key
                    continue
                if message is None:
                    break
                take(channel, message)

    def _answer(self, content):
        """Asks the user, as a rank or home wants."""
        import getpass

        ask = getpass.getpass if content.get("password") else input
        counting = signal.getsignal(signal.SIGINT)
        try:
            if self._counts:
                signal.signal(signal.SIGINT, signal.default_int_handler)  # so that Ctrl-C ends the question
            value = ask(content.get("prompt", ""))
        except EOFError:
            value = "\004"  # as a client's Ctrl-D
        except KeyboardInterrupt:
            self._interrupts += 1
            return
        finally:
            if self._counts:
                signal.signal(signal.SIGINT, counting)
        self._send("stdin", "input_reply", {"value": value})

    def _print(self, kind, content):
        if kind == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            stream.write(content["text"])
            stream.flush()
        elif kind in ("display_data", "execute_result", "update_display_data"):
            shown = content.get("transient", {}).get("display_id")
            text = content.get("data", {}).get("text/plain", "")
            text = "".join(text) if isinstance(text, list) else text
            if shown:
                self._pictures[shown] = text
            elif text and kind != "update_display_data":
                print(text, flush=True)

    def _show_pictures(self):
        """Prints the last state of what was drawn again and again. What became of the ranks is no output of theirs."""
        pictures, self._pictures = self._pictures, {}
        for shown, text in pictures.items():
            if text:
                print(text.rstrip("\n"), file=sys.stderr if shown.startswith("cellspan-status-") else sys.stdout, flush=True)


class RankTraceback(Exception):
    """The traceback of a rank, as text: the cause of the exception that was raised for it."""

    __module__ = "cellspan"


def _with_traceback(error):
    """The exception to raise. Python prints its cause above it: the rank's traceback. A rank that died has none."""
    from ._jobs import is_of_rank

    lines = error.traceback if isinstance(error, _api.RemoteError) and is_of_rank(error) else None
    if lines:
        text = "\n".join(lines)
        plain = _without_colours(text)
        if len(plain.strip().splitlines()) > 2:  # else it says only who failed, and the exception itself
            error.__cause__ = RankTraceback("\n" + (text if sys.stderr.isatty() else plain))
    return error


def _without_colours(text):
    import re

    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)


def _folder():
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


class FarGroup(_api.Group):
    """As Group, in a program that is no notebook."""

    def push(self, ranks=_api.EVERY, **values):
        __tracebackhide__ = True
        return self._there("push", *(() if ranks is _api.EVERY else (ranks,)), **values)

    def pull(self, *names, ranks=None):
        __tracebackhide__ = True
        return self._there("pull", *names, ranks=ranks)

    def scatter(self, name, values, **options):
        __tracebackhide__ = True
        return self._there("scatter", name, values, **options)

    def stop(self, ranks=None):
        __tracebackhide__ = True
        return self._there("stop", ranks)

    def restart(self, ranks=None):
        __tracebackhide__ = True
        return self._there("restart", ranks)

    def _table(self, flags):
        __tracebackhide__ = True
        return self._there("_table", flags)

    def _there(self, method, /, *args, **kwargs):
        __tracebackhide__ = True
        return self._home.do("_client", "of_group", self._on, method, args, kwargs)


# ---- at home ------------------------------------------------------------------------------------------------------------------


def of_group(on, method, args, kwargs):
    """A method of the group, at home."""
    return getattr(_api.Group(_api.current_home(), on), method)(*args, **kwargs)


def serve(pid, fd, size, out):
    """At home: does the call that a client has put into its descriptor `fd`, and writes the outcome into its descriptor `out`."""
    from ._capture import vars_bundle

    ns = _api.current_home().shell.user_ns
    back = os.open(f"/proc/{pid}/fd/{out}", os.O_RDWR | os.O_CLOEXEC)
    try:
        outcome = _outcome(pid, fd, size, ns)
        try:
            done, length = vars_bundle.pack(outcome, ns)
        except Exception as error:  # noqa: BLE001 - a value may refuse in any way
            done, length = vars_bundle.pack((False, RuntimeError(f"the outcome can't be sent: {text_of(error)}")), ns)
        try:
            at = 0
            while at < length:
                at += os.sendfile(back, done, at, length - at)
        finally:
            os.close(done)
    finally:
        os.close(back)


def _outcome(pid, fd, size, ns):
    """(True, value) or (False, exception)."""
    try:
        return True, _done(pid, fd, size, ns)
    except BaseException as error:  # noqa: BLE001 - the client raises it
        return False, error


def _done(pid, fd, size, ns):
    from ._capture import vars_bundle

    given = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        values = vars_bundle.unpack(given, size, ns)
    finally:
        os.close(given)
    ask = values.pop(ASK)
    ns.update(values)
    for name in ask["deleted"]:
        ns.pop(name, None)
    for name, text in ask["environ"].items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text
    if ask["cwd"] and ask["cwd"] != _folder():
        os.chdir(ask["cwd"])
    module = importlib.import_module("cellspan." + ask["module"])
    return getattr(module, ask["name"])(*ask["args"], **ask["kwargs"])
