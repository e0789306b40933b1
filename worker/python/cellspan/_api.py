# SPDX-License-Identifier: BSD-3-Clause
"""The Python interface: run() and group(). Each call writes the text of a magic, which the kernel executes, so that magics and
functions behave the same. It works in a notebook's home. In another program it starts a kernel as a child, whose home does the call
(_client.py). On ranks and in forked processes it raises an error that says so.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import threading
import types

from . import _call_options
from ._base import own_code
from ._base.errors import text_of
from ._base.whole import whole
from ._link import CALL_CHECKED, CALL_FUNCTION, CALL_SHOWN, CALL_UNMEASURED, CALL_VALUE
from ._option_errors import InPython
from ._worker.remote import RemoteError  # noqa: F401 - for the modules of _dropin

CALL = "_cellspan_call"  # names for the function and arguments of a large call, and for a pulled value; a number is added; both are temporary
VALUE = "_cellspan_value"

_slots = {}  # {number in use: its _Slot}: several if threads call run(), or if the arguments of a call do
_pushes = threading.RLock()  # held by the thread that pushes


class NotAtHomeError(RuntimeError):
    """A function of cellspan was called where there is no home: on a rank, or in a process that was forked or lacks a package."""


def run(fn, *args, **kw):
    """Calls fn(*args, **kw) on every rank, and returns rank 0's value (with gather=True the list of all ranks' values).

    n: world size, or "gpu"; on: where, such as "ssh:host1,host2*4" or "slurm:--nodes=2"; ranks: text such as "0,2-3", a
    number or a list; merge: "fold", "prefix", "rank0", "panel", "raw"; init: True, "nccl" or "gloo"; gpus: for each rank;
    no_gpu: ranks see none; share: GPUs that others hold may be used; wait: for
    how long to wait for those that others hold; env: {name: text}; cwd: the ranks' folder; no_code: the
    notebook's own modules don't go to other machines; with_files: a path, or a list of them, of what goes there, too; timeout, grace:
    seconds, or text such as "1.5m"; fresh: first start new ranks; seed: a number, from which the ranks' random numbers are seeded
    before the call. If fn has arguments with these names, use call().

    fn may be the path of a script. Then args are its arguments, as in %distribute script.py, and nothing is returned.

    Raises the exception of the first rank that fails: it has that exception's class and is also a RemoteError, with the rank's
    text and traceback. RuntimeError: the value can't be pickled. TypeError, before anything runs: the function
    or an argument can't be sent.
    """
    __tracebackhide__ = True
    options, kw = _call_options.split(kw)
    seed = options.get("seed")
    _checked(options)
    _check_seed(fn, seed)
    try:
        with InPython(options):
            return _run(caller(), fn, args, kw, options)
    except TypeError as error:
        if not isinstance(error, RemoteError):
            _hint_at_call(error, fn, options)
        raise


_call_options.documented(run, keeps=True)


def _checked(options):
    """Brings the values of a call's options into the form that a magic's line takes. ValueError: the seed is none."""
    __tracebackhide__ = True
    if "gather" in options:
        options["gather"] = bool(options["gather"])
    if "seed" in options:
        options["seed"] = seed_of(options["seed"])


def _hint_at_call(error, fn, options):
    """Adds to the error that fn lacks an argument whose name is that of an option which was given."""
    given = {row.argument: options[row.name] for row in _call_options.ALL if options.get(row.name) is not None}
    names = [name for name in given if f"missing a required argument: '{name}'" in str(error)]
    for name in names:
        error.args = (f"{error} ({name}={given[name]!r} is an option of run(): cellspan.call({getattr(fn, '__name__', 'f')}, kwargs={{'{name}': "
                      f"{given[name]!r}}}) passes it on)",)


def seed_of(seed):
    """The seed as an int; it may have been numpy's. None stays. ValueError: it is none."""
    __tracebackhide__ = True
    number = whole(seed)
    if seed is not None and (number is None or not 0 <= number < 1 << 64):
        raise ValueError(f"seed={seed!r}: a seed is a whole number from 0 to {(1 << 64) - 1}")
    return number


def _check_seed(fn, seed):
    """TypeError: nobody can tell whether fn's own argument is meant."""
    __tracebackhide__ = True
    if seed is None or not _takes_seed(fn):
        return
    name = getattr(fn, "__name__", "f")
    raise TypeError(f"seed={seed!r} is an option of run(), and {name}() takes such an argument, too: cellspan.call({name}, kwargs={{'seed': "
                    f"{seed!r}}}) is for the function, cellspan.call({name}, seed={seed!r}) for the ranks' random numbers")


def _takes_seed(fn):
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # it is a script, or has no signature
        return False
    return "seed" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def call(fn, args=(), kwargs=None, **options):
    """As run(), but the arguments of fn may have the names of options, since they are passed in args and kwargs."""
    __tracebackhide__ = True
    given, others = _call_options.split(options)
    for name in others:
        raise TypeError(f"call() has no option {name!r}: arguments of the function go into kwargs")
    _checked(given)
    if not isinstance(args, (tuple, list)):
        kind = type(args).__name__
        raise TypeError(f"call(): args is of type {kind}, not a tuple or a list of the function's arguments: write args=(x,) for a single one")
    if not isinstance(kwargs, (dict, type(None))):
        raise TypeError(f"call(): kwargs is of type {type(kwargs).__name__}, not a dict of the function's arguments by name")
    with InPython(given):
        return _run(caller(), fn, tuple(args), dict(kwargs or {}), given)


_call_options.documented(call)


def beside(fn, args=(), kwargs=None, **options):
    """As call(), but in new processes beside the notebook's ranks, which end with the call."""
    __tracebackhide__ = True
    given = _call_options.named("run", options)
    with InPython(given):
        return _run(caller(), fn, tuple(args), dict(kwargs or {}), {**given, "beside": True})


def script(path, words, **options):
    """Runs a script with these arguments, in processes of its own. options: as of call()."""
    __tracebackhide__ = True
    given = _call_options.named("run", options)
    with InPython(given):
        _run_script(caller(), path, words, {}, given)


def group(on=None):
    """This notebook's group of ranks. on: where they should run, as in run(); None: where they are now. ValueError: there is no such
    engine."""
    __tracebackhide__ = True
    home = caller()
    check_on(home, on)
    if not is_far(home):
        return Group(home, on)
    from ._client import FarGroup

    return FarGroup(home, on)


def check_on(home, on):
    """ValueError: there is no such engine as this option names. Whether it can start ranks, only a call shows."""
    __tracebackhide__ = True
    if on is None:
        return
    if is_far(home):
        home.do("_api", "check_on_here", on)
        return
    with InPython({"on": on}):
        home.call(magic_line("%distribute", {"on": on}) + "\npass", CALL_CHECKED)


def check_on_here(on):
    __tracebackhide__ = True
    check_on(current_home(), on)


class _Every:
    """What `ranks` is where nothing is given for it."""

    def __repr__(self):
        return "None"


EVERY = _Every()


class Group:
    """The ranks of this notebook. They start when something first runs on them."""

    def __init__(self, home, on=None):
        self._home = home
        self._on = on

    def run(self, fn, *args, **kw):
        """As cellspan.run(fn, *args, **kw), on this group's ranks."""
        __tracebackhide__ = True
        if self._on is not None:
            kw.setdefault("on", self._on)
        return run(fn, *args, **kw)

    def push(self, ranks=EVERY, *unnamed, **values):
        """Sets variables on the ranks: push(a=1, b=[2]). ranks: only on these."""
        __tracebackhide__ = True
        if unnamed or not values:
            if ranks is EVERY:  # push(**{})
                return
            from ._worker.map_rank import shown

            given = shown((ranks, *unnamed))
            right = "push(a=1)" if unnamed or not isinstance(ranks, dict) else f"push(**{given[1:-1]})" if not given.endswith("...)") else "push(**values)"
            on = f", or push(a=1, ranks={given[1:-1]})" if isinstance(ranks, (int, str, list, tuple, range)) and not unnamed else ""
            raise TypeError(f"push{given} names no variable: {right}{on}")
        ranks = None if ranks is EVERY else ranks
        for name in values:
            _check_name(name)
        self._home.may_call()
        from ._capture.lent import Lent

        with _pushes, Lent(self._home.captures(), values, self._home.working) as lent, InPython({"ranks": ranks}):
            self._home.call(magic_line("push", {"ranks": ranks}, *values), CALL_SHOWN, lent=lent)

    def pull(self, *names, ranks=None):
        """The ranks' values of a variable, as a list by rank; one value if `ranks` is a number. With several names, a dict of these."""
        __tracebackhide__ = True
        for name in names:
            _check_name(name)
        if not names:
            raise TypeError("pull() needs the name of a variable: pull('loss')")
        found = {}
        for name in names:  # a comprehension would be a frame of its own in tracebacks
            found[name] = self._pull(name, ranks)
        return found if len(names) > 1 else found[names[0]]

    def apply(self, fn, *args, **kw):
        """[fn(*args, **kw) of each rank]. All of kw are arguments of fn. See DirectView.apply_sync of ipyparallel."""
        __tracebackhide__ = True
        return call(fn, args, kw, gather=True, on=self._on)

    def map(self, fn, *iterables, **options):
        """As cellspan.map(fn, *iterables), on this group's ranks."""
        __tracebackhide__ = True
        from ._map import map

        if self._on is not None:
            options.setdefault("on", self._on)
        return map(fn, *iterables, **options)

    def scatter(self, name, values, *, n=None, ranks=None, flatten=False):
        """Divides `values` among the ranks: the variable `name` of each is its part. The sizes of the parts differ by at most one.

        values: a list, tuple, range, numpy array, torch tensor, pandas object, or what else has a length and slices. n: world size;
        ranks: only to these. flatten: a part of one item is that item. The variable belongs to the ranks, as if they had assigned it.

        TypeError: values can't be divided, or a part can't be sent. See DirectView.scatter of ipyparallel.
        """
        __tracebackhide__ = True
        from ._scatter import scatter

        scatter(self._home, name, values, {"nproc": n, "ranks": ranks, "on": self._on}, flatten)

    def gather(self, name, ranks=None):
        """Joins the ranks' variable `name`, in the order of ranks: parts of arrays, tensors, pandas objects, lists and tuples become
        one again. Other values are a list by rank. See DirectView.gather of ipyparallel."""
        __tracebackhide__ = True
        from ._scatter import joined, numbers

        return joined(self.pull(name, ranks=numbers(ranks)))

    def _pull(self, name, ranks):
        __tracebackhide__ = True
        ns = self._home.shell.user_ns
        with _Slot() as slot, _Placed(ns, {}, VALUE + slot), InPython({"ranks": ranks}):
            self._home.call(magic_line("pull", {"ranks": ranks, "into": VALUE + slot}, name), CALL_SHOWN)
            if VALUE + slot not in ns:
                raise RuntimeError(f"{name} did not arrive: the output says why")
            return ns[VALUE + slot]

    @property
    def size(self):
        """The number of ranks now; 0 before the first distributed cell."""
        return len(self._known()["ranks"])

    def ranks(self, beside=False):
        """The table of %ranks, as a list with a dict for each rank: rank, state, node, pid, ... gpu_use and gpu_others (how many other
        processes are on the rank's GPU) are -1 where the driver does not tell. beside: the ranks of the script, or of the function on
        fresh processes, that runs beside the group now."""
        __tracebackhide__ = True
        return self._table(0)["beside" if beside else "ranks"]

    @property
    def on(self):
        """Where the ranks run, as in --on: "ssh:host1,host2"; None: on this machine."""
        return self._known()["on"]

    def _known(self):
        """The table without what ranks use: that takes their machines milliseconds for each rank."""
        __tracebackhide__ = True
        return self._table(CALL_UNMEASURED)

    def _table(self, flags):
        __tracebackhide__ = True
        content, _ = _split(self._home.call("%ranks", flags))
        if content.get("ranks") is None:
            raise RuntimeError("the kernel sent no table of ranks")
        return content

    def stop(self, ranks=None):
        """Ends the ranks; the next cell starts new ones."""
        __tracebackhide__ = True
        with InPython({"ranks": ranks}):
            self._home.call(magic_line("ranks stop", {"ranks": ranks}), CALL_SHOWN)

    def restart(self, ranks=None):
        """Ends the ranks and starts new ones; their variables are gone."""
        __tracebackhide__ = True
        with InPython({"ranks": ranks}):
            self._home.call(magic_line("ranks restart", {"ranks": ranks}), CALL_SHOWN)

    def __repr__(self):
        try:
            rows = self._known()["ranks"]
        except RuntimeError:
            return "<cellspan group>"
        states = {}
        for row in rows:
            states[row.get("state", "?")] = states.get(row.get("state", "?"), 0) + 1
        return f"<cellspan group of {len(rows)} ranks" + "".join(f", {n} {s}" for s, n in states.items()) + ">"


class Handle:
    """A result that stayed on its rank because it is too large or can't be pickled. Its repr is the rank's; pull()
    fetches the object if that is possible."""

    def __init__(self, rank, name, shown="", why=""):
        """name: the rank's variable with the value; shown: the rank's repr; why: why it was not sent."""
        self.rank = rank
        self.name = name
        self.why = why
        self._shown = shown

    def pull(self):
        """The object itself, of any size."""
        __tracebackhide__ = True
        return group().pull(self.name, ranks=self.rank)

    def __repr__(self):
        shown = self._shown or f"a value of rank {self.rank}"
        why = self.why or "it was not sent"
        fetch = "" if "can't be" in why else "; .pull() fetches it"
        return f"{shown}\n[stays on rank {self.rank}: {why}{fetch}]"

    def __reduce_ex__(self, protocol):
        raise TypeError(f"this is only a handle: call .pull() to fetch the value from rank {self.rank}")


def handle_from(content):
    """The Handle for the kernel's description {"rank", "repr", "why", "count"} of a cell's result."""
    count = content.get("count")
    name = f"_{count}" if count else "_"
    return Handle(content.get("rank", 0), name, content.get("repr") or "", content.get("why") or "")


# ---- implementation -----------------------------------------------------------------------------------------------


def caller():
    """Who does the calls of this process: its Home, or else a _client.Far."""
    __tracebackhide__ = True
    if getattr(sys.modules.get("cellspan._worker.home"), "current", None) is not None or is_on_rank():
        return current_home()
    from ._client import far

    return far()


def is_far(home):
    return hasattr(home, "do")


def is_on_rank():
    return getattr(sys.modules.get("cellspan._worker.rank"), "current", None) is not None


def current_home():
    """The Home of this process, or an error that says where this works."""
    __tracebackhide__ = True
    module = sys.modules.get("cellspan._worker.home")
    home = getattr(module, "current", None)
    if home is not None:
        return home
    if is_on_rank():
        raise NotAtHomeError("this is a rank: cellspan.run(), map() and group() work in the notebook's own cells (without %%distribute)")
    raise NotAtHomeError('this works only in a notebook on the kernel "Python (cellspan)"')


def _run(home, fn, args, kw, options, flags=0):
    """flags: further ones of CALL."""
    __tracebackhide__ = True
    if isinstance(fn, (str, os.PathLike)):
        _run_script(home, os.fspath(fn), args, kw, options)
        return None
    check_call(fn, args, kw)
    if is_far(home):
        return _run_far(home, fn, args, kw, options)
    from ._capture.capture import CaptureError

    home, gather, line = home or current_home(), bool(options.get("gather")), magic_line("%distribute", options)
    flags |= CALL_SHOWN | CALL_VALUE | CALL_FUNCTION
    try:
        # These are about what the kernel asks home before a cell, which it does only for a cell's text.
        function = None if any(map(options.get, ("fresh", "no-capture", "no-code", "with"))) else home.function(fn, args, kw, bool(options.get("on")))
        if function is None:
            return _run_large(home, line, (fn, args, kw), options, flags)
    except CaptureError as error:
        raise TypeError(_unsent(home.captures(), fn, args, kw, text_of(error))) from None
    return home.call(f"{line}\n{_shown(fn)}", flags, function, gather)[1]


def _shown(fn):
    """What the text of its call ends with, so that a cell that waits for the call can name it."""
    return f"{getattr(fn, '__name__', type(fn).__name__)}()"


def _run_large(home, line, call, options, flags):
    """_run() where function and arguments go to the ranks as a variable."""
    __tracebackhide__ = True
    from ._capture.capture import CaptureError

    with _Slot() as slot:
        name = CALL + slot
        # The ranks remove the name before fn runs. The call is the last expression of the cell, so its value is the result.
        how = "once" if options.get("beside") else "call"
        body = f"{own_code.function('_worker.rank_calls', how)}(*{name}, {name!r})  # {_shown(call[0])}"
        with _Placed(home.shell.user_ns, {name: call}):
            try:
                return home.call(f"{line}\n{body}", flags, None, bool(options.get("gather")))[1]
            except Exception:
                why = home.captures().refused.pop(name, None)
                if why is None:
                    raise
                raise CaptureError(why) from None


def _run_far(home, fn, args, kw, options):
    __tracebackhide__ = True
    from ._capture.capture import CaptureError

    try:
        return home.do("_api", "_run", None, fn, args, kw, options)
    except CaptureError as error:
        raise TypeError(_unsent(home.captures, fn, args, kw, text_of(error))) from None


def _unsent(captures, fn, args, kw, why):
    """The error text that names the part of a call that can't be sent."""
    name = getattr(fn, "__name__", type(fn).__name__)
    named = [("the function itself", fn)]
    named += [(f"argument {number}", value) for number, value in enumerate(args, 1)]
    named += [(f"argument {key}=", value) for key, value in kw.items()]
    refused = ((part, captures.refusal(value)) for part, value in named)
    part, why = next((found for found in refused if found[1]), ("the call", why))
    return f"{name}(): {part} can't be sent to the ranks: {why}"


def _run_script(home, path, args, kw, options):
    __tracebackhide__ = True
    if kw or options.get("gather"):
        what = "gather" if options.get("gather") else next(iter(kw))
        raise TypeError(f"{what}: a script takes arguments as text alone, and gives no value")
    if is_far(home):
        home.do("_api", "_run_script", None, path, args, kw, options)
        return
    line = magic_line("distribute", options)
    (home or current_home()).call(" ".join([line, "--", _quoted(path), *map(_quoted, args)]), CALL_SHOWN)


def check_call(fn, args, kw):
    """Raises the function's own TypeError for wrong arguments, before any rank runs; also if it is no function."""
    __tracebackhide__ = True
    if not callable(fn):
        raise TypeError(f"run() needs a function or the path of a script, not {type(fn).__name__}")
    if type(fn) is types.FunctionType and not kw and _plainly_takes(fn, len(args)):
        return
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some functions in C have no signature
        return
    try:
        signature.bind(*args, **kw)
    except TypeError as error:
        raise TypeError(f"{getattr(fn, '__name__', fn)}(): {error}") from None


def _plainly_takes(fn, count):
    """Can it be seen without its signature, which takes longer to make, that a function takes so many positional arguments?"""
    code = fn.__code__
    few = code.co_argcount - len(fn.__defaults__ or ())
    return few <= count <= code.co_argcount and not code.co_kwonlyargcount and not fn.__dict__  # in it: what replaces the signature


class _Slot:
    """Reserves the lowest free number, as text."""

    def __enter__(self):
        self.number = next(n for n in itertools.count(1) if _slots.setdefault(n, self) is self)
        return str(self.number)

    def __exit__(self, *error):
        del _slots[self.number]


class _Placed:
    """Sets variables of the user's namespace temporarily; at the end it restores the old values."""

    def __init__(self, ns, values, *others):
        self.ns = ns
        self.values = values
        self.names = [*values, *others]

    def __enter__(self):
        self.before = {name: self.ns[name] for name in self.names if name in self.ns}
        for name in self.names:
            self.ns.pop(name, None)
        self.ns.update(self.values)

    def __exit__(self, *error):
        for name in self.names:
            self.ns.pop(name, None)
        self.ns.update(self.before)


def _split(answer):
    """(content, value) of home.call()'s result."""
    content, value = answer if isinstance(answer, tuple) else ({}, answer)
    return content or {}, value


def _check_name(name):
    __tracebackhide__ = True
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{name!r} is not the name of a variable: write letters, digits and _")


def magic_line(magic, options, *words):
    """The line of a magic: options with their long names, each value quoted."""
    __tracebackhide__ = True
    line = [f"%{magic}", *words]
    for name, value in options.items():
        line += _option(name, value)
    return " ".join(line)


def _option(name, value):
    __tracebackhide__ = True
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if name == "env":
        if not hasattr(value, "keys"):
            raise TypeError(f"env={value!r}: a dict is wanted, as env={{'NAME': 'value'}}")
        words = []
        for key, text in dict(value).items():
            words += ["--env", _quoted(f"{key}={text}")]
        return words
    if name == "with":
        try:
            return [f"--with={_quoted(os.fsdecode(path))}" for path in ([value] if isinstance(value, (str, os.PathLike)) else value)]
        except TypeError:
            raise TypeError(f"with_files={value!r}: a path, or a list of paths, is wanted") from None
    if name == "ranks" and hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if name == "ranks" and isinstance(value, (list, tuple, set, range)):
        ranks = list(map(str, value))
        value = f"{ranks[0]}-{ranks[0]}" if len(ranks) == 1 and ranks[0].isdigit() else ",".join(ranks)
    return [f"--{name}={_quoted(str(value))}"]


def _quoted(text):
    """Quotes the text as one word of an option line. (In a call's line nothing is expanded.)"""
    __tracebackhide__ = True
    text = str(text)
    if "\n" in text or "\r" in text:
        raise ValueError(f"{text!r}: an option can't hold a line break: take it out")
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
