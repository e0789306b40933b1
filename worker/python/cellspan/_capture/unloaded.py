# SPDX-License-Identifier: BSD-3-Clause
"""Which part of a bundle could not be loaded: "net.log". A value may be pickled at home, and its pickle may still not load elsewhere.

The pickle is loaded once more, by Python's own slow loader, which stops at the part. Then the pickle is read without loading anything, to
see where that part belongs. This is done only for an error text, so a long pickle is not searched.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import types

SEARCHED_MAX = 16 << 20  # bytes of a pickle that is searched
KEY_MAX = 40  # letters of a key that is shown
UNKNOWN = None  # a label: how Python would write this step is not known


def labels_of(body, load):
    """The steps to the part of a pickle that can't be loaded, from the whole value on, such as ["net", ".log"]; [] if it is not known.
    load(make): loads the body with make(buffers), again."""
    try:
        return _labels(bytes(body), load) if len(body) <= SEARCHED_MAX else []
    except Exception:  # noqa: BLE001 - of the user's code, or of a pickle of an unknown kind
        return []


def of_call(error):
    """The text for a LoadError of (function, arguments, keyword arguments)."""
    part, name, *rest = [*error.labels, "", ""]
    if part == "[0]":
        return error.about("the function")
    if part not in ("[1]", "[2]") or not name:
        return error.about("the call")
    what, inside = f"argument {name[1:-1]}".replace("'", ""), "".join(rest)
    return error.about(f"{inside} of {what}" if inside else what)


def number_of(error):
    """Which of a list's items is to blame, for a LoadError of such a list."""
    first = error.labels[0][1:-1] if error.labels else ""
    return int(first) if first.isdigit() else 0


def of_item(error, number):
    """The text for a LoadError of a list of tuples of arguments. number: of the one that is to blame."""
    rest = "".join(error.labels[2:])
    return error.about(f"{rest} of item {number}" if rest else f"item {number}")


class _Loader(pickle._Unpickler):
    """Notes where each step of the pickle begins."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def read_frame(self):
        self.read(8)  # a frame only says how much to read at once

    dispatch[pickle.FRAME[0]] = read_frame


def _failing(body, load):
    """Where the step begins that fails, or None if it does not fail again."""
    file = _Steps(body)
    try:
        load(lambda buffers: _Loader(file, buffers=buffers).load())
    except Exception:  # noqa: BLE001 - as the first time
        return file.step
    return None


class _Steps(io.BytesIO):
    """The pickle as a file. step: where the last step begins. A loader reads a single byte only for a step's name, or just after one."""

    step = 0

    def read(self, size=-1):
        if size == 1:
            self.step = self.tell()
        return super().read(size)


class _Part:
    """Something that the pickle makes. value: of a plain one."""

    def __init__(self, value=None):
        self.value, self.count = value, 0
        self.parent, self.label = None, ""
        self.is_state = False  # of an object: its items are the object's attributes

    def has(self, part, label):
        if part.parent is None and part is not self:
            part.parent, part.label = self, label

    def step(self):
        """How one gets here from the parent."""
        if self.parent is None or not self.parent.is_state or not self.label:
            return self.label
        if self.label in ("[0]", "[1]"):  # a pair: a dict of attributes, and one of the slots
            self.is_state = True
            return ""
        name = self.label[2:-2]
        return f".{name}" if name.isidentifier() else self.label


def _labels(body, load):
    step = _failing(body, load)
    if step is None:
        return []
    root, part = _made_at(body, step)
    path, seen = [], set()
    while part is not None and part is not root and id(part) not in seen:
        seen.add(id(part))
        path.append(part)
        part = part.parent
    if part is not root:
        return []
    path = [part.step() for part in reversed(path)]
    labels = [label for label in (path[: path.index(UNKNOWN)] if UNKNOWN in path else path) if label]
    if labels and labels[0].startswith("['") and labels[0][2:-2].isidentifier():  # a dict of variables
        labels[0] = labels[0][2:-2]
    return labels


def _made_at(body, step):
    """(the whole value, what the step at this place makes), each as a _Part."""
    reader = _Reader()
    made = None
    for opcode, arg, at in pickletools.genops(body):
        reader.take(opcode, arg)
        if at <= step:
            made = reader.made
    return reader.stack[-1] if reader.stack else reader.made, made


class _Reader:
    """Follows a pickle's steps. made: what the last one has made or changed."""

    def __init__(self):
        self.stack, self.memo, self.made = [], [], None

    def take(self, opcode, arg):
        method = getattr(self, "on_" + opcode.name, None)
        if method is not None:
            method(arg)
        else:
            self.plain(opcode, arg)

    def plain(self, opcode, arg):
        """A step that takes some values and makes others."""
        taken = []
        if pickletools.markobject in opcode.stack_before:
            taken = self.marked()
        for each in opcode.stack_before:
            if each is pickletools.markobject:
                break
            taken.append(self.stack.pop())
        for _ in opcode.stack_after:
            self.push(_Part(arg), taken, UNKNOWN)

    def push(self, part, taken=(), label=UNKNOWN):
        for one in taken:
            part.has(one, label)
        self.stack.append(part)
        self.made = part

    def marked(self):
        """What is above the last mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not MARK:
            at -= 1
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def on_MARK(self, arg):
        self.stack.append(MARK)

    def on_STOP(self, arg):
        pass

    def on_FRAME(self, arg):
        pass

    def on_MEMOIZE(self, arg):
        self.memo.append(self.stack[-1])

    def on_BINGET(self, arg):
        self.stack.append(self.memo[arg])
        self.made = self.memo[arg]

    on_LONG_BINGET = on_BINGET

    def on_POP(self, arg):
        """What is dropped has changed the value below it, as the function that fills an object."""
        part = self.stack.pop()
        if self.stack and part is not MARK and self.stack[-1] is not MARK:
            value = owner = self.stack[-1]
            while owner is not None and owner is not part:
                owner = owner.parent
            if owner is part:  # the value was an argument there; what it belongs to comes later
                value.parent, value.label = None, ""
            value.has(part, UNKNOWN)

    def tuple_of(self, taken):
        part = _Part()
        for at, one in enumerate(taken):
            part.has(one, f"[{at}]")
        self.push(part)

    def on_TUPLE(self, arg):
        self.tuple_of(self.marked())

    def on_TUPLE1(self, arg):
        self.tuple_of([self.stack.pop()])

    def on_TUPLE2(self, arg):
        self.tuple_of([self.stack.pop() for _ in range(2)][::-1])

    def on_TUPLE3(self, arg):
        self.tuple_of([self.stack.pop() for _ in range(3)][::-1])

    def on_APPEND(self, arg):
        self.append([self.stack.pop()])

    def on_APPENDS(self, arg):
        self.append(self.marked())

    def append(self, taken):
        owner = self.made = self.stack[-1]
        for one in taken:
            owner.has(one, f"[{owner.count}]")
            owner.count += 1

    def on_ADDITEMS(self, arg):
        taken = self.marked()
        owner = self.made = self.stack[-1]
        for one in taken:
            owner.has(one, UNKNOWN)

    def on_SETITEM(self, arg):
        self.items([self.stack.pop() for _ in range(2)][::-1])

    def on_SETITEMS(self, arg):
        self.items(self.marked())

    def items(self, taken):
        owner = self.made = self.stack[-1]
        for key, value in zip(taken[::2], taken[1::2]):
            shown = repr(key.value) if isinstance(key.value, (str, int, float, bytes)) else "..."
            owner.has(value, f"[{shown if len(shown) <= KEY_MAX else shown[:KEY_MAX] + '…'}]")
            owner.has(key, UNKNOWN)

    def on_BUILD(self, arg):
        """Gives an object its state: mostly a dict of its attributes, alone or with another for its slots."""
        state = self.stack.pop()
        owner = self.made = self.stack[-1]
        owner.has(state, "")
        state.is_state = True


MARK = types.SimpleNamespace()
