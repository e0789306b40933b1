# SPDX-License-Identifier: BSD-3-Clause
"""ipywidgets' Output on a rank. It asks the page to capture what belongs to the running cell, but that cell is all ranks'. So here
it takes what its own rank prints and shows in its block, and sets its trait `outputs`.

Text that C code or a child process writes to descriptor 1 or 2 is not captured, except that of `!command`."""

from __future__ import annotations

import contextvars
import io
import sys
import threading
import time

import traitlets

GAP = 0.1  # seconds between two updates of `outputs`, which are sent whole
PER_SECOND = 8 << 20  # bytes of displays that one Output sends in a second; with more, the gap is longer
TEXT_MAX = 256 << 10  # characters of text in an Output; the first and the last ones stay
LEFT_OUT = "\n[cellspan: the middle is left out: an Output of a rank keeps the first and the last 64 KiB of its text]\n"
ENTRIES_LEFT_OUT = "[cellspan: earlier lines are left out: an Output of a rank keeps 256 KiB of text]\n"
_into = contextvars.ContextVar("cellspan_output", default=())  # _Entry of each Output that this task or thread has entered, the last one first
_entered = 0  # Outputs that capture now
_lock = threading.Lock()


class _Entry:
    """One `with output`. A task that began in it may go on after it: then it prints where others do."""

    def __init__(self, output):
        self.output = output
        self.over = False


def _place():
    """The Output into which what runs here prints, or None."""
    for entry in _into.get():
        if not entry.over:
            return entry.output
    return None


class _Tee(io.TextIOBase):
    """sys.stdout or sys.stderr while any Output captures. What is not of writing is the stream's own: TextIOBase has attributes for all."""

    def __init__(self, stream, name):
        self._stream = stream
        self._name = name

    def write(self, text):
        into = _place()
        if into is None:
            return self._stream.write(text)
        _captured(into).text(self._name, str(text))
        return len(text)

    def flush(self):
        self._stream.flush()

    def isatty(self):
        return _place() is None and self._stream.isatty()

    def writable(self):
        return True

    def fileno(self):
        return self._stream.fileno()

    encoding = property(lambda self: self._stream.encoding)
    errors = property(lambda self: self._stream.errors)
    newlines = property(lambda self: self._stream.newlines)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class _Captured:
    """What one Output has captured."""

    def __init__(self, output):
        self.output = output
        self.last = output.outputs  # what the trait was when it was last checked
        self.outputs = list(self.last)
        self.pieces = []  # text that belongs to the last of outputs, a stream
        self.clear = False  # when the next output comes
        self.size = _size(self.outputs)
        self.heavy = _heavy(self.outputs)
        self.sent = 0.0
        self.untold = None  # the value before the first one of which observers were not told
        self.timer = None
        self.lock = threading.RLock()

    def text(self, name, text):
        if not text:
            return
        with self.lock:
            self._begin()
            last = self.outputs[-1] if self.outputs else {}
            if last.get("output_type") != "stream" or last["name"] != name:
                self._join()
                self.outputs.append({"output_type": "stream", "name": name, "text": ""})
            self.pieces.append(text)
            self.size += len(text)
            if self.size > TEXT_MAX:
                self._shorten()
            self.changed()

    def _join(self):
        if self.pieces:
            last = self.outputs[-1]
            self.outputs[-1] = {**last, "text": after_returns(last["text"] + "".join(self.pieces))}
            self.pieces = []

    def _shorten(self):
        """Leaves out the middle of the longest text."""
        self._join()
        at = max(range(len(self.outputs)), key=lambda k: len(self.outputs[k].get("text", "")))
        text = self.outputs[at].get("text", "")
        quarter = TEXT_MAX // 4
        if len(text) > 2 * quarter:
            self.outputs[at] = {**self.outputs[at], "text": text[:quarter].rpartition(LEFT_OUT)[0] or text[:quarter]}
            self.outputs[at]["text"] += LEFT_OUT + text[-quarter:]
        else:  # many short ones between displays, which stay
            texts = [k for k, o in enumerate(self.outputs) if "text" in o]
            for k in reversed(texts[: len(texts) // 2]):
                del self.outputs[k]
            self.outputs.insert(0, {"output_type": "stream", "name": "stderr", "text": ENTRIES_LEFT_OUT})
        self.size = _size(self.outputs)

    def message(self, kind, content):
        """A display, an error or clear_output. False: it is for another place."""
        with self.lock:
            self._join()
            if kind == "clear_output":
                self.clear = True
                if not content.get("wait"):
                    self._begin()
                    self.changed()
                return True
            if kind == "update_display_data":
                return self._update(content)
            self._begin()
            if kind == "error":
                self.outputs.append({"output_type": "error", **content})
            else:
                self.outputs.append(_display(content))
                self.heavy += _weight(content["data"])
            self.changed()
            return True

    def _update(self, content):
        number = (content.get("transient") or {}).get("display_id")
        found = [k for k, o in enumerate(self.outputs) if number and (o.get("transient") or {}).get("display_id") == number]
        for k in found:
            self.outputs[k] = _display(content)
        if found:
            self.heavy = _heavy(self.outputs)
            self.changed()
        return bool(found)

    def _begin(self):
        if self.clear:
            self.clear, self.outputs, self.pieces, self.size, self.heavy = False, [], [], 0, 0

    def changed(self):
        """Updates the trait now, or soon, if that was done just now."""
        if self.timer is not None:
            return
        wait = self.sent + max(GAP, self.heavy / PER_SECOND) - time.monotonic()
        if wait <= 0:
            self.send()
            return
        self.timer = threading.Timer(wait, self.late)
        self.timer.daemon = True
        self.timer.start()

    def late(self):
        """In a thread of its own, where observers must not run: the cell goes on beside it."""
        with self.lock:
            self.timer = None
            self.send(tells=False)

    def send(self, tells=True):
        """Sets the trait. Its observers may print; no Output captures that text."""
        with self.lock:
            self._join()
            self.sent = time.monotonic()
            value = tuple({key: value for key, value in o.items() if key != "transient"} for o in self.outputs)
            token = _into.set(())
            try:
                if tells and self.untold is None:
                    self.output.outputs = value
                else:
                    self._set(value, tells)
                self.last = self.output.outputs
            finally:
                _into.reset(token)

    def _set(self, value, tells):
        """Sends it to the page, and tells observers now or with the next value."""
        output, before = self.output, self.output.outputs
        if value != before:
            output._trait_values["outputs"] = value
            output.send_state("outputs")
        self.untold = before if self.untold is None else self.untold
        if tells:
            change = {"name": "outputs", "old": self.untold, "new": output.outputs, "owner": output, "type": "change"}
            self.untold = None
            if change["old"] != change["new"]:
                traitlets.HasTraits.notify_change(output, traitlets.Bunch(change))

    def end(self):
        with self.lock:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
                self.send()
            elif self.untold is not None:
                self.send()


def after_returns(text):
    """What a terminal shows of this text: a carriage return begins the line anew. (A page does that too, but the text would grow.)"""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] + ("\r" if line.endswith("\r") else "") for line in lines)


def _display(content):
    shown = {"output_type": "display_data", "data": content["data"], "metadata": content.get("metadata") or {}}
    if (content.get("transient") or {}).get("display_id"):
        shown["transient"] = content["transient"]
    return shown


def _captured(output):
    found = output.__dict__.get("_cellspan_captured")
    if found is None:
        found = output.__dict__["_cellspan_captured"] = _Captured(output)
    elif found.timer is None and found.last is not output.outputs:  # set by others since
        found.outputs, found.pieces, found.last = list(output.outputs), [], output.outputs
        found.size, found.heavy = _size(found.outputs), _heavy(found.outputs)
    return found


def _size(outputs):
    return sum(len(o.get("text", "")) for o in outputs)


def _weight(data):
    return sum(len(value) for value in data.values() if isinstance(value, (str, bytes)))


def _heavy(outputs):
    return sum(_weight(o.get("data") or {}) for o in outputs)


def captures(kind, content):
    """Does an Output take this message?"""
    into = _place()
    return into is not None and _captured(into).message(kind, content)


def capture_here(rank):
    """Changes the class Output of this process."""
    from ipywidgets.widgets.widget_output import Output

    def enter(self):
        _install()
        entry = _Entry(self)
        self.__dict__.setdefault("_cellspan_before", []).append((entry, _into.set((entry, *_into.get()))))
        return self

    def exit(self, etype, evalue, tb):
        try:
            if etype is not None and issubclass(etype, Exception):
                rank.shell.showtraceback((etype, evalue, tb), tb_offset=0)
        finally:
            entry, token = self.__dict__["_cellspan_before"].pop()
            entry.over = True
            _into.reset(token)
            _remove()
        captured = self.__dict__.get("_cellspan_captured")
        if captured is not None:
            captured.end()
        return etype is not None and issubclass(etype, Exception)

    Output.__enter__, Output.__exit__ = enter, exit


def _install():
    """A cell or a library may have set these streams anew."""
    global _entered
    with _lock:
        _entered += 1
        if not isinstance(sys.stdout, _Tee):
            sys.stdout = _Tee(sys.stdout, "stdout")
        if not isinstance(sys.stderr, _Tee):
            sys.stderr = _Tee(sys.stderr, "stderr")


def _remove():
    """Takes them away with the last Output that is left. Who has kept one writes through it."""
    global _entered
    with _lock:
        _entered -= 1
        if _entered:
            return
        if isinstance(sys.stdout, _Tee):
            sys.stdout = sys.stdout._stream
        if isinstance(sys.stderr, _Tee):
            sys.stderr = sys.stderr._stream
