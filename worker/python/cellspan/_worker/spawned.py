# SPDX-License-Identifier: BSD-3-Clause
"""Processes that multiprocessing starts with "spawn" or "forkserver" get what the notebook has defined.

Such a process is a new Python. For a script, it imports the script's file again, and finds its functions and classes there. A
notebook has no such file. So what multiprocessing sends to the process carries the notebook's functions and classes, with the
variables and modules that they read. The process sets them in its __main__ before it loads its target. From then on both sides
pickle them by their names, so that objects of the notebook's classes travel both ways, and nothing else of multiprocessing is
changed. No cell runs again.

If the process starts others, these get what it has.
"""

from __future__ import annotations

import functools
import importlib
import io
import operator
import os
import pickle
import re
import sys
import threading
import types
import typing

from .._base.errors import text_of
from .._base.imports import when_imported

SMALL = 16 << 20  # bytes of a variable that only functions read which the process may never call
WAYS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
POOLS = ("multiprocessing.pool", "concurrent.futures.process")  # what their processes will call is not known when they start
BOOT = """import os, sys
kept = list(sys.path), sys.dont_write_bytecode
sys.path[:] = [p for p in sys.path if p not in ("", {folder!r}) or p == {own!r}]
sys.dont_write_bytecode = True
try:
    import cellspan._base.shadows, cellspan._capture.vars_bundle, cellspan._worker.spawned
    cellspan._base.shadows.watch({folder!r} or "")
finally:
    sys.path[:], sys.dont_write_bytecode = kept
"""
MISSING = r"name '(\w+)' is not defined"
NOT_SENT = "(?i)can('t|not) (pickle|get local object)"
NOT_THERE = r"Can't get attribute '[^']*' on <module '__main__'"
ADVICE = "multiprocessing can't send this to a process. Ranks can run it: cellspan.run(f, n=2), or a cell with %%distribute"

LATE = "define it before the pool or the process begins"
ARGUMENT = "give it to them as an argument"
MAKE = "make it in the function that they run"
SHARE = 'processes share a lock of multiprocessing: get_context("spawn").Lock() or RLock()'
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
LOCKS = (type(threading.Lock()), type(threading.RLock()))

_left = {}  # {name: (why the processes do not have it, what to do)}
_started = []  # the namespace of this process, once watch() was called


def watch(namespace):
    """From now on, processes that this one starts get what is defined in `namespace`, the notebook's __main__."""
    if not _started:
        for way in WAYS:
            when_imported(way, functools.partial(_change, way))
    _started[:] = [namespace]


def _change(way):
    """Wraps the method that sends the process object."""
    popen = sys.modules[way].Popen
    launch = popen._launch

    @functools.wraps(launch)
    def launching(self, process):
        __tracebackhide__ = True
        if not _is_the_notebook():
            return launch(self, process)
        sent = _Sent(process)
        try:
            return launch(self, sent)
        finally:
            sent.close()

    popen._launch = launching
    _prepare_without_file()


def _is_the_notebook():
    """Is __main__ the notebook, and not a script that %run executes? A notebook may define `__file__`, too: a process can run only a
    file of Python."""
    main = sys.modules.get("__main__")
    if getattr(main, "__dict__", None) is not _started[0]:
        return False
    file = getattr(main, "__file__", None)
    return not (isinstance(file, str) and file.endswith(".py") and os.path.isfile(os.path.join(_folder() or "", file)))


def _prepare_without_file():
    """Else a process would run the notebook's `__file__` before it loads what was sent."""
    spawn = sys.modules["multiprocessing.spawn"]
    prepare = spawn.get_preparation_data
    if hasattr(prepare, "__wrapped__"):
        return

    @functools.wraps(prepare)
    def get_preparation_data(name):
        data = prepare(name)
        if _is_the_notebook():
            data.pop("init_main_from_path", None)
        return data

    spawn.get_preparation_data = get_preparation_data


class _Call:
    """Is loaded as the value of a call."""

    def __init__(self, function, *args):
        self._call = function, args

    def __reduce__(self):
        return self._call


class _Sent:
    """In place of the process object: is loaded as it, when the definitions are there."""

    def __init__(self, process):
        self._process, self._fd = process, -1

    def close(self):
        """Call it when the process has its own copies of what was sent."""
        if self._fd >= 0:
            os.close(self._fd)

    def __getattr__(self, name):
        return getattr(self._process, name)

    def __reduce__(self):
        __tracebackhide__ = True
        from multiprocessing import reduction

        process = self._process
        body, used = _pickled(process)
        definitions = _Definitions(_started[0], used, _is_pools(process))
        made, size = definitions.packed()
        if not isinstance(made, bytes):
            self._fd, made = made, reduction.DupFd(made)
        own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        boot = _Call(exec, BOOT.format(folder=_folder(), own=own), {})
        return operator.getitem, ((boot, _Call(receive, made, size, definitions.modules, body)), 1)


def _folder():
    """The folder that the process has on its path in place of ""."""
    from multiprocessing import process

    return process.ORIGINAL_DIR


def _pickled(process):
    """(the process object's pickle, {id: function or class of the notebook in it})."""
    __tracebackhide__ = True
    from multiprocessing import reduction

    used = {}

    class Pickler(reduction.ForkingPickler):
        def reducer_override(self, obj):
            if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
                used[id(obj)] = obj
            return NotImplemented

    try:
        return bytes(Pickler.dumps(process)), used
    except Exception as error:
        _advise(error)
        raise


def _advise(error):
    try:
        error._cellspan_hint = ADVICE
    except AttributeError:  # a class with __slots__
        pass


_KINDS = (type, types.FunctionType, functools._lru_cache_wrapper, typing.TypeVar)


def _is_definition(value):
    return isinstance(value, _KINDS) and getattr(value, "__module__", None) == "__main__"


class _Definitions:
    """What a process gets. used: as of _pickled(). pool: the process may be asked to call any function."""

    def __init__(self, namespace, used, pool):
        from .._capture import own_names, reducers, vars_bundle

        self._reducers, self._bundles = reducers, vars_bundle
        self._is_own = own_names.is_own
        self._namespace = namespace
        self._names = namespace.copy()  # other threads may change it
        self._used, self._pool = used, pool
        self._values, self.modules = {}, {}
        self._failed = {}  # {name: why it can't be sent}
        self._advice = {}  # {name in it: what to do, if the process may get it in no other way}
        self._found = {}  # {name: the function that reads it, or ""}

    def packed(self):
        """(the bundle as bytes or as a descriptor, its size). Afterwards, .modules: {name: module}."""
        __tracebackhide__ = True
        from .. import _link

        defined = [name for name, value in self._names.items() if _is_definition(value) and not self._is_own(name, value, self._namespace)]
        needed = [name for name in defined if id(self._names[name]) in self._used]
        limit = _link.capture_limit()
        self._take(dict.fromkeys(needed, ""), limit)
        self._refuse(needed)
        self._tell()
        self._take(dict.fromkeys(defined, ""), min(limit, SMALL))
        for name, why in self._failed.items():
            _left[name] = why, self._advice.get(name, ARGUMENT)
        for name in self._values:
            _left.pop(name, None)
        made = self._bundles.pack(self._values, self._namespace, limit, small=SMALL)
        return (made, len(made)) if isinstance(made, bytes) else made

    def _take(self, names, limit):
        """Adds these names, and those that they read, as far as each can be pickled within `limit` bytes."""
        while names:
            name, by = names.popitem()
            if name in self._found or name not in self._names or self._is_own(name, self._names[name], self._namespace):
                continue
            self._found[name] = by
            value = self._names[name]
            if isinstance(value, types.ModuleType):
                self.modules[name] = value.__name__
                continue
            try:
                pickled = self._reducers.Pickled({name: value}, self._namespace, chunks=_Bounded(limit, self._reducers))
                if pickled.size > limit:
                    raise self._reducers.Overflow(pickled.size)
            except self._reducers.Overflow as error:
                self._failed[name] = f"more than {self._bundles.human(limit)}" if error.args[0] <= limit else self._bundles.human(error.args[0])
            except Exception as error:  # noqa: BLE001 - of any object's reducer
                self._failed[name], self._advice[name] = self._why(error, value)
            else:
                self._values[name] = value
                names.update((read, by) for read, by in pickled.reads.items() if read not in self._found)

    def _why(self, error, value):
        """(why a value can't be sent, what to do)."""
        from multiprocessing import reduction

        from .._capture import worlds

        if isinstance(error, worlds.OtherWorld) and error.what:
            return f"{error.what} knows only the world in which it was made", MAKE
        why = self._bundles.reason(error)
        if isinstance(value, LOCKS):
            return why, SHARE
        return why, ARGUMENT if type(value) in reduction.ForkingPickler._extra_reducers else MAKE

    def _refuse(self, needed):
        __tracebackhide__ = True
        for name in needed:
            if name in self._failed:
                error = pickle.PicklingError(f"{name} can't be sent to the process: {self._failed[name]}")
                _advise(error)
                raise error

    def _tell(self):
        """A line for each variable that the process's own functions lack, once."""
        for name, why in self._failed.items():
            if _left.get(name, ("",))[0] != why:
                line = (f"cellspan: {name}, which {self._found[name]} reads, was not sent to the process that multiprocessing starts: {why}: "
                        f"{self._advice.get(name, ARGUMENT).replace('them', 'it').replace('they run', 'it runs')}")
                print(line, file=sys.stderr)


class _Bounded:
    """As reducers.Chunks, the file of a pickler that is only measured; stops it at `limit` bytes."""

    def __init__(self, limit, reducers):
        self.size, self.limit, self._over = 0, limit, reducers.Overflow

    def write(self, data):
        self.size += len(data)
        if self.size > self.limit:
            raise self._over(self.size)
        return len(data)


# ---- in the process --------------------------------------------------------------------------------------------------


def receive(*sent):
    """Sets the definitions in __main__, and loads the process object."""
    try:
        return _received(*sent)
    except BaseException:
        sys.excepthook = functools.partial(_show, sys.excepthook)
        raise


def _show(hook, kind, error, tb):
    """As the hook, without the frames of this package."""
    error.__traceback__ = without_our_frames(tb)
    hook(kind, error, error.__traceback__)


def without_our_frames(tb):
    """A traceback without the frames of this package."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    if tb is not None:
        tb.tb_next = without_our_frames(tb.tb_next)
    return tb


_held = []  # what weak references lead to, for as long as the process lives


def _received(sent, size, modules, body):
    from .._capture import rebuild, vars_bundle

    namespace = sys.modules["__main__"].__dict__
    watch(namespace)
    for name, module in modules.items():
        try:
            namespace[name] = importlib.import_module(module)
        except ImportError:  # who uses it gets a NameError
            pass
    with rebuild.holding(_held):
        if isinstance(sent, bytes):
            values = vars_bundle.unpack_bytes(sent, namespace, land=_on_gpu)
        else:
            fd = sent.detach()
            try:
                values = vars_bundle.unpack(fd, size, namespace, land=_on_gpu)
            finally:
                os.close(fd)
        namespace.update(values)
        process = pickle.loads(body)
    if _is_pools(process):
        _keep_alive()
    return process


class _NotThere:
    """In place of a function that the process does not have. What a pool asks for is loaded before it is called, and an error there ends
    the process: a pool of concurrent.futures is broken then, and one of multiprocessing waits for ever. So the call raises it."""

    def __init__(self, name, text):
        self._name, self._text = name, text

    def __call__(self, *args, **kw):
        raise AttributeError(self._text)

    def __reduce__(self):
        return _of_main, (self._name,)


def _of_main(name):
    return operator.attrgetter(name)(sys.modules["__main__"])


class _Loads(pickle.Unpickler):
    """Loads what lacks functions of the notebook."""

    def find_class(self, module, name):
        try:
            return super().find_class(module, name)
        except AttributeError as error:
            if module != "__main__":
                raise
            return _NotThere(name, str(error))


def _keep_alive():
    """From now on, a pool's process outlives what it can't load, if it can."""
    from multiprocessing import reduction

    real = reduction.ForkingPickler.loads

    def loads(data, **options):
        try:
            return real(data, **options)
        except AttributeError as error:
            if not re.search(NOT_THERE, str(error)):
                raise
            try:
                return _Loads(io.BytesIO(data), **options).load()
            except Exception:  # noqa: BLE001 - what is missing is a class, or can be loaded only once
                raise AttributeError(f"{error} ({LATE})").with_traceback(None) from None

    reduction.ForkingPickler.loads = staticmethod(loads)


def _is_pools(process):
    """Is it a process of a pool, which will be asked to call any function?"""
    return getattr(getattr(process, "_target", None), "__module__", None) in POOLS


def _on_gpu(views, meta):
    """{number of a storage: a storage on this process's GPU}, for storages that were on one."""
    torch = importlib.import_module("torch")
    rows = [(n, index) for n, ((index, _), kind) in enumerate(zip(meta["storages"], meta["devices"])) if kind == "cuda" and len(views[index])]
    return {n: torch.frombuffer(views[index], dtype=torch.uint8).to("cuda").untyped_storage() for n, index in rows}


# ---- errors ----------------------------------------------------------------------------------------------------------


def _in_a_pool(error):
    """Did multiprocessing pickle what could not be pickled?"""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__", "").startswith(("multiprocessing.", "concurrent.futures.")):
            return True
        step = step.tb_next
    return False


def _in_a_process(error):
    """Was it raised in a process that multiprocessing has started? Pools give such an error its text there as the cause, and torch's
    mp.spawn has an exception for it."""
    names = {kind.__name__ for e in (error, getattr(error, "__cause__", None)) for kind in type(e).__mro__}
    return bool(names & {"RemoteTraceback", "_RemoteTraceback", "ProcessRaisedException"})


def hints(error):
    """Lines below an error's traceback that say what a process of multiprocessing lacked."""
    own = getattr(error, "_cellspan_hint", None)
    if isinstance(own, str):
        return [own]
    if "multiprocessing" not in sys.modules:
        return []
    if isinstance(error, (pickle.PicklingError, AttributeError, TypeError)) and re.search(NOT_SENT, text_of(error)) and _in_a_pool(error):
        return [ADVICE]
    texts = [text_of(e) for e in (error, getattr(error, "__cause__", None)) if e is not None]
    for text in texts:
        found = re.search(MISSING, text)
        if found and found.group(1) in _left and _started and found.group(1) in _started[0]:
            name = found.group(1)
            return [f"the processes of multiprocessing do not have {name} ({_left[name][0]}): {_left[name][1]}"]
        if found and _started and found.group(1) in _started[0] and _in_a_process(error):
            return [f"{found.group(1)} is here, but not in the process of multiprocessing, which has variables as they were when it began: "
                    f"assign it before the pool or the process begins, or {ARGUMENT.replace('them', 'the function')}"]
        if re.search(NOT_THERE, text):
            return [f"{LATE}. {ADVICE}"]
    return []
