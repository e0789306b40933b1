# SPDX-License-Identifier: BSD-3-Clause
"""What to do about errors of torch.distributed, gloo, NCCL and Accelerate: the place on ranks that knows their texts.

Each library words an error by itself, often without the cause, which is in an earlier cell or on another rank. ROWS has a row for each
kind of error. Its line is shown below the library's own text. A text that no row knows is shown as it is. If gloo ends the process, no
exception is raised: kernel/cell/error_text.c knows that text.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import namedtuple

from . import groups, torch_rendezvous

# cause: such as "cell 3 failed", if that cut the connections of this world's ranks; else "". begun: how the code was begun, of CELL, CALL
# and PASSING, or HOME: it runs at home. error: the exception, or None. found: the match of the row's pattern.
Facts = namedtuple("Facts", "cause begun error found")
CELL, CALL, PASSING, HOME = "cell", "call", "passing", "home"

# How the process group is made: by a cell's option, by that of a call, or in a process that ends with its function or script
INIT = {CELL: "add --init", CALL: "add init=True", PASSING: "call torch.distributed.init_process_group() first"}
ON_TOP = "this ran at home, which is one process: put %%distribute --init on top of the cell"
ORDER = "all ranks must call the same collectives in the same order, with the same shapes and types"
CLOSED = "closed"  # another rank is gone or has left: the kernel says which ranks had returned already


def _again(facts):
    """What was made with a process group whose connections are cut."""
    where = {CELL: "in a cell with --init", CALL: "in a call with init=True"}.get(facts.begun, "with a new process group")
    return (
        f"make DistributedDataParallel again {where}, and its optimizer, for ranks may differ by one step "
        "(the same holds for FSDP, DTensor and DeepSpeed)"
    )


def _closed(facts):
    if facts.cause and not _in_new_group(facts.error):
        return f"{facts.cause}, which cut the connections between ranks: {_again(facts)}"
    if facts.begun == PASSING:
        return ""
    return f"another rank has left the process group, or its collective failed; {ORDER}. Then {_again(facts)}"


def _store_cut(facts):
    """The text of a TCPStore's connection names no store."""
    if type(facts.error).__name__ != "DistNetworkError":
        return None
    why = f"{facts.cause}, which cut the connections between ranks" if facts.cause else "the process that hosts the store is gone, or was disconnected"
    return f"{why}: make the TCPStore again, on all ranks that use it"


def _gone(facts):
    """An object has kept a group that torch does not know any more."""
    why = f"{facts.cause}, which ended the process group" if facts.cause else "this object's process group has ended"
    return f"{why}: {_again(facts)}"


def _differ(facts):
    call = _call(facts.error)
    mine = f"rank {os.environ.get('RANK')} calls {call}; another rank calls" if call else "a rank calls"
    return f"{mine} another collective, or one with another shape or type: {ORDER}. What other ranks have got from it may be wrong"


def _uninitialised(facts):
    if facts.begun == HOME:
        return ON_TOP
    init = INIT[facts.begun]
    if groups.hidden:
        sizes = " and ".join(sorted((str(size) for size in groups.hidden), key=lambda size: (len(size), size)))
        theirs = "process groups belong to worlds" if len(groups.hidden) > 1 else "process group belongs to a world"
        return f"the {theirs} of {sizes} ranks, and this cell's world has {os.environ.get('WORLD_SIZE')}: {init}"
    if facts.cause:
        return f"{facts.cause}, which ended the process group: {init}"
    return f"this cell's world of {os.environ.get('WORLD_SIZE')} has no process group: {init}"


def _none_to_destroy(facts):
    if facts.begun == HOME:
        return ON_TOP
    why = f"{facts.cause}, which ended the process group" if facts.cause else "this cell's world has no process group"
    return f"{why}: there is nothing to destroy. Leave the call out, or ask torch.distributed.is_initialized() before it"


def _no_rank(facts):
    name = facts.found.group(1)
    return ON_TOP if facts.begun == HOME else f"the code has removed {name} from os.environ: the next cell has it again"


def _no_parameter(facts):
    """init_method="tcp://..." or "file://..." without what the environment would have said."""
    if facts.begun == HOME:
        return ON_TOP
    given = f"rank={os.environ.get('RANK')} and world_size={os.environ.get('WORLD_SIZE')}"
    return f"leave init_method out: the ranks know where they meet. With it, rank {os.environ.get('RANK')} needs {given}"


def _twice(facts):
    return "the process group is there already: use it, or end it first by torch.distributed.destroy_process_group()"


def _no_key(facts):
    """Keys of a store that the user's code has made: torch's own keys have prefixes."""
    keys = [key.lstrip("/") for key in facts.found.group(1).split(", ")]
    which = f"all of the keys {', '.join(map(repr, keys))}" if len(keys) > 1 else f"the key {keys[0]!r}"
    return f"no process has set {which} in this store within its time limit: another rank must set {'them' if len(keys) > 1 else 'it'}"


def _own_place(facts):
    """(host, port) in the text, if the code made a store itself, elsewhere than ranks meet; else None."""
    trace = getattr(facts.error, "__traceback__", None)
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "init_process_group":
            return None
        trace = trace.tb_next
    found = re.search(r"trying to connect to \((\S+), (\d+)\)|\b()port: (\d+)", facts.found.string)
    host, port = (found.group(1) or "", found.group(2) or found.group(4)) if found else ("", None)
    return None if port in (None, os.environ.get("MASTER_PORT")) else (host, port)


def _not_all(facts):
    own = _own_place(facts)
    if own is not None:
        return f"no store answers at {own[0]}:{own[1]}: check the name and the port; one rank must make the store there, with is_master=True"
    if facts.begun == HOME:
        return ON_TOP
    return (
        f"not all {os.environ.get('WORLD_SIZE')} ranks of this world have come to make the process group: all of them must, in one cell "
        f"without -r; {INIT[facts.begun]}" + ("" if facts.begun == PASSING else ", which does it on each")
    )


def _late(facts):
    call = _call(facts.error)
    mine = f"rank {os.environ.get('RANK')} has waited in {call}" if call else "a collective has waited"
    return f"{mine} for other ranks, up to the time limit of the process group (init_process_group(timeout=...)): {ORDER}"


def _port(facts):
    own = _own_place(facts)
    if own is not None and facts.begun != HOME:
        return f"port {own[1]} is in use on this machine, perhaps by a store that the code has made before: use that one, or another port"
    if facts.begun == HOME:
        return f"another process uses that port. {ON_TOP[0].upper()}{ON_TOP[1:]}, which finds a free one"
    return (
        f"another process uses that port: set no MASTER_PORT, no init_method and no rank, the ranks have a free port; {INIT[facts.begun]}. If "
        f"processes that the cell has started want it, {torch_rendezvous.ALREADY}: call the function itself"
    )


def _no_backend(facts):
    """This torch, or this machine, has no such backend."""
    name, here = facts.found.group(1), f"torch {getattr(sys.modules.get('torch'), '__version__', '')} in {sys.executable}"
    if name == "Gloo":
        return f"{here} was built without gloo: install another torch"
    why = f"{here} was built without {name}" if name else f"NCCL needs a GPU for each rank, and {here} sees none"
    gloo = {CELL: "put --init gloo on the cell in place of this call", CALL: 'run the function with init="gloo" in place of this call'}
    instead = gloo.get(facts.begun, 'call init_process_group("gloo")')
    return f"{why}: {instead}, which works for tensors in host memory" + ("; or install a torch that is built for CUDA" if name == "NCCL" else "")


def _shared_gpu(facts):
    return "NCCL takes a GPU only once: --init gloo works with a shared GPU, and NCCL_MULTI_RANK_GPU_ENABLE=1 with NCCL 2.30"


def _accelerator(facts):
    return "Accelerate's state is that of another world, or was reset: make the Accelerator again in this cell" if facts.begun != HOME else ""


def _launcher(facts):
    return ON_TOP + ", and call the function itself" if facts.begun == HOME else f"{torch_rendezvous.ALREADY}: call the function itself, without notebook_launcher"


def _loader(facts):
    """A worker of a DataLoader returns at a SIGINT, and one that is kept for the next loop is missing there."""
    trace = getattr(facts.error, "__traceback__", None)
    workers = None
    while trace is not None:
        workers = getattr(trace.tb_frame.f_locals.get("self"), "_workers", None) or workers
        trace = trace.tb_next
    ended = [worker.exitcode for worker in workers or () if not worker.is_alive()]
    if not ended or set(ended) - {0, -signal.SIGINT}:
        return None
    who = "an interrupt" if facts.begun == HOME else "an interrupt, or the error of another rank,"
    return f"{who} has ended the DataLoader's workers: make the DataLoader again"


# (what it is, the pattern of its texts, what to do, or None: it is another error). The first row whose pattern is found counts. Patterns
# are compiled by the first error: that takes longer than all else that this module does when a kernel starts.
Row = namedtuple("Row", "about pattern says")
ROWS = [
    Row(about, pattern, says)
    for about, pattern, says in (
        ("twice", r"trying to initialize the default process group twice", _twice),
        ("uninitialised", r"Default process group has not been initialized", _uninitialised),
        ("destroy", r"Process group cannot be None", _none_to_destroy),
        ("environment", r"environment variable (\w+) expected, but not set", _no_rank),
        ("parameter", r"rendezvous: (?:rank|world size) parameter missing", _no_parameter),
        ("key", r"wait timeout after \d+ms, keys: /((?!.*(?:default_pg|store_based_barrier|rpc_|cellspan/)).+)$", _no_key),
        (
            "store",
            r"Timed out after \d+ seconds waiting for clients|client socket has timed out after|wait timeout after \d+ms, keys"
            r"|Timeout waiting for key|Socket Timeout|rank 0 has made no new process group",
            _not_all,
        ),
        ("port", r"EADDRINUSE|server socket has failed to listen", _port),
        ("differ", r"op\.preamble\.\w+|op\.getOpcode|Detected mismatch between collectives|gloo/.*\benforce fail\b", _differ),
        ("late", r"Timed out waiting \d+ms for (?:recv|send|synchronization)|Application timeout caused pair closure|Watchdog caught collective", _late),
        ("backend", r"Distributed package doesn't have (\w+) built in|ProcessGroupNCCL is only supported with GPUs, no GPUs found", _no_backend),
        ("gpu", r"Duplicate GPU detected", _shared_gpu),
        (
            CLOSED,
            r"gloo/\S*\] ?.*(?:[Cc]onnection (?:closed|reset) by peer|Broken pipe|Connection refused|Socket closed)"
            r"|Remote peer closed the connection|Connection was likely closed\. Did the remote server"
            r"|NCCL communicator was aborted|ncclRemoteError|remote process exited or there was a network error",
            _closed,
        ),
        ("store cut", r"^(?:Broken pipe|Connection reset by peer)$|^\w+ failed on SocketImpl", _store_cut),
        (
            "gone",
            r"Could not resolve the process group|Invalid process group specified|Group .* is not registered, please create group"
            r"|is not initialized in the world group map|Invariant encountered: value was None when it should not be",
            _gone,
        ),
        ("loader", r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly", _loader),
        ("launcher", r"should only be initialized inside your training function", _launcher),
        ("accelerate", r"initialize your accelerator via|`PartialState` was not reinitialized", _accelerator),
    )
]


def explained(text, begun, cause="", error=None):
    """(what this error is, a line that says what to do) by its text; ("", ""): no row knows it. An error without a line may be known."""
    text = text or _unsaid(error)
    for row in ROWS if torch_rendezvous.ALREADY not in text else ():  # its error needs no line more
        found = re.search(row.pattern, text)
        line = row.says(Facts(cause, begun, error, found)) if found else None
        if line is not None:
            return row.about, line
    return "", ""


def explain(description, cell, passes):
    """Adds to the error of a rank's cell, as DONE has it, what to do about it. passes: the process ends with the cell."""
    begun = CELL if cell.instead is None else PASSING if passes else CALL
    error = cell.result.error_in_exec if cell.result is not None else None
    about, line = explained(description["evalue"], begun, groups.cause(), error)
    if about:
        description["about"] = about
    if line:
        description["evalue"] += f" ({line})"
        description["traceback"] = [*description["traceback"], line]


def at_home(error):
    """The line below an exception at home, as a list; [] if there is none. An error of ranks has its line already."""
    if not isinstance(error, Exception) or hasattr(error, "_render_traceback_"):
        return []
    line = explained(str(error), HOME, error=error)[1] if type(error).__str__ in _STR else ""
    return [line] if line else []


_STR = {kind.__str__ for kind in (BaseException, OSError, KeyError, ImportError, SyntaxError)}  # not a user's, which may do anything


def _in_new_group(error):
    """Was this raised in a process group that torch sees? What cut the connections of the ranks also ended the groups that were there."""
    seen = groups.seen()
    if not seen:
        return False
    frame = _frame(error)
    if frame is None:  # such as a backward pass, where C++ calls the collective
        return not groups.kept()
    group = frame.f_locals.get("group")
    return group is None or any(group is one for one in seen)


def _call(error):
    """The collective in which an exception was raised, such as "all_reduce of float32 (4,)", by the variables of torch's frame; or ""."""
    frame = _frame(error)
    return frame.f_code.co_name + _tensors(frame.f_locals) if frame is not None else ""


def _unsaid(error):
    """What newer versions of torch say where an older one only asserts it."""
    frame = _frame(error) if isinstance(error, AssertionError) else None
    return "Process group cannot be None" if frame is not None and frame.f_code.co_name == "destroy_process_group" else ""


def _frame(error):
    """The frame of torch's collective in which an exception was raised, or None."""
    trace, found = getattr(error, "__traceback__", None), None
    while trace is not None:
        frame = trace.tb_frame
        if _is_collective(frame):
            found = frame
        trace = trace.tb_next
    return found


def _is_collective(frame):
    return frame.f_code.co_filename.endswith(os.path.join("torch", "distributed", "distributed_c10d.py")) and frame.f_code.co_name != "wrapper"


def waiting():
    """A line "call all_reduce of float32 (4,)" with the collective in which the main thread is; "" if it is in none. If there are several
    groups, it ends with the ranks of the collective's one, and a second line is the kernel's name for this. Another thread calls it, so
    it runs no code of the user's. Ranks may call all_to_all() with different shapes."""
    if "torch.distributed.distributed_c10d" not in sys.modules:
        return ""
    frame = sys._current_frames().get(threading.main_thread().ident)
    if frame is None or not _is_collective(frame):
        return ""
    name, given = frame.f_code.co_name, frame.f_locals
    try:
        ranks, line = groups.called(given.get("group"))
    except Exception:  # noqa: BLE001 - the group is being destroyed, or is none of torch's
        ranks = line = ""
    return f"call {name}{'' if name.startswith('all_to_all') else _tensors(given, _is_plain)}{ranks}\n{line}"


def _is_plain(value):
    """Is it a tensor whose attributes are torch's own code?"""
    torch = sys.modules["torch"]
    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _is_tensor(value):
    return isinstance(value, sys.modules["torch"].Tensor)


def _tensors(names, is_tensor=_is_tensor):
    """" of float32 (4,)": the first tensor, or list of tensors, among the arguments of a collective."""
    for value in names.values():
        first = value[0] if type(value) in (list, tuple) and value else value
        if is_tensor(first):
            many = f"{len(value)} tensors, the first " if first is not value else ""
            return f" of {many}{str(first.dtype).replace('torch.', '')} {tuple(first.shape)}"
    return ""
