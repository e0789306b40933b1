# SPDX-License-Identifier: BSD-3-Clause
"""VS Code's Jupyter extension: it starts the kernel itself, and sends requests that its user does not see. Those of a variable
inspector of JupyterLab are alike.

The requests here have the form of the extension's own (release 2026.6.1): execute_request with store_history false, silent false.
CELLSPAN_TEST_VSCODE names the extension's folder; then its own scripts are sent as well.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import uuid

import processes
import pytest
from client import KERNEL, LIMIT, Client, by_rank, rank_values, values
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from packages import needs

pytestmark = pytest.mark.clients
CHANNELS = ("hb", "control", "shell", "stdin", "iopub")


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def descendants(pid):
    """All processes below this one, as the program that the extension asks finds them: by their parents."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = processes.read(int(name), "stat")
        if stat:
            parents[int(name)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


class Window(Client):
    """A kernel as the extension starts it: no Jupyter server, no keys for CURVE, the kernelspec's command with a connection file
    that the extension writes; at the end it sends SIGTERM to everybody."""

    def __init__(self, folder):
        self.marker = uuid.uuid4().hex
        self.file = os.path.join(str(folder), "kernel-v3%s.json" % uuid.uuid4().hex)
        spec = KernelSpecManager().get_kernel_spec(KERNEL)
        for _ in range(5):  # a port may be lost between its choice and the kernel's bind
            self.start_process(spec, folder)
            if self.answers():
                break
            assert self.process.poll() is not None, "the kernel does not answer"
        else:
            raise AssertionError("the kernel does not start")

    def start_process(self, spec, folder):
        info = dict(zip(("%s_port" % name for name in CHANNELS), free_ports(5)))
        info.update(key=str(uuid.uuid4()), signature_scheme="hmac-sha256", transport="tcp", ip="127.0.0.1", kernel_name=spec.name
                    if hasattr(spec, "name") else KERNEL)
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(info, file)
        words = [word.replace("{resource_dir}", spec.resource_dir).replace("{connection_file}", self.file) for word in spec.argv]
        env = dict(os.environ, PYDEVD_IPYTHON_COMPATIBLE_DEBUGGING="1", **{processes.MARKER: self.marker}, **spec.env)
        env.pop("JPY_PARENT_PID", None)
        self.process = subprocess.Popen(words, env=env, cwd=str(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = BlockingKernelClient()
        client.load_connection_info(info)
        super().__init__(client)

    def answers(self):
        asked = []
        while self.process.poll() is None and len(asked) < LIMIT:
            asked.append(self.send("kernel_info_request"))
            if self.until(lambda: [cell for cell in asked if cell.ended], 1.0):
                self.info = next(cell for cell in asked if cell.ended).reply
                return True
        super().close()
        return False

    def close(self):
        super().close()
        try:
            for pid in descendants(self.process.pid) + [self.process.pid]:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass
            self.process.wait(LIMIT)
            left = processes.gone(self.marker)
            assert not left, "left over:\n" + "\n".join(left)
        finally:
            processes.kill_all(self.marker)
            os.unlink(self.file)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    window = Window(tmp_path_factory.mktemp("window"))
    yield window
    window.close()


@pytest.fixture
def window(opened):
    """The window's kernel; whatever is hidden, history and count are as before."""
    opened.run("%%distribute -n 2\nimport cellspan\nrank = cellspan.rank()")
    count, history = opened.ok("pass").reply["execution_count"], recorded(opened)
    opened.shown = []
    yield opened
    cell = opened.ok("0")
    assert cell.reply["execution_count"] == count + len(opened.shown) + 1
    assert recorded(opened) == history + opened.shown + ["0"]


def recorded(client):
    content = {"hist_access_type": "range", "session": 0, "start": 1, "stop": None, "raw": True, "output": False}
    return [line[2] for line in client.request("history_request", content)["history"]]


def seen(window, code, **options):
    """A cell of the user's."""
    window.shown.append(code)
    return window.run(code, **options)


def hidden(client, code, **options):
    options = dict({"store_history": False, "stop_on_error": False}, **options)
    return client.run(code, answer="", **options)


def on_ranks(window, expression, n=2):
    return values(seen(window, "%%%%distribute -n %d --gather\n%s" % (n, expression)).assert_ok())


# The types of all variables; what defines the function is sent each time, and removed.
TYPES = """
def _VSCODE_getVariable(names, *args):
    import json as _VSCODE_json
    import builtins as _VSCODE_builtins
    try:
        found = [{'name': name, 'type': _VSCODE_builtins.type(globals()[name]).__name__} for name in names]
        return _VSCODE_builtins.print(_VSCODE_json.dumps(found))
    finally:
        del _VSCODE_json, _VSCODE_builtins

_VSCODE_rwho_ls = %who_ls
_VSCODE_getVariable(_VSCODE_rwho_ls)

try:
    del _VSCODE_getVariable
except:
    pass
try:
    del _VSCODE_rwho_ls
except:
    pass
"""

# A function whose result comes later, from a thread, as the update of a display.
LATER = """
def __jupyter_exec_background__():
    from IPython.display import display
    from threading import Thread
    from traceback import format_exc
    output = display({"application/vnd.vscode.bg.execution.%(n)d": ""}, raw=True, display_id=True)

    def do_implementation():
        %(code)s

    def bg_main():
        try:
            output.update({"application/vnd.vscode.bg.execution.%(n)d.result": do_implementation()}, raw=True)
        except Exception as e:
            output.update({"application/vnd.vscode.bg.execution.%(n)d.error": format_exc()}, raw=True)

    Thread(target=bg_main, daemon=True).start()

__jupyter_exec_background__()
del __jupyter_exec_background__
"""
VIEW = "import json\nnames = %who_ls\nreturn json.dumps([{'name': n, 'value': repr(globals()[n])} for n in names if n in globals()])"
STARTUP = """
import matplotlib
%matplotlib inline
_VSCode_defaultMatplotlib_Params = dict(matplotlib.rcParams)
matplotlib.style.use('dark_background')
__vsc_ipynb_file__ = "/tmp/some.ipynb"
%config Completer.use_jedi = False
"""
VERSION = "import builtins\nimport ipykernel\nbuiltins.print('<' + ipykernel.__version__ + '>')"
LEFT = "import os as _VSCODE_os\n_VSCODE_files = ['/nonexistent/1', '/nonexistent/2']\nfor file in _VSCODE_files:\n    try:\n        _VSCODE_os.remove(file)\n    except:\n        pass\ndel _VSCODE_files\ndel _VSCODE_os"
# An environment without ipykernel.
HIDE = """
import sys, importlib.machinery
class _NoIpykernel(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split('.')[0] == 'ipykernel' else super().find_spec(name, path, target)
sys.meta_path[:] = [_NoIpykernel if f is importlib.machinery.PathFinder else f for f in sys.meta_path]
sys.modules.pop('ipykernel', None)
"""


def in_background(client, code, n=0, folded=True):
    """What the function gives that runs in a thread."""
    lines = code.split("\n")
    text = LATER % {"n": n, "code": "\n".join([lines[0]] + ["        " + line for line in lines[1:]])}
    cell = hidden(client, text).assert_ok()
    mime = "application/vnd.vscode.bg.execution.%d" % n

    def come():
        return [m["content"]["data"] for m in cell.of("update_display_data")]

    assert client.until(come, LIMIT), cell.shown
    [data] = come()
    assert mime + ".result" in data, data
    assert cell.of("display_data")[0]["content"]["data"] == {mime: ""}
    return json.loads(data[mime + ".result"])


def types(client):
    return {row["name"]: row["type"] for row in json.loads(hidden(client, TYPES).assert_ok().stdout)}


def test_the_extension_starts_a_kernel_without_a_server_and_without_keys(tmp_path):
    window = Window(tmp_path)
    try:
        assert window.info["language_info"]["name"] == "python"
        assert by_rank(window.ok("%%distribute -n 4\nprint('here')").stdout) == {rank: ["here"] for rank in range(4)}
        assert len(descendants(window.process.pid)) >= 6
    finally:
        window.close()  # looks who is left


def test_a_notebook_that_is_closed_while_ranks_run_leaves_nobody(tmp_path):
    window = Window(tmp_path)
    try:
        cell = window.start("%%distribute -n 2\nprint('sleeps', flush=True)\nimport time\ntime.sleep(1000)")
        window.wait_ranks(cell, "sleeps", 2)
    finally:
        window.close()


def test_what_is_sent_at_the_start(window):
    assert hidden(window, "try:\n    import ipywidgets as _VSCODE_ipywidgets\n    print('v' + _VSCODE_ipywidgets.__version__)\n"
                  "    del _VSCODE_ipywidgets\nexcept:\n    pass").stdout.startswith("v8.")
    hidden(window, STARTUP).assert_ok()
    assert seen(window, "import matplotlib; matplotlib.get_backend()").value.strip("'").endswith("inline")
    assert "image/png" in seen(window, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()").assert_ok().displays[0]
    assert on_ranks(window, "'__vsc_ipynb_file__' in globals(), '_VSCode_defaultMatplotlib_Params' in globals()") == [(False, False)] * 2


# -- is the kernel a modern one?


def test_a_real_ipykernel_is_asked_first(window):
    import ipykernel

    assert hidden(window, VERSION).assert_ok().stdout == "<%s>\n" % ipykernel.__version__


def test_without_ipykernel_the_debugger_is_not_refused_and_nobody_else_is_misled(tmp_path):
    window = Window(tmp_path)
    try:
        window.ok(HIDE)
        for _ in range(2):
            version = re.fullmatch(r"<(\d+)\.\d+\.\d+>\n", hidden(window, VERSION).assert_ok().stdout)
            assert version and int(version.group(1)) >= 6
        assert window.ok("import sys\n'ipykernel' in sys.modules, 'ipykernel' in globals()").value == "(False, False)"
        window.run("import ipykernel").assert_error("ModuleNotFoundError")
        assert window.ok("import importlib.util\nimportlib.util.find_spec('ipykernel') is None").value == "True"
        hidden(window, "import ipykernel\nimport ipykernel.comm").assert_error("ModuleNotFoundError")
        library = tmp_path / "library.py"
        library.write_text("try:\n    import ipykernel\nexcept ImportError:\n    ipykernel = None\n")
        assert hidden(window, "import library; print(library.ipykernel)").assert_ok().stdout == "None\n"
        window.ok("import ipywidgets, comm, matplotlib.pyplot, tqdm.auto")
        assert window.ok("import tqdm.auto\ntqdm.auto.tqdm.__mro__[1].__module__").value == "'tqdm.notebook'"
        assert window.ok("ipywidgets.IntSlider()").result["application/vnd.jupyter.widget-view+json"]
        assert window.ok("import matplotlib\nmatplotlib.get_backend()").value.strip("'").endswith("inline")
        assert rank_values(window, "'ipykernel' in __import__('sys').modules", 2) == [False, False]
    finally:
        window.close()


# -- variables


def test_the_variables_view(window):
    seen(window, "import pandas\nframe, number, words = pandas.DataFrame({'a': [1, 2]}), 5, ['x'] * 3").assert_ok()
    found = types(window)
    assert {"frame": "DataFrame", "number": "int", "words": "list"}.items() <= found.items()
    assert not [name for name in found if name.startswith(("_VSCODE", "_cellspan"))]
    rows = {row["name"]: row["value"] for row in in_background(window, VIEW)}
    assert rows["number"] == "5" and rows["words"] == "['x', 'x', 'x']" and "frame" in rows
    inspected = window.request("inspect_request", {"code": "number", "cursor_pos": 0, "detail_level": 0})
    assert re.search(r"Type:\s+int", re.sub("\x1b[^m]*m", "", inspected["data"]["text/plain"]))


def test_user_expressions_of_a_hidden_request(window):
    seen(window, "number = 5").assert_ok()
    reply = hidden(window, "", user_expressions={"n": "number + 1", "no": "1 / 0"}).assert_ok().reply
    assert reply["user_expressions"]["n"]["data"]["text/plain"] == "6"
    assert reply["user_expressions"]["no"]["status"] == "error"


def test_an_error_in_a_hidden_request_ends_nothing_that_follows(window):
    failed = window.start("raise ValueError('hidden')", store_history=False, stop_on_error=False, answer="")
    after = window.start("print('went on')", store_history=False, stop_on_error=False)
    window.wait(after)
    assert failed.error["ename"] == "ValueError" and after.stdout == "went on\n"


# -- what ranks notice


def test_a_hidden_request_makes_nothing_newer(window):
    seen(window, "import numpy\ngrid, model, same = numpy.zeros(1 << 15), {'w': 1}, 0").assert_ok()
    assert on_ranks(window, "float(grid.sum()), model['w'], same") == [(0.0, 1, 0)] * 2
    seen(window, "%%distribute -n 2\ngrid[0] = 1 + rank; model['w'] = 2; same = 7; file = rank").assert_ok()
    types(window)
    in_background(window, VIEW)
    hidden(window, LEFT).assert_ok()
    hidden(window, "same = 0").assert_ok()
    assert on_ranks(window, "float(grid[0]), model['w'], same, file") == [(1.0, 2, 7, 0), (2.0, 2, 7, 1)]
    assert on_ranks(window, "[name for name in globals() if 'VSCODE' in name or 'jupyter_exec' in name]") == [[], []]


def test_what_a_hidden_request_leaves_is_not_newer_than_what_ranks_bind(window):
    seen(window, "%%distribute -n 2\nfile = ['rank', rank]").assert_ok()
    for _ in range(2):
        hidden(window, LEFT).assert_ok()
        assert on_ranks(window, "file") == [["rank", 0], ["rank", 1]]
    seen(window, "file = 'mine'").assert_ok()
    assert on_ranks(window, "file") == ["mine"] * 2
    seen(window, "%%distribute -n 2\ndef change():\n    global file\n    file = rank\nchange()").assert_ok()
    hidden(window, LEFT).assert_ok()
    assert on_ranks(window, "file") == [0, 1]
    assert seen(window, "file").value == "'/nonexistent/2'"
    assert on_ranks(window, "file") == [0, 1]
    seen(window, "file = '/nonexistent/2'").assert_ok()
    assert on_ranks(window, "file") == ["/nonexistent/2"] * 2


def test_what_a_startup_command_defines_is_sent(window):
    hidden(window, "import fractions as fr\nstep = 3").assert_ok()
    assert on_ranks(window, "str(fr.Fraction(1, step))") == ["1/3"] * 2


# -- while ranks run


def test_requests_while_ranks_run(window, gate):
    seen(window, "number = 5").assert_ok()
    window.shown.append("%%distribute -n 2\nprint('began', flush=True)\n" + gate.code.rstrip())
    cell = window.start(window.shown[-1])
    window.wait_ranks(cell, "began", 2)
    found = window.request("inspect_request", {"code": "number", "cursor_pos": 0, "detail_level": 0})
    assert found["found"] and not cell.ended
    done = window.request("complete_request", {"code": "__file__.", "cursor_pos": 9})
    assert done["status"] == "ok" and not cell.ended
    waits = window.start("print('hidden')", store_history=False, stop_on_error=False)
    window.shown.append("print('next')")
    following = window.start("print('next')")
    gate.open()
    window.wait(following)
    assert cell.ended and waits.stdout == "hidden\n" and following.stdout == "next\n"


def test_a_view_that_began_before_a_cell_comes_during_it(window, gate, tmp_path):
    mime = "application/vnd.vscode.bg.execution.7"
    code = "import time, os\n        while not os.path.exists(%r):\n            time.sleep(0.02)\n        return 'come'" % str(tmp_path / "now")
    view = hidden(window, LATER % {"n": 7, "code": code}).assert_ok()
    window.shown.append("%%distribute -n 2\nprint('began', flush=True)\n" + gate.code.rstrip())
    cell = window.start(window.shown[-1])
    window.wait_ranks(cell, "began", 2)
    (tmp_path / "now").touch()
    assert window.until(lambda: view.of("update_display_data"), LIMIT) and not cell.ended
    assert view.of("update_display_data")[0]["content"]["data"] == {mime + ".result": "come"}
    gate.open()
    window.wait(cell).assert_ok()


@pytest.mark.parametrize("magic", ["", "%%distribute -n 2\n"], ids=["home", "ranks"])
def test_an_interrupt_comes_as_a_message(window, magic):
    assert KernelSpecManager().get_kernel_spec(KERNEL).interrupt_mode == "message"
    window.shown.append(magic + "print('began', flush=True)\nimport time\ntime.sleep(1000)")
    cell = window.start(window.shown[-1], stop_on_error=False)
    waits = window.start("print('hidden')", store_history=False, stop_on_error=False)
    window.wait(cell, LIMIT, lambda: "began" in cell.stdout)
    assert window.control("interrupt_request")["status"] == "ok"
    window.wait(waits)
    assert cell.ename == "KeyboardInterrupt" and waits.stdout == "hidden\n"


# -- others


def test_a_variable_inspector(window):
    """JupyterLab's extension defines its functions in a silent request, and asks for a value after each execute_input."""
    init = ("import json, sys\nfrom IPython.core.magics.namespace import NamespaceMagics\n_inspector = NamespaceMagics()\n"
            "_inspector.shell = get_ipython().kernel.shell\n__np = None\n"
            "def _inspector_list():\n    return json.dumps([{'name': n, 'type': type(eval(n)).__name__} for n in _inspector.who_ls()])")
    window.run(init, silent=True, store_history=True).assert_ok()
    seen(window, "%%distribute -n 2\nnumber = 4.5").assert_ok()
    seen(window, "%pull number -r 1").assert_ok()
    shown = json.loads(values(hidden(window, "_inspector_list()").assert_ok()))
    assert {"name": "number", "type": "float"} in shown
    assert on_ranks(window, "number, '_inspector' in globals()") == [(4.5, False)] * 2


# -- "Debug Cell"


class Debugging:
    """What the extension and VS Code's own debugger send for a cell, in their order."""

    def __init__(self, window, code):
        self.window, self.code, self.seq, self.since = window, code, 0, len(window.strays)
        self.ask("initialize", {"clientID": "vscode", "clientName": "Visual Studio Code", "adapterID": "Python Kernel Debug Adapter", "pathFormat": "path",
                                "linesStartAt1": True, "columnsStartAt1": True, "supportsVariableType": True, "supportsVariablePaging": True,
                                "supportsRunInTerminalRequest": True, "locale": "en", "supportsProgressReporting": True,
                                "supportsInvalidatedEvent": True, "supportsMemoryReferences": True})
        self.ask("attach", {"type": "Python Kernel Debug Adapter", "name": "some.ipynb", "request": "attach", "justMyCode": True, "__mode": "cell",
                            "__cellIndex": 0, "__notebookUri": "file:///tmp/some.ipynb", "__sessionId": "1"})
        self.wait("initialized")
        self.path = self.ask("dumpCell", {"code": code})["sourcePath"]

    def begin(self, *lines):
        """Sets breakpoints, and runs the cell. Returns it."""
        self.ask("setBreakpoints", {"source": {"name": "some.ipynb", "path": self.path}, "lines": list(lines),
                                    "breakpoints": [{"line": line} for line in lines], "sourceModified": False})
        self.ask("setFunctionBreakpoints", {"breakpoints": []})
        self.ask("setExceptionBreakpoints", {"filters": [], "filterOptions": []})
        hidden(self.window, "import debugpy\ndebugpy.debug_this_thread()").assert_ok()
        assert self.ask("dumpCell", {"code": self.code})["sourcePath"] == self.path
        self.window.shown.append(self.code)
        cell = self.window.start(self.code, answer="", stop_on_error=False)
        self.ask("configurationDone", {})
        self.ask("threads")
        return cell

    def ask(self, command, arguments=None):
        self.seq += 1
        reply = self.window.control("debug_request", {"type": "request", "seq": self.seq, "command": command, "arguments": arguments or {}})
        assert reply.get("success"), reply
        return reply.get("body") or {}

    def wait(self, kind, n=1):
        """The contents of the first n events of a kind."""
        def come():
            every = [m for cell in self.window.cells.values() for m in cell.messages] + self.window.strays[self.since :]
            every = [m["content"] for m in every if m["msg_type"] == "debug_event" and m["content"]["event"] == kind]
            return every if len(every) >= n else None

        found = self.window.until(come, LIMIT)
        assert found, "no %d times %s" % (n, kind)
        return found

    def frame(self, thread):
        return self.ask("stackTrace", {"threadId": thread, "startFrame": 0, "levels": 20})["stackFrames"][0]

    def locals(self, frame):
        scopes = self.ask("scopes", {"frameId": frame["id"]})["scopes"]
        rows = self.ask("variables", {"variablesReference": scopes[0]["variablesReference"]})["variables"]
        return {row["name"]: row["value"] for row in rows}

    def end(self):
        hidden(self.window, LEFT.replace("/nonexistent/1", self.path)).assert_ok()
        self.ask("disconnect", {"restart": False})


@pytest.fixture
def debugged(tmp_path):
    """A window of its own."""
    needs("debugpy")
    window = Window(tmp_path)
    window.shown = []
    yield window
    window.close()


def test_debug_cell_at_home(debugged):
    assert hidden(debugged, VERSION).assert_ok().stdout
    session = Debugging(debugged, "def f(a):\n    b = a + 1\n    return b\n\nprint(f(3))")
    cell = session.begin(3)
    [event] = session.wait("stopped")
    frame = session.frame(event["body"]["threadId"])
    assert frame["source"]["path"] == session.path and frame["line"] == 3 and session.locals(frame) == {"a": "3", "b": "4"}
    session.ask("continue", {"threadId": event["body"]["threadId"]})
    assert debugged.wait(cell).assert_ok().stdout == "4\n"
    session.end()
    assert debugged.ok("1 + 1").value == "2"


@pytest.mark.parametrize("magic, line", [("", 1), ("%%distribute -n 1\n", 2)], ids=["home", "ranks"])
def test_debug_cell_that_begins_with_empty_lines(debugged, magic, line):
    """The extension counts lines from the first that is not empty."""
    session = Debugging(debugged, "\n\n" + magic + "a = 1\nb = 2\nc = 3")
    cell = session.begin(line + 1)
    [event] = session.wait("stopped")
    frame = session.frame(event["body"]["threadId"])
    assert frame["source"]["path"] == session.path and frame["line"] == line + 1
    shown = session.ask("evaluate", {"expression": "[n for n in 'abc' if n in globals()]", "frameId": frame["id"], "context": "watch"})
    assert shown["result"] == "['a']"
    session.ask("continue", {"threadId": event["body"]["threadId"]})
    debugged.wait(cell).assert_ok()
    session.end()


def test_debug_cell_on_ranks(debugged):
    session = Debugging(debugged, "%%distribute -n 2\nimport os\nr = int(os.environ['RANK'])\ns = r + 1\nprint(s)")
    cell = session.begin(4)
    events = session.wait("stopped", 2)
    names = {row["id"]: row["name"] for row in session.ask("threads")["threads"]}
    threads = sorted((names[event["body"]["threadId"]], event["body"]["threadId"]) for event in events)
    assert [name for name, _ in threads] == ["rank 0", "rank 1"]
    for rank, (_, thread) in enumerate(threads):
        frame = session.frame(thread)
        assert frame["line"] == 4 and frame["source"]["path"] == session.path
        assert session.ask("evaluate", {"expression": "r", "frameId": frame["id"], "context": "watch"})["result"] == str(rank)
        session.ask("continue", {"threadId": thread})
    assert by_rank(debugged.wait(cell).assert_ok().stdout) == {0: ["1"], 1: ["2"]}
    session.end()


# -- the extension's own scripts


def script(name):
    folder = os.environ.get("CELLSPAN_TEST_VSCODE")
    if not folder:
        pytest.skip("CELLSPAN_TEST_VSCODE does not name the extension's folder")
    with open(os.path.join(folder, "pythonFiles", "vscode_datascience_helpers", *name.split("/")), encoding="utf-8") as file:
        return file.read()


def test_the_extensions_own_variables_view(window):
    old, new = script("getVariableInfo/vscodeGetVariableInfo.py"), script("getVariableInfo/vscodeGetVariablesForProvider.py")
    seen(window, "import numpy, pandas\nframe, number, grid = pandas.DataFrame({'a': [1, 2]}), 5, numpy.ones((3, 4))").assert_ok()
    found = json.loads(hidden(window, old + "\n\n_VSCODE_rwho_ls = %who_ls\n_VSCODE_getVariable(\"types\", False, _VSCODE_rwho_ls)\n"
                              "del _VSCODE_getVariable\ndel _VSCODE_rwho_ls").assert_ok().stdout)
    assert {"frame": "DataFrame", "number": "int", "grid": "ndarray"}.items() <= {row["name"]: row["type"] for row in found}.items()
    info = json.loads(hidden(window, old + '\n\n_VSCODE_getVariable("info", False, grid)\n\ndel _VSCODE_getVariable').assert_ok().stdout)
    assert info["shape"] == "(3, 4)" and info["count"] == 3
    rows = in_background(window, new + "\n\nvariables= %who_ls\nreturn _VSCODE_getVariableDescriptions(variables)")
    assert {"frame", "number", "grid"} <= {row["name"] for row in rows}
    children = in_background(window, new + "\n\nreturn _VSCODE_getAllChildrenDescriptions('frame', [], 0)")
    assert "shape" in {row["name"] for row in children}
    summary = in_background(window, new + "\n\nvariables= %who_ls\nreturn _VSCODE_getVariableSummary(frame)")
    assert "2 entries" in summary["summary"]
    assert on_ranks(window, "number") == [5, 5]


def test_the_extensions_own_data_viewer(window):
    frames = script("dataframes/vscodeDataFrame.py")
    seen(window, "import pandas, torch\nframe, tensor = pandas.DataFrame({'a': [1, 2]}), torch.ones(3, 2)").assert_ok()
    for name, rows in (("frame", 2), ("tensor", 3)):
        info = hidden(window, frames + '\n\n_VSCODE_getDataFrame("info", False, %s)\n\ndel _VSCODE_getDataFrame' % name).assert_ok()
        assert json.loads(info.stdout)["rowCount"] == rows
        got = hidden(window, frames + '\n\n_VSCODE_getDataFrame("rows", False, %s, 0, 2)\n\ndel _VSCODE_getDataFrame' % name).assert_ok()
        assert len(json.loads(got.stdout)["data"]) == 2


def test_the_extensions_own_hook_of_the_interactive_window(window):
    hidden(window, script("kernel/addRunCellHook.py")).assert_ok()
    assert seen(window, "1 + 1").value == "2"
    assert on_ranks(window, "rank") == [0, 1]
