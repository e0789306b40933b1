# SPDX-License-Identifier: BSD-3-Clause
"""An interrupt does not break off the import of a library. Each test has a process of its own, with a link and modules in two folders:
those in site-packages are a library's. `interrupt` of a module has an interrupt come, and returns when the worker has read it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

FILES = {
    "site-packages/lib/__init__.py": "first = 1\n",
    "site-packages/lib/part.py": "from __main__ import interrupt\ninterrupt()\nfrom . import other\nlast = 2\n",
    "site-packages/lib/other.py": "last = 3\n",
    "site-packages/lib/twice.py": "import time\nfrom __main__ import interrupt\ninterrupt()\ntime.sleep(1.1)\ninterrupt()\ntime.sleep(3)\n",
    "site-packages/lib/slow.py": "import time\nfrom __main__ import interrupt\ninterrupt()\ntime.sleep(600)\n",
    "site-packages/lib/killed.py": "import time\nfrom __main__ import interrupt, tell, read\ninterrupt()\ntell('STACKS', 0, {'until': 0})\nread()\ntime.sleep(3)\n",
    "site-packages/lib/asks.py": "import time\nfrom __main__ import interrupt, _link\n_link.let_import()\ninterrupt()\ntime.sleep(3)\n",
    "site-packages/lib/fails.py": "from __main__ import interrupt\ninterrupt()\nimport nosuch\n",
    "site-packages/lib/raises.py": "raise KeyboardInterrupt('own')\n",
    "own/__init__.py": "",
    "own/at_once.py": "import time\nfrom __main__ import interrupt\ninterrupt()\ntime.sleep(600)\n",
    "own/reads.py": "begun = 1\nimport lib.part\nimport __main__\n__main__.went_on = True\n",
}

START = """
import os, signal, socket, sys, time, traceback
sys.path[:0] = [{0!r}, {0!r} + "/site-packages"]
from cellspan import _link
agent, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
_link.start(worker.detach(), lambda: None)
_link.hold_imports((os.path.dirname(os.__file__) + os.sep,))
def tell(*args, **kw): agent.send(b"\\0" + _link.encode(*args, **kw))
def interrupt():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    tell("INTERRUPT", 1)
    read()
def read():
    tell("PACK")
    while _link.recv() is None: pass
def names(error): return [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
def said(error): return type(error).__name__, str(error), type(error.__context__).__name__
def loaded(*names): return [name in sys.modules for name in names]
went_on = False
_link.begin(1)
"""


@pytest.fixture
def run(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(code):
        """What the code prints. It must end well."""
        script = START.format(str(tmp_path)) + textwrap.dedent(code) + "\nsys.stdout.flush()\n_link.stop()"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, start_new_session=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("statement", ["import lib.part", "from lib import part", "__import__('lib.part')", "import pickle; pickle.loads(b'clib.part\\nlast\\n.')"])
def test_it_is_raised_where_the_import_of_the_library_stands(run, statement):
    assert run(f"""
        try:
            {statement}
            went_on = True
        except KeyboardInterrupt as error:
            print(names(error), said(error))
        import lib.part
        print(went_on, lib.first, lib.part.last, lib.part.other.last)
    """) == "['<module>'] ('KeyboardInterrupt', '', 'NoneType')\nFalse 1 2 3\n"


def test_in_a_module_of_the_user_it_is_raised_at_once(run):
    assert run("""
        try:
            import own.at_once
        except KeyboardInterrupt as error:
            print(names(error)[:3], loaded("own", "own.at_once"))
    """) == "['<module>', '<module>', 'interrupt'] [True, False]\n"


def test_a_module_of_the_user_that_imports_a_library_ends_there(run):
    assert run("""
        try:
            import own.reads
        except KeyboardInterrupt as error:
            print(names(error), went_on, loaded("own.reads", "lib.part", "lib.other"))
    """) == "['<module>', '<module>'] False [False, True, True]\n"


@pytest.mark.parametrize("name", ["twice", "slow", "killed", "asks"])
def test_it_waits_no_longer(run, name):
    """twice: for another interrupt, a second later; slow: than 10 s; killed: when stacks are asked for; asks: for the user's answer."""
    assert run(f"""
        try:
            import lib.{name}
        except KeyboardInterrupt as error:
            print(len(names(error)) > 1, loaded("lib", "lib.{name}"))
        try:  # the next import holds again
            import lib.part
        except KeyboardInterrupt:
            print(loaded("lib.part", "lib.other"))
    """) == "True [True, False]\n[True, True]\n"


def test_an_import_that_fails_by_itself_fails_so(run):
    assert run("""
        def f():
            try:
                import lib.fails
            except ImportError:
                time.sleep(600)
        try:
            f()
        except KeyboardInterrupt as error:
            print(said(error))
        try:
            import lib.raises
        except KeyboardInterrupt as error:
            print(said(error))
        try:
            import time
            interrupt()
            time.sleep(600)
        except KeyboardInterrupt:
            print("at once")
    """) == "('KeyboardInterrupt', '', 'ModuleNotFoundError')\n('KeyboardInterrupt', 'own', 'NoneType')\nat once\n"


def test_the_import_of_another_thread_holds_nothing(run):
    assert run("""
        import threading
        begun, go = threading.Event(), threading.Event()
        class Waits:
            def find_spec(self, name, path=None, target=None):
                if name == "lib.other":
                    begun.set()
                    go.wait()
        sys.meta_path.insert(0, Waits())
        def load():
            import lib, lib.other
        thread = threading.Thread(target=load)
        thread.start()
        begun.wait()
        try:
            interrupt()
            time.sleep(600)
        except KeyboardInterrupt:
            print("at once")
        go.set()
        thread.join()
        print(loaded("lib.other"))
    """) == "at once\n[True]\n"


def test_imports_are_as_deep_and_fail_as_in_python(tmp_path):
    """The same program with Python's own functions and with ours."""
    names = ("site-packages/deep", "mine")
    for name in names:
        os.makedirs(tmp_path / name)
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "bad.py").write_text("def f():\n    import nosuch\nf()\n")
        (tmp_path / name / "round.py").write_text("from . import again\n")
        (tmp_path / name / "again.py").write_text("from .round import x\n")
        for i in range(300):
            (tmp_path / name / f"m{i}.py").write_text(f"from . import m{i + 1}\n")
    program = START.format(str(tmp_path)).replace("_link.hold_imports", "if 'ours' in sys.argv: _link.hold_imports") + textwrap.dedent("""
        import importlib
        def show(call, *args):
            try: call(*args)
            except BaseException: traceback.print_exc(file=sys.stdout)
        for name in "deep", "mine":
            for of in "bad", "round", "none", "none.none":
                show(__import__, f"{name}.{of}")
                show(importlib.import_module, f"{name}.{of}")
                show(exec, f"from {name} import {of.partition('.')[0]}")
            most = []
            class Counts:
                def find_spec(self, name, path=None, target=None): most.append(name)
            sys.meta_path.insert(0, Counts())
            try: __import__(name + ".m0")
            except RecursionError: print(len(most), max(len(name) for name in most))
            sys.meta_path.pop(0)
        sys.stdout.flush()
        _link.stop()
    """)
    said = [subprocess.run([sys.executable, "-c", program, word], capture_output=True, text=True, timeout=200) for word in ("python", "ours")]
    assert said[0].returncode == said[1].returncode == 0, said
    assert said[0].stdout == said[1].stdout and said[0].stdout.count("Traceback") == 24
