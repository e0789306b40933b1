# SPDX-License-Identifier: BSD-3-Clause
"""A rank: one process of a world, forked from the zygote. Executes the cells of RUN, and answers with DONE."""

from __future__ import annotations

import builtins
import functools
import getpass
import os
import platform
import re
import sys
import time

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from .. import _link
from .._base.errors import in_one_line, text_of, undefined
from .._base.time_limit import TimeLimit, TooSlow
from .._capture import class_versions
from .._capture.origins import Origins
from .._capture.call_buffers import Received
from .._code.entries import Refused
from .._capture.vars_bundle import BundleTooLarge, LoadError, contents, pack, reason, unpack, unpack_bytes
from .._jupyter import post_mortem
from .._jupyter.requests import own_names
from .._jupyter.widgets import VIEW, Widgets
from . import (
    aborts,
    environment,
    gpu_placement,
    gpus,
    groups,
    idle_questions,
    library_fixes,
    mlflow_run,
    mpi,
    reloads,
    seeds,
    torch_errors,
    torch_rendezvous,
    torchenv,
    wandb_service,
)
from .execution import Cell, ignore_errors, own_error
from .follow import Follower
from .publish import result_json, to_json
from .remote import described
from .shell import RankShell
from .startup import shell_config
from .step_meeting import StepMeeting
from .tracebacks import failed_in_function
from .worker import Worker, _current, loads
from .world_env import RankWorld

LOST_CONTEXT = (
    "rank {0} can't use its GPU any more: after such an error, CUDA does not work again in the same process. %ranks restart -r {0} "
    "starts a new one, without its variables"
)
HELD_GPU_MEMORY = (
    "what the failed cell holds of the GPU's memory stays until the next distributed cell begins: %debug -r RANK looks at its "
    "variables, %ranks free frees it now"
)
UNDEFINED = re.compile(r"name '(\w+)' is not defined")
VALUE_MAX = 16 << 10  # bytes of a value that goes along with DONE
DESCRIBE_LIMIT = 1.0  # seconds for what home needs to raise a rank's exception

current = None  # the Rank of this process; None elsewhere


class Rank(Worker):
    """HANDLERS lists the messages that it serves."""

    PASSES = False  # it ends with its cell
    FOLLOWS_IPYTHON = True  # follow home's extensions, options and reloads, not only its environment
    HANDLERS = {
        "FOLLOW": "_follow",
        "RUN": "_run_message",
        "FETCH": "_fetch",
        "BIND": "_bind",
        "PROBE": "_probe",
        "COMM": "_comm",
        "MEET": "_meet",
        "EXIT": "_exit",
    }

    CELL = "RUN"

    def __init__(self, fd, rank, group, fixed=()):
        """fixed: variables of the environment that were set only for this rank."""
        super().__init__()
        self.rank = rank
        self.group = group
        self.quiet = False
        class_versions.side, class_versions.rank, class_versions.is_older = class_versions.RANKS, rank, reloads.imported.is_older
        self.start(fd)
        self.shell = RankShell.instance(worker=self, config=shell_config("rank"))
        builtins.input = self._input
        getpass.getpass = self._getpass
        self._origins = Origins(self.shell.user_ns)
        self._call_buffers = Received()
        self._bind_error = None
        self._unbound = 0  # DONE_UNBOUND until it is reported in a DONE
        self._folder = environment.own_folder("rank")
        self._follower = Follower(fixed, self.shell if self.FOLLOWS_IPYTHON else None, self._folder)
        self.widgets = Widgets(self)
        self.serves = 0  # the number of the comm message that is being served
        self.shown_before = None  # what the last expression of the last cell showed
        self.notices = StepMeeting(self)
        self.exchange = None  # the Exchange of the cell that runs, if it has one
        self.failed_cell = None  # the last cell if it failed: what its frames hold stays for %debug until the next one begins
        self._world = RankWorld(rank, os.path.join(self._folder, "error.json"))

    def run(self):
        """Sends READY, then runs cells until the process ends."""
        info = {"rank": self.rank, "group": self.group, "hostname": platform.node(), "prefix": sys.prefix}
        self.send("READY", 0, {"pid": os.getpid(), "python": platform.python_version(), "info": to_json(info)})
        self.search_path()
        library_fixes.meet()
        if self.FOLLOWS_IPYTHON:
            library_fixes.meet_in_notebook()
        aborts.watch()
        groups.watch(self.FOLLOWS_IPYTHON)
        torch_rendezvous.watch(self.rank, self.PASSES)
        mlflow_run.watch()
        wandb_service.watch()
        self.serve()

    def search_path(self):
        """Sets where the user's modules are found."""
        environment.search_path()

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _run_message(self, message):
        number, blob, fields = message.cell, message.blob, message.fields
        if not post_mortem.is_meant(fields["code"]):
            self.let_go()
        groups.free_destroyed()
        flags = fields["flags"]
        check = sys.modules.get("cellspan._worker.check")
        if check is not None:
            check.close()  # otherwise the port of an unfinished check stays open
        cell = Cell(number, fields["code"], fields["count"], store_history=True, allow_stdin=bool(flags & _link.RUN_STDIN))
        names = loads(fields["names"])
        cell.flags, cell.limit = flags, fields["limit"]
        cell.blob = blob + self.rank if flags & _link.RUN_RESULT_EACH else blob
        if fields["load"]:
            cell.instead = functools.partial(self._call, cell, fields["load"])
        self.quiet = bool(flags & _link.RUN_NO_DISPLAY)
        if fields["env"]:
            self._world.env = loads(fields["env"])
        self._origins.watch(names.get("watch", ()), names.get("doubtful", ()))
        cell.before = functools.partial(self._set_up, fields, names)
        self.begin(cell, fields)
        self.execute(cell, self._done)

    def _answer(self, message):
        if message.kind == "MEET":
            return self.notices.take(message)
        if message.kind != "HANDED":
            return super()._answer(message)
        if self.exchange is not None:
            self.exchange.take(message)
        return True

    def begin(self, cell, fields):
        """Called for a RUN, before its cell is executed. For subclasses."""

    def _set_up(self, fields, names):
        """Sets up everything that the cell needs, before it runs. names: as of RUN."""
        __tracebackhide__ = True
        self._raise_bind_error()
        if names:
            self._take_names(names)
        self._world.enter(self._world.env, loads(fields["master"]), fields["layout"], self.PASSES)
        groups.cell_begins(names.get("lost", ""))  # now that what it ended is gone
        mpi.cell_begins()
        try:
            if fields["cwd"]:
                os.chdir(environment.expanded(fields["cwd"]))
            elif environment.moved:
                print(environment.report_moved(), file=sys.stderr)
            if fields["init"]:
                used = torchenv.init_process_group(fields["init"])
                if {fields["init"], used} == {"nccl", "gloo"}:
                    print(f"cellspan: --init {fields['init']}: the process group of this world exists already, and uses {used} "
                          "(--fresh makes another)", file=sys.stderr)
            self._follower.before_cell(self.cell.number)
            seeds.again(fields["seed"], self.rank)
        except (OSError, torchenv.TorchError, Refused) as error:
            from IPython.core.error import UsageError

            text = str(error) if not isinstance(error, OSError) else f"--cwd {fields['cwd']}: {error.strerror}"
            raise UsageError(text) from None  # shown as one line, since no line of the user's failed
        self._origins.begin()

    def _take_names(self, names):
        """names: as of RUN. Drops values of home's that it has no more, or that it has newer ones of. CaptureError."""
        __tracebackhide__ = True
        self._origins.home_deleted(names.get("deleted", ()))
        unknown = self._origins.home_cannot_send(names.get("unsent", {}))
        if unknown:
            from .._capture.capture import CaptureError

            raise CaptureError(unknown)
        self._call_buffers.forget(names.get("deleted", ()))

    def _call(self, cell, load):
        """Calls the function that came with RUN, as if it were the cell's only line."""
        __tracebackhide__ = True
        from . import rank_calls

        shell = self.shell
        info = ExecutionInfo(cell.code, True, False, True, None)
        cell.result = ExecutionResult(info)
        shell.events.trigger("pre_execute")
        shell.events.trigger("pre_run_cell", info)
        try:
            with self._origins.holding():
                fn, args, kwargs = self._loaded(load)
            cell.result.result = (rank_calls.once if self.PASSES else rank_calls.call)(fn, args, kwargs)
        except BaseException as error:
            cell.result.error_in_exec = error
            raise

    def _loaded(self, load):
        __tracebackhide__ = True
        try:
            return unpack_bytes(load, self.shell.user_ns, gpu_placement.copied, self._call_buffers.fill)
        except LoadError as error:
            from .._capture import unloaded

            raise TypeError(unloaded.of_call(error)) from error.__cause__

    def _raise_bind_error(self):
        __tracebackhide__ = True
        error, self._bind_error = self._bind_error, None
        if error is not None:
            raise error

    def _done(self, cell):
        """The cell is over: sends its DONE."""
        fields = {"status": "ok", "content": "{}", "result": "", "note": "", "flags": 0}
        fd, size = -1, 0
        if cell.error is None and cell.blob:
            try:
                fd, size, fields["note"] = self._packed(cell)
                if isinstance(fd, bytes):
                    fd, size, fields["value"] = -1, 0, fd
            except KeyboardInterrupt as error:
                cell.error = in_one_line(error)
        if cell.error is not None:
            if not post_mortem.is_meant(cell.code):
                self.failed_cell = cell
            ignore_errors(self._explain, cell, cell.error)
            ignore_errors(self._add_held_gpu_memory, cell)
            fields["status"] = "error"
            fields["content"] = to_json(cell.error)
            if cell.own_error and cell.error["ename"] != "KeyboardInterrupt":
                fields["flags"] |= _link.DONE_OWN_ERROR
            if gpus.lost_context(str(cell.error.get("evalue"))):
                print(LOST_CONTEXT.format(self.rank), file=sys.stderr)
        elif cell.bundle is not None and self._is_shown(cell, fields["note"]):
            fields["result"] = result_json(*cell.bundle)
        if ignore_errors(torchenv.note_world):
            fields["flags"] |= _link.DONE_DISTRIBUTED
        if ignore_errors(gpus.take_aborted):
            fields["flags"] |= _link.DONE_ABORTED
        ignore_errors(reloads.imported.note)  # records new modules, whose files may change from now on
        if cell.error is not None or cell.blob:  # the user's code, or we, may have printed since the streams' end()
            self.streams.flush()
        self._send_done(cell.number, fields, cell.blob, fd, size)
        self.quiet, self.shown_before = False, cell.bundle

    def _explain(self, cell, error):
        """Adds a reason to an error: a name is missing because home has deleted it; or what to do about an error of torch's."""
        missing = UNDEFINED.search(error["evalue"]) if error["ename"] == "NameError" else None
        if missing and missing.group(1) in self._origins.deleted:
            _add(error, self._origins.deleted[missing.group(1)])
        torch_errors.explain(error, cell, self.PASSES)

    def _send_done(self, number, fields, blob, fd, size):
        fields["flags"] |= self._unbound
        self._unbound = 0
        fields["gone"] = ",".join(self._origins.gone())
        fields["assigned"] = ",".join(self._origins.assigned(fields["status"] == "ok"))
        try:
            self.send("DONE", number, fields, blob if fd >= 0 else 0, fd, size)
        finally:
            if fd >= 0:
                os.close(fd)

    def _is_shown(self, cell, note):
        """Is the result shown? Other ranks' results are not, nor is one that can't be sent where the cell fails without it."""
        return cell.flags & _link.RUN_RESULT and not (note and cell.flags & _link.RUN_RESULT_ALWAYS)

    def _packed(self, cell):
        """(descriptor, size, why there is none): a bundle of the last expression's value."""
        value = cell.result.result if cell.result is not None else None
        if value is None and not cell.flags & _link.RUN_RESULT_ALWAYS:
            return -1, 0, ""
        if not cell.flags & _link.RUN_RESULT:
            return -1, 0, ""
        return self._pack(cell.number, value, cell.limit, VALUE_MAX if cell.flags & _link.RUN_VALUE else 0)

    def _pack(self, number, value, limit, small=0, keeps=False):
        """As _packed(), for a value; (its bytes, 0, "") if they are at most `small`. keeps: as of pack(). May raise KeyboardInterrupt."""
        packed, error = self.attempt(number, pack, value, self.shell.user_ns, limit or None, small, keeps)
        if error is None:
            return (packed, 0, "") if isinstance(packed, bytes) else (*packed, "")
        if isinstance(error, BundleTooLarge):
            return -1, 0, str(error)
        if isinstance(error, KeyboardInterrupt):
            raise error
        return -1, 0, f"it can't be pickled: {reason(error)}"

    def _pack_pulled(self, number, values, as_dict, limit, keeps):
        """As _pack(), for a dict of pulled values, or the first of them. The reason why there is none begins with a name."""
        wanted = values if as_dict else next(iter(values.values()))
        fd, size, why = self._pack(number, wanted, limit, keeps=bool(keeps and as_dict))
        if fd >= 0:
            return fd, size, ""
        for name, value in values.items():  # finds the one that can't be sent
            fd, _, own = self._pack(number, value, limit)
            if fd < 0:
                return -1, 0, f"{name} can't be sent home: {own}"
            os.close(fd)
        return -1, 0, f"{', '.join(values)} can't be sent home: {why}"

    def _add_held_gpu_memory(self, cell):
        """The last line of an error, if the functions in which the cell failed may hold GPU memory."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized() and cuda.memory_allocated() and failed_in_function(cell.result and cell.result.error_in_exec):
            cell.error["traceback"] = [*cell.error["traceback"], HELD_GPU_MEMORY]

    def let_go(self, whole=False):
        """Frees the variables of the functions in which the last cell has failed. whole: all that refers to its error, too; else
        sys.last_value and its siblings stay, for the next cell."""
        cell, self.failed_cell = self.failed_cell, None
        if cell is not None or whole:
            self.attempt(cell.number if cell is not None else 0, post_mortem.forget, self.shell, cell, whole)

    def hints(self, error):
        return super().hints(error) or self._follower.hints(error)

    def command_hints(self, command):
        return self._follower.command_hints(command)

    # ---- output and input ----------------------------------------------------------------------------------------------

    def publish(self, kind, content, metadata=None, buffers=()):
        if kind.startswith("comm_"):  # also of a rank whose displays are not shown: others may refer to this widget
            super().publish(kind, content, metadata, buffers)
            return
        if VIEW in (content.get("data") or ()):
            content = self.widgets.shown(content)
        if self._captured(kind, content) or self.quiet:
            return
        super().publish(kind, content, metadata, buffers)

    @staticmethod
    def _captured(kind, content):
        output = sys.modules.get("cellspan._jupyter.rank_output")
        return output is not None and output.captures(kind, content)

    def show_result(self, data, metadata):
        """The last value is the cell's result. With IPython's `ast_node_interactivity` there may be several; earlier ones are shown."""
        before = self.cell.bundle if self.cell is not None else None
        if before is not None and self.cell.flags & _link.RUN_RESULT:
            self.publish("display_data", {"data": before[0], "metadata": before[1], "transient": {}})
        if self.widgets.is_closed(data):
            data = {kind: value for kind, value in data.items() if kind != VIEW}
        super().show_result(data, metadata)

    def show_error(self, ename, evalue, traceback, ends=True, error=None):
        evalue, traceback = self._follower.with_home_paths(evalue), [self._follower.with_home_paths(line) for line in traceback]
        content = {"ename": ename, "evalue": evalue, "traceback": list(traceback)}
        if self._captured("error", content):
            return
        if self.serves:  # the callback of a widget failed
            content["traceback"].insert(0, f"rank {self.rank}, in the callback of a widget:")
            super().publish("error", content)
            return
        super().show_error(ename, evalue, traceback, ends)
        if self.cell is not None and ends and error is not None:
            self.cell.error["raised"] = self._described(error)
        if not ends:
            print("\n".join(traceback), file=self.streams.err if self.shell.within_a_run() else sys.stderr)  # also where %%capture keeps what it prints

    @staticmethod
    def _described(error):
        try:
            return TimeLimit.run(DESCRIBE_LIMIT, described, error)
        except TooSlow:
            return {}

    def _input(self, prompt=""):
        """input(): asks the client, which gets the prompts of ranks one after the other."""
        __tracebackhide__ = True
        return self._ask(prompt, False)

    def _getpass(self, prompt="Password: ", stream=None):
        """getpass.getpass(), as _input()."""
        __tracebackhide__ = True
        return self._ask(prompt, True)

    def _ask(self, prompt, password):
        __tracebackhide__ = True
        if self.cell is None or not self.cell.allow_stdin:
            from IPython.core.error import StdinNotImplementedError

            piped = self.rank != 0 and self.cell is not None and self.cell.flags & _link.RUN_PIPED
            why = "standard input is rank 0's: read it there" if piped else "input was asked for, but this client takes no input requests"
            raise StdinNotImplementedError(why)
        return self.ask(prompt, password)

    # ---- widgets ----------------------------------------------------------------------------------------------------------

    def exclusive(self, message):
        return message.kind != "COMM"

    def _comm(self, message):
        """COMM: a page's message for a widget. Callbacks run here; what they print belongs to it."""
        number, fields = message.cell, message.fields
        content, metadata, header = (loads(fields[name]) for name in ("content", "metadata", "header"))
        kept, before, token = self.header, self.serves, _current.set(number)
        self.header, self.serves = fields["header"], number
        _, error = self.attempt(number, self.widgets.handle, fields, content, metadata, header)
        if error is not None:
            self.attempt(number, self.shell.showtraceback, (type(error), error, error.__traceback__))
        self.streams.flush()
        self.send("REPLY", number, {"status": "ok" if error is None else "error", "content": "{}"})
        self.header, self.serves = kept, before
        _current.reset(token)

    # ---- home's settings --------------------------------------------------------------------------------------------

    def _follow(self, message):
        """FOLLOW. It may load modules; if that fails, the next cell fails."""
        number, fields = message.cell, message.fields
        _, error = self.attempt(number, self._follower.take, fields["home"], bool(fields["near"]), self._world.before())
        if error is not None:
            self._bind_error = error

    # ---- values ----------------------------------------------------------------------------------------------------------

    def _bind(self, message):
        number, blob, fd, size, fields = message.cell, message.blob, message.fd, message.size, message.fields
        self.let_go()  # the next cell is coming
        if fd < 0 and blob:  # the agent could not get the blob; names says why
            self._bind_error = OSError(fields["names"])
            self._unbound = _link.DONE_UNBOUND
            return
        if fd < 0 and not fields["broadcast"]:
            return
        _, error = self.attempt(number, mpi.bind, self._take, fields["broadcast"], fd, size)
        if fd >= 0:
            os.close(fd)
        if error is not None:  # the next RUN reports it
            self._bind_error = error
            self._unbound = _link.DONE_UNBOUND

    def _take(self, broadcast, fd, size):
        """Binds the names in the blob, or in the bundle that another rank sends from GPU to GPU (broadcast)."""
        __tracebackhide__ = True
        if not broadcast:
            with self._origins.holding():
                self._bind_all(unpack(fd, size, self.shell.user_ns, land=gpu_placement.copied), fd, size)
            return
        kept = []
        try:
            with self._origins.holding():
                bound = self._broadcast(broadcast, fd, size, lambda *bundle: kept.append((os.dup(bundle[0]), bundle[1])))
                self._bind_all(bound, *(kept[0] if kept else (-1, 0)))
        finally:
            for own, _ in kept:
                os.close(own)

    def _bind_all(self, bound, fd, size):
        """Binds names. fd: the bundle from which they came; -1: it is not here."""
        arrived = self._origins.arrivals(bound) if fd < 0 or "cuda" in contents(fd, size)[1]["devices"] else {}
        self._call_buffers.take(bound, fd, size)
        bound = {name: value for name, value in bound.items() if not self._origins.keeps(name, value)}
        ours = self.shell.user_ns
        held = {name: self._origins.holders(name, bound) for name in bound if name in ours and ours[name] is not bound[name]}
        ours.update(bound)
        for name, own in held.items():
            if own:
                many = len(own) > 1
                print(f"cellspan: {', '.join(own)} still use{'' if many else 's'} the old {name}: make {'them' if many else own[0]} again",
                      file=sys.stderr)
        self._origins.came(bound, fd, size, arrived=arrived)

    def _broadcast(self, broadcast, fd, size, keep):
        from . import broadcast as broadcasts

        try:
            self._world.enter_of(loads(broadcast))
            return broadcasts.receive(self.rank, broadcast, fd, size, self.shell.user_ns, keep)
        except KeyboardInterrupt:
            raise broadcasts.BroadcastError("interrupted while variables were on their way") from None

    def _fetch(self, message):
        """FETCH. The user's code runs here only for pickling, so an error is one line, without our traceback."""
        number, blob, fields = message.cell, message.blob, message.fields
        answer = {"status": "ok", "content": "{}", "note": "", "flags": 0}
        fd, size = -1, 0
        flags = fields["flags"]
        found, error = self.attempt(number, self._values_of, fields["names"])
        try:
            if found:
                arrived, _ = self.attempt(number, self._origins.arrivals, found) if flags & _link.FETCH_KEEP else ({}, None)
                fd, size, answer["note"] = self._pack_pulled(number, found, flags & _link.FETCH_DICT, fields["limit"], flags & _link.FETCH_KEEP)
                if flags & _link.FETCH_KEEP and fd >= 0:  # home has the same values from now on
                    grads, _ = self.attempt(number, self._origins.grads_of, found)
                    self._origins.came(found, fd, size, grads or {}, arrived)
        except KeyboardInterrupt as interrupt:
            error = interrupt
        if error is not None:  # an error of BIND, or a missing name
            answer["status"] = "error"
            answer["content"] = to_json(in_one_line(error))
        self._send_done(number, answer, blob, fd, size)

    def _values_of(self, names):
        """A dict of the comma-separated names; {} if there are none."""
        self._raise_bind_error()
        names = [name for name in names.split(",") if name]
        for name in names:
            if name not in self.shell.user_ns:
                raise undefined(name, own_names(self.shell, ""))
        return {name: self.shell.user_ns[name] for name in names}

    # ---- questions of the kernel ----------------------------------------------------------------------------------------

    def _probe(self, message):
        """PROBE: a step of %ranks check, or of a broadcast. If it is interrupted, the answer is an error, and the check ends."""
        arrived = time.time()
        number, fields = message.cell, message.fields
        if fields["what"] == "compare":
            self._compare(number, fields["content"])
            return
        if fields["what"] == "let_go":
            self.let_go(whole=True)
            self._probed(number, "ok", "{}")
            return
        if fields["what"] in idle_questions.SERVED:
            answer, error = self.attempt(number, idle_questions.SERVED[fields["what"]], self.shell, loads(fields["content"]))
            self._probed(number, "ok" if error is None else "error", to_json(answer if error is None else {"error": text_of(error)}))
            return
        from . import check  # imported here because most ranks never need it

        answer, error = self.attempt(number, self._step, fields["what"], fields["content"], arrived)
        if isinstance(error, KeyboardInterrupt):
            check.close()
            self._probed(number, "error", to_json({"error": "interrupted", "aborted": gpus.take_aborted()}))
        elif error is not None:
            self.failed("PROBE", number, error)
        else:
            self._probed(number, *answer)

    def _step(self, what, content, arrived):
        from . import check

        self._world.enter_of(loads(content))
        return check.probe(self, what, content, arrived)

    def _compare(self, number, content):
        """Answers which of these names this rank has changed since they came."""
        said, error = self.attempt(number, self._origins.compare, loads(content)["names"])
        if error is not None:
            self.failed("PROBE", number, error)
        else:
            self._probed(number, "ok", to_json(said))

    def _probed(self, number, status, content):
        self.send("PROBED", number, {"status": status, "content": content})

    def failed(self, kind, number, error):
        if kind == "COMM":
            self.send("REPLY", number, {"status": "error", "content": "{}"})
        if kind == "PROBE":
            self._probed(number, "error", to_json({"error": text_of(error)}))
        if kind == "BIND":
            self._bind_error, self._unbound = error, _link.DONE_UNBOUND
        if kind in ("RUN", "FETCH"):
            own = own_error(self.cell, number) if kind == "RUN" else None
            self.send("DONE", number, {"status": "error", "content": to_json(own or in_one_line(error))})

    def _meet(self, message):
        """MEET, between cells."""
        self.notices.now(message.cell)

    def _exit(self, message):
        self.leave()


def _add(error, why):
    error["evalue"] += f" ({why})"
    error["traceback"] = [*error["traceback"], why]
