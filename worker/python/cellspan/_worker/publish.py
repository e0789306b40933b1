# SPDX-License-Identifier: BSD-3-Clause
"""Rich output: the messages of display() and of the last expression."""

from __future__ import annotations

import base64
import io
import json
import math
import sys
import threading
import tokenize

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter

from .._base.errors import in_words

SHOWN_MAX = 64 << 20  # bytes of a result's representation: DONE in protocol/README.md


def _other(value):
    """JSON for types that the json module doesn't know."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (set, frozenset, tuple)) or hasattr(value, "__iter__"):
        return list(value)
    for method in ("item", "isoformat"):  # numpy's numbers, dates
        if hasattr(value, method):
            return getattr(value, method)()
    return repr(value)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_other, separators=(",", ":"))


def _plain(value):
    """A copy that JSON can represent: without NaN, and with text as keys."""
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return _plain(_other(value))


def to_json(value):
    """`value` as JSON text. Bytes become base64; numbers that JSON lacks, and other objects, become their repr."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError):
        return json.dumps(_plain(value), ensure_ascii=False)


def result_json(data, metadata):
    """The representations of the last expression, as JSON. If they are too large, the largest ones are left out and named."""
    if not any(map(_is_over, data.values())):
        text = to_json({"data": data, "metadata": metadata})
        if len(text) <= SHOWN_MAX // 4 or _in_bytes(text) <= SHOWN_MAX:
            return text
    sizes = {mime: len(value) if _is_over(value) else _in_bytes(to_json(value)) for mime, value in data.items()}
    rest, line = _in_bytes(to_json({"data": dict.fromkeys(data), "metadata": metadata})), "nothing"
    while sizes and sum(sizes.values()) + rest > SHOWN_MAX:
        mime = max(sizes, key=sizes.get)
        line = (f"{mime} of {sizes.pop(mime) / (1 << 20):.0f} MiB is not shown: all that a cell's value shows may have "
                f"{SHOWN_MAX >> 20} MiB; display() takes 256 MiB")
        print(f"cellspan: {line}", file=sys.stderr)
    kept = {mime: value for mime, value in data.items() if mime in sizes} or {"text/plain": f"[{line}]"}
    return to_json({"data": kept, "metadata": metadata if rest <= SHOWN_MAX // 2 else {}})


def _is_over(value):
    """Is this a text that is left out whatever its JSON is? That takes seconds."""
    return isinstance(value, str) and len(value) > SHOWN_MAX


def _in_bytes(text):
    return len(text.encode("utf-8", "surrogatepass"))


def unshown(value):
    """The text of a value of which IPython has made none, since a __repr__ failed."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - of any object's __repr__
        return f"[_ has the value, which can't be shown here: {in_words(error)}]"


def to_bundle(data):
    """A mime bundle for Jupyter, with images as base64 text."""
    out = dict(data)
    for mime, value in data.items():
        if isinstance(value, (bytes, bytearray)):
            out[mime] = base64.b64encode(value).decode("ascii")
    return out


class Publisher(DisplayPublisher):
    """display(), update_display() and clear_output()."""

    worker = None
    _local = threading.local()

    @property
    def _hooks(self):
        if not hasattr(self._local, "hooks"):
            self._local.hooks = []
        return self._local.hooks

    def register_hook(self, hook):
        """`hook(message)` gets each message of this thread first; if it returns None, the message is not sent."""
        self._hooks.append(hook)

    def unregister_hook(self, hook):
        """True if it was registered."""
        if hook not in self._hooks:
            return False
        self._hooks.remove(hook)
        return True

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        """Shows a mime bundle. `transient` may have a display_id; `update`: replaces the display with that id."""
        self._validate_data(data, metadata or {})
        content = {"data": to_bundle(data), "metadata": metadata or {}, "transient": transient or {}}
        self.send("update_display_data" if update else "display_data", content)

    def clear_output(self, wait=False):
        """Removes the cell's output; `wait`: only when the next output comes."""
        self.send("clear_output", {"wait": bool(wait)})

    def send(self, kind, content):
        """Sends a message through the hooks to the agent."""
        message = {"header": {"msg_type": kind}, "msg_type": kind, "content": content, "metadata": {}}
        for hook in list(self._hooks):
            message = hook(message)
            if message is None:
                return
        self.worker.publish(kind, message["content"], message.get("metadata") or {})


_NO_CODE = (tokenize.ENDMARKER, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.DEDENT)


def _ends_in_semicolon(code):
    """Does the code end in a semicolon, apart from comments?"""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):  # a magic's line
        return code.rstrip().endswith(";")
    last = next((t for t in reversed(tokens) if t.type not in _NO_CODE), None)
    return last is not None and last.string == ";"


class Hook(DisplayHook):
    """The value of the last expression."""

    worker = None
    _results = threading.local()

    @property
    def exec_result(self):
        """What gets the value. Each thread has its own: one that runs code by IPython's methods takes nothing away from the cell."""
        return getattr(self._results, "value", None)

    @exec_result.setter
    def exec_result(self, result):
        self._results.value = result

    @property
    def prompt_count(self):
        return self.worker.count

    def quiet(self):
        code = self.worker.code
        return ";" in code and _ends_in_semicolon(code)

    def start_displayhook(self):
        self._is_active = True
        self._bundle = None

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self._bundle = (to_bundle(format_dict), md_dict or {})

    def log_output(self, format_dict):
        text = format_dict.get("text/plain")
        if text is None:
            return
        if self.shell.logger.log_output:
            self.shell.logger.log_write(text, "output")
        self.shell.history_manager.output_hist_reprs[self.prompt_count] = text

    def finish_displayhook(self):
        self._is_active = False
        if self._bundle and self._bundle[0]:
            self.worker.show_result(*self._bundle)
        self._bundle = None


_SIMPLE = (int, float, str, bool, bytes, complex, type(None))


class Formatter(DisplayFormatter):
    """IPython's formatters, which are called only if a value may have more than one representation."""

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _SIMPLE and not include and not exclude and not self._special(kind):
            text = self.formatters["text/plain"](obj)
            return ({} if text is None else {"text/plain": text}), {}
        return super().format(obj, include=include, exclude=exclude)

    def _special(self, kind):
        """Has somebody registered a formatter for this type?"""
        if len(self._printers) != len(self.formatters) + 1:
            others = [f for mime, f in self.formatters.items() if mime != "text/plain"]
            others += [self.mimebundle_formatter, self.ipython_display_formatter]
            self._printers = [f.type_printers for f in others]
        return any(kind in printers or object in printers for printers in self._printers)

    _printers = ()
