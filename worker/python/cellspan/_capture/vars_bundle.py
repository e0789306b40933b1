# SPDX-License-Identifier: BSD-3-Clause
"""A bundle: one value, or a dict of the user's variables, pickled into one sealed memfd.

All integers are little-endian; offsets count from the bundle's first byte.

    header   magic "CSPARCEL", version u32, 0 u32, size u64, count u64, meta u64, body u64, 0 u64, 0 u64   (64 bytes)
    table    count times: offset u64, size u64 of a buffer; each begins at a multiple of 64
    meta     `meta` bytes: a pickle of plain values: python (version), prefix and path (of the sender's sys),
             storages [[index in the table, first byte of the original]], devices [of each storage: "cpu", "cuda"],
             buffers (how many buffers of the table belong to the pickle),
             absent [[index in the table, name, number]] of buffers that are not here: see call_buffers.py,
             classes of the user's modules that the pickle names: see class_versions.py,
             forced: as of rebuild.Loading
    body     `body` bytes: the pickle (protocol 5, its buffers out of band)
    buffers

A bundle is written by write(), which is two to three times faster than writing through a mapping. The receiver maps it private
and writable: arrays are writable, copy-on-write, and keep the mapping alive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import io
import mmap
import os
import pickle
import struct
import sys
import tempfile

from .. import _link
from .._base import imports
from .._base.errors import in_words, text_of
from . import class_versions, mappings, rebuild, reducers

MAGIC = b"CSPARCEL"
VERSION = 1
HEADER = struct.Struct("<8sIIQQQQQQ")
ENTRY = struct.Struct("<QQ")
ALIGN = 64
AT_ONCE = 1 << 28  # bytes in one write
META_KEPT = 8 << 10  # bytes of a description; shorter ones are kept, to be compared instead of read
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # what the names of our files begin with
MAP_MIN = 256 << 10  # bytes; a bundle with smaller buffers is read instead of mapped, which saves a mapping

_SEALS = 0x0001 | 0x0002 | 0x0004 | 0x0008  # F_SEAL_SEAL, SHRINK, GROW, WRITE
_F_ADD_SEALS = getattr(fcntl, "F_ADD_SEALS", 1033)


class BundleError(Exception):
    """The bytes are not a bundle, or a value can't be put into one; the text is for the user."""


class BundleTooLarge(BundleError):
    """A value is over the limit. size, limit: bytes; at_least: the real size may be larger."""

    def __init__(self, size, limit, at_least=False):
        self.size, self.limit, self.at_least = size, limit, at_least
        super().__init__(f"{'more than ' if at_least else ''}{human(size)}, over the limit of {human(limit)}")


class LoadError(BundleError):
    """A value can't be loaded here. labels: as of unloaded.labels_of(). original: the exception of its code. advice: a sentence, or ""."""

    def __init__(self, labels, original, advice=""):
        self.labels, self.original, self.advice = labels, original, advice
        super().__init__(self.about("".join(labels) or "a value"))

    def about(self, what):
        """The text, if the part is called so."""
        return f"{what} can't be loaded here: {in_words(self.original)}" + (f". {self.advice}" if self.advice else "")


def human(size):
    """A number of bytes for users: "512 B", "80.0 MiB", "64 MiB" (from 1 MiB on, whole numbers have no fraction)."""
    if size < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            break
    return f"{size:.0f} {unit}" if size == int(size) else f"{size:.1f} {unit}"


def reason(error):
    """Why a value could not be pickled, in one line."""
    text = text_of(error).strip().splitlines()
    text = text[0] if text else type(error).__name__
    if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError) and not error.args:
        return "there is no memory for its pickle: free some, or raise this process's limit (ulimit -v, or the container's)"
    if not isinstance(error, Exception):
        return f"{type(error).__name__}: {text}"
    return text[:1].lower() + text[1:] if text[:1].isupper() and not text[1:2].isupper() else text


# ---- writing ------------------------------------------------------------------------------------------------------


def pack(obj, user_ns=None, limit=None, small=0, keeps=False):
    """Makes a bundle of obj and returns (descriptor, size in bytes), or its bytes if they are at most `small`. The caller must close
    the descriptor.

    user_ns: the notebook's namespace (default: __main__'s). limit: the most bytes; above it, BundleTooLarge is raised. keeps: home binds the
    values of this dict: home takes those that are classes, and the classes of this process, as they are here.
    If a value can't be pickled, raises pickle's exception (see reason()).
    """
    try:
        pickled = reducers.Pickled(obj, user_ns, limit)
    except reducers.Overflow as error:
        raise BundleTooLarge(error.args[0], limit, at_least=True) from None
    if limit is not None and pickled.size > limit:
        raise BundleTooLarge(pickled.size, limit)
    forced = ids_of_classes([*obj.values(), *filter(rebuild.is_own, pickled.by_value)]) if keeps else ()
    packed = flat(pickled, small, forced=forced) or place(pickled, forced)[:2]
    if rebuild.on_sent is not None and pickled.by_value:
        rebuild.on_sent([value for value in pickled.by_value if isinstance(value, type)], keeps, forced)
    return packed


def ids_of_classes(values):
    ids = sys.modules["cloudpickle.cloudpickle"]._DYNAMIC_CLASS_TRACKER_BY_CLASS
    return [ids[value] for value in values if isinstance(value, type) and value in ids]


def _front(pickled, absent=(), forced=()):
    """(the bundle's bytes up to the pickle, [(offset, size) of each buffer], the bundle's size)."""
    sizes = [piece.nbytes for piece in pickled.pieces]
    storages, devices = [], [storage.device for storage in pickled.storages]
    for storage in pickled.storages:
        base, size = storage.span()
        storages.append([len(sizes), base])
        sizes.append(size)
    for index, _, _ in absent:
        sizes[index] = 0
    path = [p for p in sys.path if isinstance(p, str)]
    classes = class_versions.described(pickled.named)
    if sizes or absent or classes or forced:
        meta = _described(path, len(pickled.pieces), storages, devices, absent, classes, forced)
    else:
        meta = _described_alone(tuple(path))
    start = HEADER.size + ENTRY.size * len(sizes) + len(meta) + pickled.chunks.size
    spans, end = [], start
    for size in sizes:
        spans.append((_aligned(end), size))
        end = spans[-1][0] + size
    head = HEADER.pack(MAGIC, VERSION, 0, end, len(sizes), len(meta), pickled.chunks.size, 0, 0)
    return head + b"".join(ENTRY.pack(*span) for span in spans) + meta, spans, end


def _described(path, buffers, storages, devices, absent, classes, forced=()):
    """A bundle's meta."""
    meta = {"python": list(sys.version_info[:2]), "prefix": sys.prefix, "path": path, "buffers": buffers, "storages": storages, "devices": devices}
    if absent:
        meta["absent"] = absent
    if classes:
        meta["classes"] = classes
    if forced:
        meta["forced"] = forced
    return pickle.dumps(meta, protocol=5)


@functools.lru_cache(maxsize=1)
def _described_alone(path):
    """The meta of a bundle without buffers, as most are."""
    return _described(list(path), 0, [], [], (), None)


def flat(pickled, limit=None, absent=(), forced=()):
    """The bundle of a reducers.Pickled as bytes; None if they are more than `limit`. absent: the buffers that are not in it, as of
    call_buffers.CallBuffers.split()."""
    if limit is not None and pickled.size > limit and not absent:
        return None
    front, spans, end = _front(pickled, absent, forced)
    if limit is not None and end > limit:
        return None
    written, at, kept = [front, *pickled.chunks.pieces], len(front) + pickled.chunks.size, []
    for piece, (offset, size) in zip(pickled.pieces + pickled.storages, spans):
        if not size:
            continue
        view, keep = piece.view()
        written += [bytes(offset - at), view]
        kept.append(keep)
        at = offset + size
    written.append(bytes(end - at))
    return b"".join(written)


def pack_bytes(obj, user_ns=None, limit=None):
    """As pack(), but returns the bundle's bytes; None if they are more than `limit`."""
    return flat(reducers.Pickled(obj, user_ns), limit)


def place(pickled, forced=()):
    """Writes a reducers.Pickled into a sealed memfd: (descriptor, size, {key of a buffer: (offset, size)}). forced: as of rebuild.Loading."""
    front, spans, end = _front(pickled, forced=forced)
    fd = create()
    try:
        os.ftruncate(fd, end)
        at = _write(fd, front, 0)
        for part in pickled.chunks.pieces:
            at = _write(fd, part, at)
        for piece, (offset, _) in zip(pickled.pieces + pickled.storages, spans):
            for view in piece.views():
                offset = _write(fd, view, offset)
            view = None  # so that a copy from a device is freed at once
        _seal(fd)
    except BaseException:
        os.close(fd)
        raise
    keys = [piece.key for piece in pickled.pieces + pickled.storages]
    return fd, end, dict(zip(keys, spans))


def _aligned(offset):
    return (offset + ALIGN - 1) // ALIGN * ALIGN


def sealed(pieces):
    """A sealed memfd with these bytes-likes, one after the other: (descriptor, size)."""
    fd, size = create(), 0
    try:
        for part in pieces:
            size = _write(fd, part, size)
        _seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd, size


def create():
    """A descriptor for a new, empty bundle: a memfd if the system has these."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("cellspan", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.fchmod(fd, 0o600)  # a new memfd has mode 0777: whoever can reach it through /proc could open it
        return fd
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _seal(fd):
    try:
        fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    except OSError:  # not a memfd, or sealed already
        pass


def _write(fd, data, offset):
    view = memoryview(data)
    while len(view):
        n = os.pwrite(fd, view[:AT_ONCE], offset)
        offset += n
        view = view[n:]
    return offset


# ---- loading ------------------------------------------------------------------------------------------------------


def unpack(fd, size, user_ns=None, placed=None, land=None, loads=None, label="", say=None):
    """The value in a bundle of `size` bytes. The caller keeps the descriptor and may close it afterwards.

    user_ns: the namespace for the notebook's functions (default: __main__'s). placed: {number of a storage: the torch storage
    that already has its bytes}, for storages on a GPU; land(views, meta) makes this dict if some were on a GPU at home.
    loads(body, buffers=...): used instead of pickle's. label, say: as of class_versions.tell(). Raises BundleError if the bytes are not a bundle. Other exceptions
    come from rebuilding the objects: ImportError, for example for a missing module; else LoadError, which names the part.
    """
    __tracebackhide__ = True
    return _rebuilt(*read(fd, size), user_ns, placed, land, loads, label, say)


def unpack_bytes(data, user_ns=None, land=None, fill=None, label="", say=None):
    """As unpack(), for a bundle in bytes. fill(views, absent): puts the buffers that are not in the bundle into its views."""
    memory = memoryview(mappings.Read(data))
    __tracebackhide__ = True
    views, meta, body = _split(memory, *_checked(memory, len(memory)))
    if "absent" in meta:
        fill(views, meta["absent"])
    return _rebuilt(views, meta, body, user_ns, None, land, None, label, say)


def _rebuilt(views, meta, body, user_ns, placed, land, loads, label, say):
    __tracebackhide__ = True
    count = meta["buffers"]
    storages = [(views[index], base) for index, base in meta["storages"]]
    if land is not None and "cuda" in meta["devices"]:
        placed = land(views, meta)
    if meta["prefix"] == sys.prefix and same_python(meta):
        _extend_path(meta["path"])
    if storages:
        with contextlib.suppress(Exception):  # it is raised again where a value needs torch
            imports.whole("torch")
    namespace, value = rebuild.main_namespace() if user_ns is None else user_ns, None
    try:
        with rebuild.load_into(rebuild.Loading(namespace, storages, placed, (body, views[:count]), meta.get("forced", ()), say)):
            value = (loads or pickle.loads)(body, buffers=views[:count])
    except rebuild.VariableConflict as error:
        raise error.with_traceback(None) from None
    except Exception as error:
        if same_python(meta):
            if isinstance(error, MemoryError) and not error.args:
                error.args = (_no_room(len(body) + sum(map(len, views[:count]))),)
            if loads is not None or isinstance(error, (ImportError, MemoryError)):
                raise
            advice = class_versions.advice(meta.get("classes"), error)
            raise _not_loaded(error, body, views[:count], rebuild.Loading(namespace, storages, placed), advice) from _without_our_frames(error)
        theirs = ".".join(map(str, meta["python"]))
        ours = ".".join(map(str, sys.version_info[:2]))
        raise BundleError(f"pickled by Python {theirs}, loaded by Python {ours}: {reason(error)}") from error
    finally:
        if "classes" in meta and same_python(meta):  # it may be why the value can't be loaded
            class_versions.tell(meta["classes"], value, label, say)
    return value


def _not_loaded(error, body, buffers, context, advice):
    from . import unloaded

    def load(make):
        with rebuild.load_into(context):
            make(buffers)

    return LoadError(unloaded.labels_of(body, load), error, advice)


def _without_our_frames(error):
    """The exception of a pickle's code, without frames of ours; None: it has no others, so its text is all that there is to show."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(OURS):
        at = at.tb_next
    return error.with_traceback(at) if at is not None else None


def read(fd, size):
    """(the buffers as writable memoryviews, meta, body) of a bundle. Checks every offset and length."""
    __tracebackhide__ = True
    head = _head(fd, size)
    _seal(fd)
    try:
        return _split(_memory(fd, size, size - head[2]), *head)
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
    raise MemoryError(_no_room(size))


def _no_room(size):
    return f"{human(size)} of values do not fit into the memory of this process: free some of it, or raise its limit (ulimit -v, or the container's)"


def _split(memory, count, meta_size, start):
    table = _table(memory, count, start, len(memory))
    at = HEADER.size + ENTRY.size * count
    meta = _meta(memory[at : at + meta_size], count)
    body = memory[at + meta_size : start]
    return [memory[o : o + n] for o, n in table], meta, body


def body_size(fd, size):
    """The size of a bundle's pickle in bytes, without the buffers."""
    _head(fd, size)
    return HEADER.unpack(os.pread(fd, HEADER.size, 0))[6]


def outline(fd, size):
    """The offset of the bundle's buffers. Needs only the header, for a bundle that is still arriving."""
    return _head(fd, size)[2]


def contents(fd, size):
    """([(offset, length) of each buffer], meta) of a bundle of which the buffers may still be missing."""
    count, meta_size, start = _head(fd, size)
    at = HEADER.size + ENTRY.size * count
    front = memoryview(os.pread(fd, at + meta_size, 0))
    if len(front) < at + meta_size:
        raise BundleError(f"a bundle of {size} bytes is cut off")
    return _table(front, count, start, size), _meta(front[at:], count)


def _head(fd, size):
    """(entries in the table, bytes of meta, where the buffers begin)."""
    if os.fstat(fd).st_size < size:
        raise BundleError(f"a bundle of {size} bytes is cut off")
    return _checked(os.pread(fd, HEADER.size, 0), size)


def _checked(head, size):
    if size < HEADER.size:
        raise BundleError(f"a bundle of {size} bytes is cut off")
    magic, version, _, whole, count, meta_size, body_size, _, _ = HEADER.unpack(head[: HEADER.size])
    if magic != MAGIC:
        raise BundleError("these bytes are no bundle")
    if version != VERSION:
        raise BundleError(f"a bundle of version {version}; this side reads {VERSION}: update the older one")
    start = HEADER.size + ENTRY.size * count + meta_size + body_size
    if whole != size or count > size // ENTRY.size or start > size:
        raise BundleError("the bundle's header does not fit its size")
    return count, meta_size, start


def _table(memory, count, start, size):
    table = list(ENTRY.iter_unpack(memory[HEADER.size : HEADER.size + ENTRY.size * count]))
    for offset, length in table:
        if offset < start or offset % ALIGN or offset > size or length > size - offset:
            raise BundleError("a buffer lies outside its bundle")
    return table


class _Plain(pickle.Unpickler):
    """Loads only numbers, text, lists and dicts."""

    def find_class(self, module, name):
        raise BundleError("the bundle's description holds more than plain values")


def _meta(view, count):
    """The description of a bundle with so many buffers. Nobody changes it: those of calls that follow each other are one."""
    return (_meta_read if len(view) < META_KEPT else _meta_read.__wrapped__)(bytes(view), count)


@functools.lru_cache(maxsize=8)
def _meta_read(data, count):
    try:
        meta = _Plain(io.BytesIO(data)).load()
        good = (
            0 <= meta["buffers"] <= count
            and all(0 <= index < count and base >= 0 for index, base in meta["storages"])
            and len(meta["devices"]) == len(meta["storages"])
            and all(isinstance(p, str) for p in meta["path"] + [meta["prefix"]] + meta["devices"])
            and len(meta["python"]) == 2
            and all(isinstance(number, str) for number in meta.get("forced", ()))
            and ("classes" not in meta or class_versions.is_description(meta["classes"]))
            and all(0 <= index < count and isinstance(name, str) and number >= 0 for index, name, number in meta.get("absent", ()))
        )
    except BundleError:
        raise
    except Exception:
        good = False
    if not good:
        raise BundleError("the bundle's description can't be read")
    return meta


def _memory(fd, size, buffers):
    if buffers < MAP_MIN:
        memory, at = memoryview(mappings.Read(size)), 0
        while at < size:
            n = os.preadv(fd, [memory[at:]], at)
            if n <= 0:
                raise BundleError("the bundle became shorter while it was read")
            at += n
        return memory
    mapped = mappings.Mapped(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    _link.map_over(mapped, fd)
    mappings.note(mapped, fd)
    return memoryview(mapped)


def same_python(meta):
    """Does the bundle come from a Python of our version? Code objects can be sent only between equal versions."""
    return tuple(meta["python"]) == sys.version_info[:2]


def _extend_path(entries):
    """Adds the sender's entries of sys.path, so that modules which it could import are found here, too."""
    if entries == sys.path:
        return
    for entry in entries:
        if entry not in sys.path:
            sys.path.append(entry)
