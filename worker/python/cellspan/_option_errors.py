# SPDX-License-Identifier: BSD-3-Clause
"""Errors about options, in the words of a Python call. A call of the Python interface becomes the line of a magic, so the kernel
names the options as a magic has them: "--nproc x: not a number". The user wrote n='x'."""

from __future__ import annotations

import re

from . import _call_options
from ._worker.remote import RemoteError

_ROWS = {row.name: row for row in _call_options.ALL}
_WORDS = "|".join(sorted({word for row in _call_options.ALL for word in row.words}, key=lambda word: (-len(word), word)))
_HEAD = re.compile(r"--([a-z][a-z-]*)(?:[ =].*?)?: ")  # "--nproc x: ", or of two options that contradict each other
_OPTION = re.compile(r"(?<!\S)--([a-z][a-z-]*)")
_MISSING = re.compile(r"needs a value \(")  # True was given
_FLAG = re.compile(r"takes no value$")  # neither True nor False was given
# What an option's value may be in a call, by its name in the magic. Those whose values are words are not here.
_TIME = "a number of seconds, or text such as '5min',"
_WANTED = {
    "nproc": "a count, or 'gpu',",
    "on": "an engine, such as 'ssh:host1,host2',",
    "in": "the name of an image, such as 'docker://NAME',",
    "ranks": "a rank, a list of ranks, or text such as '0,3-5',",
    "gpus": "a count, 'own', or both as in '2,own',",
    "wait": _TIME,
    "env": "a dict such as {'NAME': 'value'}",
    "cwd": "a folder",
    "with": "a path, or a list of paths,",
    "timeout": _TIME,
    "grace": _TIME,
}
_SIZE = re.compile(r"-n (?:gpu|\d+): ")  # "-n gpu: there is no GPU", however it was written
_NUMBER = re.compile(r"(?<![\w-])-n (\d+)")  # "give a number, as in -n 4"
_RANK = re.compile(r"rank \S+: ")  # "rank 9: there are 2 ranks, 0 to 1"
_ENGINE = re.compile(r"(?<![^\s(])--on ((?:local|ssh|slurm|spark|ray|mpi)(?::\S+?)?)(?=:?\s|[,;)]|$)")  # "--on spark: …", "--on spark:yarn: …"
_MAGIC = re.compile(r"(`%[^`]*`)")
_WORD = re.compile(rf"--([a-z][a-z-]*)(?: ({_WORDS})\b(?![:,]))?")


class InPython:
    """A context manager around a call with these options ({the magic's name: value}). In place of an error about an option it raises
    a ValueError that names the argument and its value as the user wrote them; the traceback ends in the user's line."""

    def __init__(self, options):
        self.options = options

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        __tracebackhide__ = True
        if isinstance(error, RemoteError):
            text = in_python(error, self.options)
            if text is not None:
                raise ValueError(text) from None


class OwnNames:
    """A context manager around launch() in a drop-in, whose user has written num_processes=4 and use_gpu=True where launch() got n=4 and gpus=1:
    an error about these names the user's own arguments. n: a name; gpus, no_gpu: "use_gpu=True", "use_gpu=False"; "": the drop-in has none.
    without_gpus: what to do without GPUs. No GPU at all is a RuntimeError, as of the drop-ins' originals."""

    def __init__(self, n, gpus="", no_gpu="", without_gpus=""):
        self.n, self._heads = n, {"gpus": gpus, "no_gpu": no_gpu}
        self.without_gpus = without_gpus or f"{no_gpu} trains on processors"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        __tracebackhide__ = True
        found = _OF_LAUNCH.match(str(error)) if kind is ValueError else None  # an exception of a rank has a class of its own
        name = found and self._own(*found.group(1, 2))
        if not name:
            return
        text = name + ": " + self._words(str(error)[found.end():])
        raise (RuntimeError if _NO_GPU.match(text[len(name):]) else ValueError)(text) from None

    def _own(self, name, value):
        return f"{self.n}={value}" if name == "n" else self._heads[name]

    def _words(self, text):
        text = _N.sub(rf"{self.n}=\1", text)
        for given, own in _ADVICE.items():
            text = text.replace(given, self.without_gpus if own is None else own)
        return text


_N = re.compile(r"(?<![\w.])n=(\d+)")
_OF_LAUNCH = re.compile(r"(n|gpus|no_gpu)=('[^']*'|\S+): ")
_NO_GPU = re.compile(r": there is no GPU on ")
_ADVICE = {  # what an error advises, and the same for users of a drop-in; None: its without_gpus
    "leave gpus= out to run without": None,
    "no_gpu=True runs without GPUs": None,
    ", gpus= gives each rank fewer": "",
    ", share=True lets several processes use one GPU": "",
    "fresh=True ends them and starts new ones": "without reuse=True, new ones start",
}


def in_python(error, options):
    """The text for an error about one of the options; None: it is another error."""
    if type(error).__name__ not in ("UsageError", "EngineError"):
        return None
    text = str(error)
    head = _HEAD.match(text)
    if head and options.get(head.group(1)) is not None:
        named = [name for name in _OPTION.findall(head.group()) if options.get(name) is not None]
        return ", ".join(_given(name, options) for name in named) + ": " + _why(head.group(1), text[head.end():])
    size = _SIZE.match(text)
    if size and options.get("nproc") is not None:
        return _given("nproc", options) + ": " + _words(text[size.end():])
    rank = _RANK.match(text)
    if rank and options.get("ranks") is not None:
        return _given("ranks", options) + ": " + _words(text[rank.end():])
    changed = _words(text)
    return changed if changed != text else None


def _why(name, text):
    if _MISSING.match(text) and name in _ROWS:
        return (_WANTED.get(name) or "one of " + ", ".join(map(repr, _ROWS[name].words))) + " is wanted"
    return "True or False is wanted" if _FLAG.match(text) else _words(text)


def _given(name, options):
    return f"{_argument(name)}={options[name]!r}"


def _argument(name):
    return _ROWS[name].argument if name in _ROWS else name.replace("-", "_")


def _words(text):
    """The text with each option as an argument: "--on local" is on='local', "--fresh" is fresh=True, "-n 4" is n=4. A magic's line, as in
    `%%distribute --on spark`, stays one."""

    def one(found):
        name, word = found.groups()
        if word:
            return f"{_argument(name)}={word!r}"
        return _argument(name) + ("=True" if name in _ROWS and _ROWS[name].is_flag else "=")

    parts = _MAGIC.split(text)
    parts[::2] = [_NUMBER.sub(r"n=\1", _WORD.sub(one, _ENGINE.sub(r"on='\1'", part))) for part in parts[::2]]
    return "".join(parts)
