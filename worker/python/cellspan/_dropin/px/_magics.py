# SPDX-License-Identifier: BSD-3-Clause
"""%px, %%px, %pxresult, %pxconfig and %autopx, with the options of ipyparallel's."""

from __future__ import annotations

import re
import signal

from .. import call
from .._dropin_api import CALL_SHOWN, Option, last_shown, magic_line, parse, usage
from ._result import GROUPS, in_order, show_result
from ._views import Client, NoEnginesRegistered, resolved

GROUPING = (
    Option(("-r",), "group", "", "group outputs by order", "order"),
    Option(("-e",), "group", "", "group outputs by rank", "engine"),
    Option(("--group-outputs",), "group", "WAY", "type, engine or order"),
    Option(("-o", "--out"), "out", "NAME", "the AsyncResult gets this name, too"),
)
SETTINGS = (
    Option(("-t", "--targets"), "targets", "RANKS", "::2, 0, 1,3, all, or an expression"),
    Option(("-b", "--block"), "block", "", "wait for the ranks", True),
    Option(("-a", "--noblock"), "block", "", "do not wait; %pxresult shows what came", False),
    Option(("--stream",), "stream", "", "show output while the ranks run (the default)", True),
    Option(("--no-stream",), "stream", "", "show it when they have ended", False),
    Option(("--verbose",), "verbose", "", "say which ranks run it", True),
    Option(("--no-verbose",), "verbose", "", "do not", False),
    Option(("--progress-after",), "progress", "SECS", "accepted: the status of ranks shows by itself"),
    Option(("--signal-on-interrupt",), "signal", "SIGNAL", "SIGINT only"),
)
HELP = (Option(("-h", "--help"), "help", "", "show this text"),)
PX = (*SETTINGS, Option(("--local",), "local", "", "run it at home, too"), *GROUPING, *HELP)
NUMBERS = re.compile(r"[\d\s,-]+")
OURS = re.compile(r"%%?(px|autopx|result)")

_views = {}  # suffix: its Magics


def register(home, view=None, suffix=""):
    """Registers the magics with home's shell for this view (None: all ranks). Returns their Magics."""
    magics = _views.get(suffix)
    if magics is None:
        magics = _views[suffix] = Magics(home, suffix)
        shell = home.shell
        shell.register_magic_function(magics.px, "line", f"px{suffix}")
        shell.register_magic_function(magics.cell, "cell", f"px{suffix}")
        for name in ("pxresult", "pxconfig", "autopx"):
            shell.register_magic_function(getattr(magics, name), "line", name + suffix)
        shell.register_magic_function(magics.pxresult, "line", f"result{suffix}")
    magics.view = view
    magics.follow_view()
    return magics


def register_first(home, client):
    """register() for a view that blocks, unless %px is there already."""
    if "" not in _views:
        client.activate()


def unregister(home):
    """Removes them, and ends %autopx."""
    for suffix, magics in list(_views.items()):
        magics.auto(False)
        for kind, name in [("line", "px"), ("cell", "px"), *(("line", n) for n in ("pxresult", "pxconfig", "autopx", "result"))]:
            home.shell.magics_manager.magics[kind].pop(name + suffix, None)
    _views.clear()
    from .._dropin_api import px

    for kind in ("line", "cell"):
        home.shell.register_magic_function(px, kind, "px")


class Magics:
    """The magics of one view."""

    def __init__(self, home, suffix):
        self.home, self.suffix = home, suffix
        self.view = None
        self._config = {}  # set by %pxconfig
        self._last = None  # the last AsyncResult
        self._busy = False
        self._automatic = False

    # ---- magics ----

    def px(self, line):
        """%px CODE: runs a line on the ranks."""
        __tracebackhide__ = True
        return self._run("%px", line, None)

    def cell(self, line, cell):
        """%%px [options]: runs the cell on the ranks. %%px --help lists the options."""
        __tracebackhide__ = True
        return self._run("%%px", line, cell)

    def pxresult(self, line):
        """%pxresult [options]: waits for the last %%px, and shows its outputs."""
        __tracebackhide__ = True
        options, rest = parse("%pxresult", line, (*GROUPING, *HELP))
        if options.get("help"):
            print(usage("%pxresult [options]", "Waits for the last %%px, and shows its outputs.", (*GROUPING, *HELP)))
            return
        _nothing("%pxresult", rest)
        group = _group(options)
        if self._last is None:
            _refuse("%pxresult: there is no result of a %%px yet: only --noblock, --no-stream, -o and grouped outputs keep one")
        self._keep(options)
        self._last.display_outputs(groupby=group)

    def pxconfig(self, line):
        """%pxconfig [options]: sets options for every later %px and %%px."""
        options, rest = parse("%pxconfig", line, (*SETTINGS, *GROUPING[:3], *HELP))
        if options.get("help"):
            print(usage("%pxconfig [options]", "Sets options for every later %px and %%px.", (*SETTINGS, *GROUPING[:3], *HELP)))
            return
        _nothing("%pxconfig", rest)
        self._check(options)
        if "targets" in options:
            self._targets(options)
        if "block" in options and self.view is not None:
            self.view.block = options.pop("block")
        self._config.update(options)

    def autopx(self, line):
        """%autopx: from here on every cell runs on the ranks, until %autopx comes again."""
        _nothing("%autopx", line)
        self.auto(not self._automatic)
        print("%autopx enabled" if self._automatic else "%autopx disabled")

    # ---- how ----

    def follow_view(self):
        """The view's ranks count again, not those of %pxconfig; and whether it blocks."""
        for name in ("targets", "block"):
            self._config.pop(name, None)

    def auto(self, on):
        """Turns %autopx on or off."""
        transforms = self.home.shell.input_transformers_cleanup
        if on and not self._automatic:
            transforms.append(self._transform)
        elif self._automatic and not on:
            transforms.remove(self._transform)
        self._automatic = on

    def _transform(self, lines):
        """Sends a cell of the user's to %%px. Only cells that home begins: not those that it only reads for a cell on ranks."""
        first = next((line.strip() for line in lines if line.strip()), "")
        if self._busy or self.home.cell is None or not first or OURS.match(first):
            return lines
        return [f"get_ipython().run_cell_magic({'px' + self.suffix!r}, '', {''.join(lines)!r})\n"]

    def _run(self, magic, line, cell):
        __tracebackhide__ = True
        options, rest = parse(magic, line, PX)
        if options.get("help"):
            print(usage(f"{magic} [options]" + (" CODE" if cell is None else ""), "Runs code on the ranks.", PX))
            return None
        is_cell = cell is not None
        if is_cell:
            _nothing(magic, rest)
        else:
            cell = rest
        if not cell.strip():
            _refuse(f"{magic}: there is no code")
        options = {**self._config, **options}
        self._check(options)
        self._busy = True
        try:
            return self._begin(options, self._targets(options), cell, is_cell)
        finally:
            self._busy = False

    def _begin(self, options, view, code, is_cell):
        """Runs code on the ranks of the view, and at home with --local. Returns the AsyncResult if it does not wait. is_cell: the code
        begins in the second line of a cell."""
        __tracebackhide__ = True
        blocks = options.get("block", True if self.view is None else self.view.block)
        grouped = "group" in options or "out" in options or options.get("stream") is False
        if options.get("verbose"):
            print(f"{'Parallel' if blocks else 'Async parallel'} execution on ranks {view.targets}")
        if blocks and not grouped:
            self._live(view, code)
        else:
            self._last = view.execute("\n" * is_cell + code, block=False)
            self._last.name = "%px"
            self._keep(options)
        if options.get("local"):
            done = self.home.shell.run_part(code)
            done.raise_error()
        if not blocks:
            return self._last
        if grouped:
            self._last.display_outputs(groupby=_group(options))
        return None

    def _live(self, view, code):
        """Output shows while the ranks run; then what their last expressions are."""
        __tracebackhide__ = True
        self.home.call(magic_line("%distribute", {"ranks": view._ranks(), "no-capture": True}) + "\n" + code, CALL_SHOWN)
        shown = call(last_shown, ranks=view._ranks(), gather=True)
        for rank, bundle in zip(view._targets, in_order(view._targets, shown)):
            if bundle is not None:
                show_result(rank, bundle[0])

    def _keep(self, options):
        if "out" in options:
            if not options["out"].isidentifier():
                _refuse(f"-o {options['out']}: it is not the name of a variable")
            self.home.shell.user_ns[options["out"]] = self._last

    def _targets(self, options):
        """The view that --targets means, else the active one."""
        __tracebackhide__ = True
        client = self.view.client if self.view is not None else Client()
        if "targets" not in options:
            return self.view if self.view is not None else client[:]
        text = options["targets"]
        try:
            return client[resolved(_expression(text, self.home.shell.user_ns), client.ids)]
        except (TypeError, IndexError, NoEnginesRegistered) as error:
            _refuse(f"--targets {text}: {error}")

    def _check(self, options):
        _group(options)
        if options.get("signal", "SIGINT") not in ("SIGINT", "2", str(signal.SIGINT)):
            _refuse(f"--signal-on-interrupt {options['signal']}: an interrupt sends SIGINT; a second one ends the ranks")
        try:
            float(options.get("progress", 0))
        except ValueError:
            _refuse(f"--progress-after {options['progress']}: it is no number of seconds")


def _expression(text, ns):
    """What --targets says: "all", "::2", "0,2-3", or an expression of Python."""
    __tracebackhide__ = True
    text = text.strip()
    if text == "all":
        return text
    if ":" in text and re.fullmatch(r"[-\d:\s]+", text):
        return slice(*[int(part) if part.strip() else None for part in text.split(":")])
    if NUMBERS.fullmatch(text) and not text.startswith("-"):
        from .._dropin_api import numbers

        return numbers(text)
    try:
        return eval(text, {}, ns)  # as in ipyparallel
    except Exception as error:
        _refuse(f"--targets {text}: {type(error).__name__}: {error}; such as ::2, 0, 1,3 or all")


def _group(options):
    group = options.get("group", "type")
    if group not in GROUPS:
        _refuse(f"--group-outputs {group}: use {', '.join(GROUPS)}")
    return group


def _nothing(magic, rest):
    if rest.strip():
        _refuse(f"{magic}: {rest.strip()}: unexpected; {magic} --help lists the options")


def _refuse(text):
    from IPython.core.error import UsageError

    raise UsageError(text) from None
