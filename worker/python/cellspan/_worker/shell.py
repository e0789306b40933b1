# SPDX-License-Identifier: BSD-3-Clause
"""The InteractiveShell of home and ranks: IPython's, with output and input as messages."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import errno
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import warnings

from IPython.core import page
from IPython.core.autocall import IPyAutocall, ZMQExitAutocall
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.macro import Macro
from IPython.core.profiledir import ProfileDir
from traitlets import Any, Bool, Instance, Type, default

from .._base.errors import is_a, tb_of, text_of
from .._base.time_limit import TimeLimit, TooSlow
from .._jupyter.history import History
from .._jupyter.kernelmagics import CELL, HOMES, NEED_CLIENT, NO_CLIENTS, NO_EXIT, NO_NOTEBOOK, OF_NOTEBOOK, PAGE, name_near
from . import environment, startup, tracebacks
from .commands import run_command
from .publish import Formatter, Hook, Publisher
from .remote import RemoteError, interrupted_lines
from .tracebacks import end_at_user_code, left_by_interrupt

FORMAT_LIMIT = 5.0  # seconds that IPython may take to format an exception
TEXT_LIMIT = 2.0  # seconds of these for str() of an exception
EMPTY_LINES = re.compile(r"(?:\s*\n)?")  # at the beginning of a cell
VARIABLE = re.compile(r"[^\W\d]\w*(?![\w.])")  # a name without attributes, of which one may be a macro
HAS_IT = "cellspan: the kernel has it already: %%distribute works without %load_ext"
EXTENSIONS = {  # what IPython's magics say of cellspan, which is no extension here
    "load_ext": HAS_IT,
    "reload_ext": HAS_IT,
    "unload_ext": "cellspan: its magics belong to the kernel: there is nothing to unload",
}
WITHOUT_WINDOWS = (None, "inline", "agg", "asyncio", "ipympl", "widget", "webagg", "nbagg", "notebook")  # for %gui and %matplotlib

NESTED, PART = "nested", "part"
_within = contextvars.ContextVar("within", default=None)  # NESTED: a run that a cell's code has begun, as by get_ipython().run_cell()


class _Nothing:
    """Replaces IPython's copying of output into its history by a patched sys.stdout.write, which is slow and has no limit."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class ZMQInteractiveShell(InteractiveShell):
    """Home's shell. It has the name of ipykernel's, by which libraries (rich, tqdm, pandas, …) recognise a notebook."""

    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    exiter = Instance(ZMQExitAutocall)
    autoindent = Bool(False)
    kernel = Any()
    keepkernel_on_exit = True
    keep_history = True
    # Traits that nobody observes are plain attributes here: an assignment to a trait takes as long as a small cell, and each look at one
    # calls two functions.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result = None
    history_manager = builtin_trap = display_trap = None

    def __init__(self, worker, **kwargs):
        self.worker = worker
        Hook.worker = Publisher.worker = worker
        self._last_traceback = None
        self._shown = threading.local()
        self._last_text = ""
        self._hints = []  # the warnings filter that hides IPython's hint on how to exit, while it is installed
        super().__init__(**kwargs)
        # Keeps leading empty lines, so that line numbers are those of the notebook's cell.
        cleanup = self.input_transformer_manager.cleanup_transforms
        cleanup[:] = [f for f in cleanup if getattr(f, "__name__", "") != "leading_empty_lines"]
        self._remember_transforms()

    @default("exiter")
    def _exiter_default(self):
        return ZMQExitAutocall(self)

    def init_environment(self):
        pass

    def init_ipython_dir(self, ipython_dir):
        try:
            if ipython_dir is None:
                _try_to_write(os.path.dirname(startup.profile_directory()))
            super().init_ipython_dir(ipython_dir)
        except OSError as error:  # such as a full disk
            self.ipython_dir = self._folder_in_place_of(error)

    def init_profile_dir(self, profile_dir):
        try:
            super().init_profile_dir(profile_dir)
        except OSError as error:
            self.profile_dir = ProfileDir.create_profile_dir_by_name(self._folder_in_place_of(error), "default")

    def _folder_in_place_of(self, error):
        """A folder for IPython's files, since its own can't be written: the kernel works without them."""
        if self.keep_history:
            atexit.register(environment.make_folder())
        made = os.path.join(environment.own_folder("home" if self.keep_history else "rank"), "ipython")
        os.makedirs(made, exist_ok=True)
        if self.keep_history:
            print(f"cellspan: IPython's folder can't be written ({error}): {made} is used until the kernel ends", file=sys.stderr)
        return made

    def init_history(self):
        settings = self.config.get("HistoryManager", {})
        wanted = self.keep_history and bool(settings.get("enabled", True))
        self.history_manager = History(shell=self, parent=self, wanted=wanted)
        self.configurables.append(self.history_manager)

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(self.payloadpage_page), 99)

    def init_data_pub(self):
        self.data_pub = None

    def _tee(self, channel):
        return _Nothing()

    def enable_gui(self, gui=None):
        """Refuses window systems, which would need the main thread; that serves messages. What runs in asyncio or draws for a page
        works without."""
        if gui not in WITHOUT_WINDOWS:
            raise UsageError(f"%gui {gui}: cellspan runs no window system's event loop; use %matplotlib inline")

    def enable_matplotlib(self, gui=None):
        """As IPython's. The figures of `notebook` need the page of the classic notebook, which draws them by a script."""
        __tracebackhide__ = True
        if gui in ("notebook", "nbagg"):
            other = "widget" if importlib.util.find_spec("ipympl") else "inline"
            print(f"cellspan: %matplotlib {gui} does not work here: %matplotlib {other} is used", file=sys.stderr)
            gui = other
        return super().enable_matplotlib(gui)

    # ---- text transformed to Python --------------------------------------------------------------------------------

    def _remember_transforms(self):
        manager = self.input_transformer_manager
        self._transforms = self._transform_lists(manager)

    @staticmethod
    def _transform_lists(manager):
        return (list(manager.cleanup_transforms), list(manager.line_transforms), list(manager.token_transformers))

    def transform_cell(self, raw_cell):
        """As IPython's, but keeps the empty lines at the beginning: the kernel replaces its magics by such lines, and errors count them.
        And skips the analysis if the cell is certainly plain Python."""
        __tracebackhide__ = True
        if not self._plain_python(raw_cell):
            begin = EMPTY_LINES.match(raw_cell).end()  # without them, a cell magic is first, and a single line may be an automagic
            return raw_cell[:begin] + super().transform_cell(raw_cell[begin:])
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def _plain_python(self, cell):
        """Has the cell no character that may start IPython's syntax, and did nobody add transforms?"""
        text = cell.strip("\n")
        if "%" in text or "!" in text or "?" in text or ">>>" in text or "In [" in text or "..." in text:
            return False
        if not text or text[0] in " \t,;/" or "\n," in text or "\n;" in text or "\n/" in text or "\t" in text:
            return False
        if any(line.lstrip()[:1] in (",", ";", "/") for line in text.split("\n") if line[:1] in (" ", "\f")):
            return False
        if "\n" not in text and not self._surely_statement(text):
            return False
        if self.input_transformers_post:
            return False
        return self._transforms == self._transform_lists(self.input_transformer_manager)

    def _surely_statement(self, line):
        """Is a single line certainly a statement? It may also be an automagic (`ls`) or an autocall (`exit`)."""
        word = line.split(None, 1)[0]
        if word in ("pass", "import", "from", "del", "return", "raise", "assert", "global", "with", "for", "while", "if"):
            return True
        head = line[:1]
        if head in "([{\"'-+~@#" or head.isdigit():
            return not self.autocall
        called, opened, _ = line.partition("(")
        if opened and called.isidentifier() and called not in ("exit", "quit"):
            return not self.autocall
        name, _, rest = line.partition("=")
        if bool(rest) and rest[:1] != "=" and name.strip().isidentifier():
            return True
        variable = VARIABLE.match(line)  # before which magics of this name stand back
        value = self.user_ns.get(variable.group()) if variable else None
        return value is not None and not isinstance(value, (IPyAutocall, Macro)) and not self.autocall

    def run_line_magic(self, magic_name, line, _stack_depth=1):
        """As IPython's. For a cell magic in the middle of a cell, which IPython takes as a line magic, and for home's magics on a rank,
        raises an error that says where to put it. A rank goes on after those that are for a client."""
        __tracebackhide__ = True
        name = magic_name[1:]
        if magic_name in EXTENSIONS and line.strip() == "cellspan":
            print(EXTENSIONS[magic_name])
            return None
        if magic_name[:1] == "%" and name in CELL:
            raise UsageError(f"%%{name} must be the first line of a cell: move it, and the code that it runs, to a new cell")
        if magic_name in HOMES and self.find_line_magic(magic_name) is None:
            raise UsageError(f"%{magic_name} is for the notebook's own cells: ranks run this one")
        return super().run_line_magic(magic_name, line, _stack_depth=_stack_depth + 1)

    # ---- runs within a cell ----------------------------------------------------------------------------------------

    # An error of such a run is shown, and the cell goes on: IPython's methods return what became of it. So it is not the cell's error.

    def run_cell(self, *args, **kwargs):
        with self._nested():
            return super().run_cell(*args, **kwargs)

    async def run_cell_async(self, *args, **kwargs):
        with self._nested(PART if _within.get() == PART else NESTED):
            return await super().run_cell_async(*args, **kwargs)

    def safe_execfile(self, *args, **kwargs):
        with self._nested():
            return super().safe_execfile(*args, **kwargs)

    def safe_run_module(self, *args, **kwargs):
        with self._nested():
            return super().safe_run_module(*args, **kwargs)

    @contextlib.contextmanager
    def _nested(self, kind=NESTED):
        token, outer = _within.set(kind), self.displayhook.exec_result
        try:
            yield
        finally:
            _within.reset(token)
            self.displayhook.exec_result = outer  # else a value that the cell itself has later would be nobody's

    @staticmethod
    def within_a_run():
        return _within.get() == NESTED

    def run_whole_cell(self, *args, **kwargs):
        """As IPython's run_cell_async(), for a cell itself. The coroutine."""
        return super().run_cell_async(*args, **kwargs)

    def run_part(self, code):
        """As IPython's run_cell(), for a part of our own cell, which has the part's error."""
        with self._nested(PART):
            return super().run_cell(code, store_history=False)

    def _goes_on(self, raised):
        """Is the cell well after this error, of a run within it? After an interrupt it goes on, too, and fails."""
        return self.within_a_run() and not issubclass((raised or sys.exc_info())[0] or Exception, KeyboardInterrupt)

    # ---- errors ----------------------------------------------------------------------------------------------------

    def showtraceback(self, *args, **kwargs):
        """As IPython's. An interrupt meanwhile (because another rank failed first) must not replace the error that ends the cell, so
        it is only recorded. If the cell shows an error and continues, the interrupt is raised afterwards."""
        caller = sys._getframe(1)
        if "showtraceback" in self.__dict__:  # a library has put its own function before this one, as rich does
            caller = caller.f_back or caller
        on_main = threading.current_thread() is threading.main_thread()
        kept = getattr(self._shown, "ends", True)
        self._shown.ends = _is_inside(caller) and (on_main or self.worker.in_subshell()) and not self._goes_on(args[0] if args else kwargs.get("exc_tuple"))
        limit = TimeLimit()
        try:
            with limit:
                asks = self._show_one(limit, *args, **kwargs)
        finally:
            self._shown.ends = kept
            if limit.noted and caller.f_code.co_name not in ("run_code", "run_ast_nodes", "run_cell_async"):
                limit.interrupt()
            elif limit.noted and self.worker.cell is not None:
                self.worker.cell.own_error = not self.worker.cell.interrupted
                self.worker.cell.interrupted = True
        if asks:
            self.debugger(force=True)

    def _show_one(self, limit, exc_tuple=None, *args, **kwargs):
        """Shows one error: formatted by IPython or, if that takes too long, needs too much memory or fails, by tracebacks.plain(). Returns
        whether the user wants the debugger (%pdb). The kernel knows this function's name: a rank that is in here has received its
        interrupt."""
        until = time.monotonic() + FORMAT_LIMIT
        try:
            raised = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return False
        if is_a(raised[1], RemoteError):
            self._show_remote(limit, *raised)
            return False
        short_lines = interrupted_lines(raised[1])
        if short_lines and self.worker.in_subshell() and self.worker.code.startswith(("%distribute", "%%distribute")):  # nothing of it ran here
            self._showtraceback(raised[0], raised[1], list(short_lines))
            return False
        raised, called = self._of_call(raised)
        if called:
            kwargs["tb_offset"] = 0
        end_at_user_code(raised[1])
        if left_by_interrupt(raised[1]):
            self._hide_hint()
            raised = (KeyboardInterrupt, KeyboardInterrupt().with_traceback(raised[2]), raised[2])
            kwargs["exception_only"] = False
        elif is_a(raised[1], SystemExit) and not self.keep_history:  # on a rank, which nobody leaves
            self._hide_hint()
        raised = self._get_exc_info(raised)
        if raised[0] is UsageError:
            name_near(raised[1], self.magics_manager.magics)
        text, asks = self._text(limit, raised[1]), False
        with tracebacks.Shortened(raised[1], raised[2]) as short:
            lines = tracebacks.FAILED
            if text is not None:
                lines, asks = self._formatted(limit, until, raised[0], raised[1], short, called, *args, **kwargs)
            if lines is tracebacks.FAILED:
                lines = short.plain(raised[0], raised[1], text, self.compile)
        self.InteractiveTB.tb = raised[2]
        if lines is not None:
            said = tracebacks.NO_TEXT if text is None else text
            self._deliver(raised[0], raised[1], said, [*lines, *self._hints_for(limit, until, raised[1])])
        return asks

    def _text(self, limit, value):
        """str(value); None: it fails, or takes too long."""
        begin = time.monotonic()
        try:
            text = limit.run(TEXT_LIMIT, str, value)
        except BaseException:  # noqa: BLE001 - of the user's class
            return None
        return None if time.monotonic() - begin > TEXT_LIMIT else tracebacks.clipped(text)

    def _formatted(self, limit, until, etype, value, short, called, *args, **kwargs):
        """(the lines, does the user want the debugger?). Lines: None if they are shown already, by a library; FAILED."""
        kept, self._shown.lines = getattr(self._shown, "lines", None), []
        try:
            with short.shown_in(self.InteractiveTB):
                asks = limit.run(until - time.monotonic(), self._format, etype, value, short.tb, called, *args, **kwargs)
            lines = self._shown.lines
            return (lines + short.not_shown() if lines else None), asks
        except BaseException:  # noqa: BLE001 - also MemoryError, TooSlow, and whatever a user's class raises
            return tracebacks.FAILED, False
        finally:
            self._shown.lines = kept

    def _hints_for(self, limit, until, value):
        try:
            return limit.run(max(until - time.monotonic(), 0.1), self.worker.hints, value)
        except (Exception, TooSlow):  # noqa: BLE001 - the error is shown without
            return []

    def _format(self, etype, value, tb, called, filename=None, tb_offset=None, exception_only=False, running_compiled_code=False):
        """Calls _showtraceback() with the lines of an error, as IPython would; but what fails raises an error. Returns whether the user
        wants the debugger."""
        if etype is not UsageError and tracebacks.has_no_user_code(tb):
            lines = tracebacks.of_group(etype, value, None) if value.__cause__ else self.InteractiveTB.get_exception_only(etype, value)
            self._showtraceback(etype, value, lines)
        elif called and (tb is None or issubclass(etype, (SyntaxError, SystemExit))):
            self._show_short(etype, value, tb)
        elif not exception_only and tracebacks.holds_group(value):  # for which IPython only prints Python's own traceback
            self._showtraceback(etype, value, tracebacks.of_group(etype, value, tb))
        elif issubclass(etype, SyntaxError):
            self.showsyntaxerror(filename, running_compiled_code)
        elif etype is UsageError:
            self.show_usage_error(value)
        elif exception_only:
            whole = "An exception has occurred, use %tb to see the full traceback.\n"
            self._showtraceback(etype, value, [whole, *self.InteractiveTB.get_exception_only(etype, value)])
        else:
            render = getattr(value, "_render_traceback_", None)
            lines = render() if render else self.InteractiveTB.structured_traceback(etype, value, tb, tb_offset=tb_offset)
            self._showtraceback(etype, value, lines)
            return self.call_pdb
        return False

    @staticmethod
    def _of_call(raised):
        """(the exception, is it from a function called by cellspan.run()?). If so, its traceback starts in that function."""
        rank_calls = sys.modules.get("cellspan._worker.rank_calls")
        at, last = raised[2] if rank_calls is not None else None, None
        while at is not None:
            if at.tb_frame.f_code in rank_calls.CODES:
                last = at
            at = at.tb_next
        return (raised, False) if last is None else ((*raised[:2], last.tb_next), True)

    def _show_short(self, etype, value, tb):
        """For a call, if there is no line of the user's to show, or if IPython would also show the lines above it."""
        if issubclass(etype, SyntaxError):
            lines = self.SyntaxTB.structured_traceback(etype, value, traceback.extract_tb(tb))
        else:
            lines = self.InteractiveTB.get_exception_only(etype, value)
        if issubclass(etype, SystemExit):
            self._hide_hint()
        self._showtraceback(etype, value, lines)

    def _show_remote(self, limit, etype, value, tb):
        """Shows a RemoteError as it was shown on its rank. If no line of the user's is in it, as for a variable that is not there, it shows
        the line here that has asked for it."""
        lines = value._render_traceback_()
        if isinstance(value, SystemExit):
            self._hide_hint()
        elif etype.__name__ != "UsageError" and not tracebacks.has_frames(lines) and not tracebacks.has_no_user_code(tb):
            end_at_user_code(value)
            tracebacks.cells_have_no_module(tb_of(value))
            with contextlib.suppress(Exception, TooSlow):  # else it is shown as it came
                here = limit.run(FORMAT_LIMIT, self.InteractiveTB.structured_traceback, etype, value, tb_of(value))
                lines = tracebacks.with_frames(lines, here)
        self._showtraceback(etype, value, lines)

    def _hide_hint(self):
        """Suppresses the hint on how to exit, which IPython would print for a SystemExit, in this cell."""
        if not self._hints:
            warnings.filterwarnings("ignore", message="To exit: use", category=UserWarning)
            self._hints = warnings.filters[:1]

    def cell_over(self):
        """Ends what was only for one cell."""
        for hint in self._hints:
            if hint in warnings.filters:
                warnings.filters.remove(hint)
        self._hints = []

    def _showtraceback(self, etype, evalue, stb):
        stb = stb.splitlines() if isinstance(stb, str) else [line if isinstance(line, str) else str(line) for line in stb]
        if getattr(self._shown, "lines", None) is not None:
            self._shown.lines.extend(stb)
        else:
            self._deliver(etype, evalue, tracebacks.clipped(text_of(evalue)), [*stb, *self.worker.hints(evalue)])

    def _deliver(self, etype, evalue, text, lines):
        """Sends an error as it is to be shown."""
        name, ends, lines = tracebacks.name_of(etype), getattr(self._shown, "ends", True), tracebacks.within_bounds(lines)
        if ends:
            self._last_traceback, self._last_text = lines, text
        try:
            self.worker.show_error(name, text, lines, ends, evalue)
        except MemoryError:
            self.worker.show_error(name, text[:80], [f"{name}: {text[:80]}"], ends)

    def _format_exception_for_storage(self, exception, *args, **kwargs):
        """The stored error of a cell: as it was shown, so that IPython need not format it again."""
        return {
            "ename": type(exception).__name__,
            "evalue": self._last_text if self._last_traceback else text_of(exception),
            "traceback": list(self._last_traceback or []),
        }

    # ---- payloads --------------------------------------------------------------------------------------------------

    def payloadpage_page(self, strg, start=0, screen_lines=0, pager_cmd=None):
        data = strg if isinstance(strg, dict) else {"text/plain": strg}
        self.payload_manager.write_payload({"source": "page", "data": data, "start": max(0, start)})

    def ask_exit(self):
        """`exit`: the client ends; the kernel continues for other clients."""
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": True})

    def set_next_input(self, text, replace=False):
        """Puts `text` into the client's next cell."""
        self.payload_manager.write_payload({"source": "set_next_input", "text": text, "replace": replace})

    # ---- commands --------------------------------------------------------------------------------------------------

    def system_piped(self, cmd):
        """`!cmd`. An interrupt reaches it and all its child processes."""
        command = self.var_expand(cmd, depth=1)
        code = self.user_ns["_exit_code"] = run_command(command, self.worker.streams)
        for line in self.worker.command_hints(command) if code else ():
            print(f"cellspan: {line}", file=sys.stderr)
        if code and getattr(self, "system_raise_on_error", False):
            raise subprocess.CalledProcessError(code, cmd)

    system_raw = system_piped
    system = system_piped

    # ---- for libraries that expect ipykernel -------------------------------------------------------------------------

    @property
    def parent_header(self):
        return self.worker.parent()

    def get_parent(self):
        """The request that is being served, or that of this task's or thread's cell. Only its header is known."""
        return self.worker.parent()

    def set_parent(self, parent):
        """From now on output of this task or thread belongs to the cell of this request (from get_parent())."""
        self.worker.set_parent(parent)

    def set_thread_parent(self, parent):
        """As set_parent(). Returns a token for reset_thread_parent()."""
        return self.worker.set_parent(parent)

    def reset_thread_parent(self, token):
        """From now on output of this thread belongs to the running cell."""
        self.worker.reset_parent(token)


class RankShell(ZMQInteractiveShell):
    """A rank's shell: it has no history, and libraries don't take it for a notebook, so that progress bars are text."""

    keep_history = False

    def _goes_on(self, raised):
        """The rank's cell fails: other ranks may wait for this one in a collective, and only rank 0's value is shown."""
        return False

    def init_prompts(self):
        """Sets no sys.ps1: with it, libraries believe that the process is interactive, and refuse to start other ranks."""

    def payloadpage_page(self, strg, start=0, screen_lines=0, pager_cmd=None):
        """What `len?` shows is printed: a client has one pager, and each rank may show something."""
        print(strg.get("text/plain", "") if isinstance(strg, dict) else strg)

    def run_line_magic(self, magic_name, line, _stack_depth=1):
        """As IPython's. For those that need a client of the process's own, prints one line. Those that show a file are registered when
        one is first used."""
        __tracebackhide__ = True
        found = self.find_line_magic(magic_name) if magic_name in NEED_CLIENT or magic_name in PAGE else None
        if magic_name in NEED_CLIENT and (found is None or found.__module__.startswith("IPython.")):
            return self._say_no_client(f"%{magic_name}", NO_NOTEBOOK if magic_name in OF_NOTEBOOK else NO_CLIENTS)
        if magic_name in PAGE and found is None:
            from .._jupyter.pagemagics import PageMagics

            self.register_magics(PageMagics)
        return super().run_line_magic(magic_name, line, _stack_depth=_stack_depth + 1)

    def ask_exit(self):
        """`exit`: ranks go on, and so does the cell, as at home."""
        self._say_no_client("exit", NO_EXIT)

    def set_next_input(self, text, replace=False):
        """Ranks have no next cell."""
        self._say_no_client("set_next_input()", NO_NOTEBOOK)

    @staticmethod
    def _say_no_client(what, why):
        print(f"cellspan: {what} does nothing here: {why}", file=sys.stderr)

    def show_usage_error(self, exc):
        """Makes it the cell's error, shown once, instead of text that each rank prints."""
        self._showtraceback(type(exc), exc, [f"UsageError: {text_of(exc)}"])


def _try_to_write(folder):
    """Raises OSError where IPython would warn, as for a home folder that can only be read, and use a temporary folder that nobody removes."""
    folder = os.path.normpath(os.path.expanduser(folder))
    place = folder if os.path.exists(folder) else os.path.dirname(folder)
    if not os.path.isdir(place) or not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)


def _is_inside(frame):
    """Is it code of IPython's or ours, rather than a cell's or a library's? For formatters: if one representation of a value fails,
    IPython continues with the others and so does the cell; but without its text there is nothing to show. If a callback of an event
    fails, such as post_run_cell, the cell continues, too."""
    name = frame.f_globals.get("__name__", "")
    if name == "IPython.core.events":
        return False
    if name == "IPython.core.formatters":
        return getattr(frame.f_locals.get("self"), "format_type", "") == "text/plain"
    return name.startswith(("IPython.", "cellspan."))
