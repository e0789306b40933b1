# SPDX-License-Identifier: BSD-3-Clause
"""Ranks follow home: changes of its environment and search path since it started, IPython's options and extensions, and modules that are
loaded again. Home sends these before a distributed cell.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys

from .. import _link
from .._base.errors import in_words
from . import environment, mlflow_run, module_paths, reloads, root_logging, torchenv, wandb_service
from .execution import ignore_errors
from .late_settings import LateSettings
from .wanted import Wanted

LARGEST = 1 << 20  # bytes that a FOLLOW can have
# Variables that each machine, or its Slurm, sets itself. Ranks on home's own machine follow home in these, too.
MACHINES_OWN = ("PATH", "LD_LIBRARY_PATH", *torchenv.INTERFACES, *torchenv.JAX_GPUS)
# Settings about home's process as a program, its history and its start.
HOMES_OWN = ("Application", "App", "HistoryManager", "HistoryAccessor", "ProfileDir")
NOT_FOLLOWED = frozenset(("storemagic", "IPython.extensions.storemagic", "cellspan"))  # extensions that are home's alone
TEXT = "%text"  # marks a setting that is still text and that its trait must parse


class Lead:
    """Home's side. Make it when the process is ready for the user's first line."""

    def __init__(self, shell):
        self._shell = shell
        self._watch = reloads.Watch(shell)
        self._began = dict(os.environ)
        self._late = LateSettings()
        self._seen = None
        self._configs = []
        self._settings = {}
        self._text = ""
        self.environ = {}  # as text() told last: what an engine that starts gets
        self._untold = environment.raw()
        self.paths = module_paths.Led()

    def text(self, code=None):
        """(FOLLOW's text, lines for the user). code: the part of that name, the same object until it changes."""
        environ, run, wandb = environment.raw(), mlflow_run.of_home(), wandb_service.of_home()
        extensions = self._shell.extension_manager.loaded - NOT_FOLLOWED
        seen = environ, run, self._options(), extensions, self._watch.reloaded.count, self._watch.autoreload(), root_logging.of_home(), wandb, module_paths.entries(), code
        if seen == self._seen:
            return self._text, []
        lines = self._late.lines()
        parts = {
            "env": {} if environ == self._untold and run is None else self._changes(run),
            "options": self._settings,
            "extensions": sorted(seen[3]),
            "reloaded": self._watch.reloaded.report(),
            "autoreload": seen[5],
            "logging": seen[6],
            "wandb": wandb,
            "path": self.paths.change(),
            "code": code,
        }
        parts = {name: part for name, part in parts.items() if part}
        text = json.dumps(parts, sort_keys=True) if parts else ""
        if len(text) > LARGEST:
            return self._text, [*lines, f"the changes of home's environment and options have over {LARGEST >> 20} MiB: ranks don't get them"]
        self._seen, self._text = seen, text
        self.environ = {name: value for name, value in parts.get("env", {}).items() if _is_text(name) and _is_text(value)}
        return text, lines

    def _changes(self, run):
        """{name: value} of the variables that were set since home started; None for those that were deleted. run: MLflow's."""
        now = dict(os.environ)
        if run is not None:
            now[mlflow_run.VARIABLE] = run
        names = {name for name in {*self._began, *now} if self._began.get(name) != now.get(name)}
        return {name: now.get(name) for name in names if not name.startswith("CELLSPAN_") and name != wandb_service.VARIABLE}

    def _options(self):
        """The settings of IPython's files, the kernel's arguments and %config, {class: {trait: value}}; the same object
        until they change."""
        parts = self._shell.configurables
        configs = [part.config for part in parts]
        if len(configs) != len(self._configs) or any(a is not b for a, b in zip(configs, self._configs)):
            self._configs, self._settings = configs, {}
            self._add(self._shell.config)
            for part, config in zip(parts, configs):  # %config changes only the config of the part that it is about
                self._add({kind.__name__: config[kind.__name__] for kind in type(part).__mro__ if kind.__name__ in config})
        return self._settings

    def _add(self, config):
        for section, traits in config.items():
            if isinstance(traits, dict) and not section.endswith(HOMES_OWN):
                self._settings.setdefault(section, {}).update(_plain(traits))


def _is_text(value):
    """Can the kernel read it? Bytes that are no UTF-8 it can't."""
    try:
        return value is None or value.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def _plain(traits):
    """The traits of a section that JSON can represent."""
    found = {}
    for name, value in traits.items():
        value = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        found[name] = {TEXT: value} if type(value).__name__.startswith("Deferred") else value
    return found


def wanted_beforehand():
    """Names of the modules that CELLSPAN_PRELOAD wants."""
    return Wanted(_link.setting("CELLSPAN_PRELOAD")).asked


def _deferred(value):
    """A setting that its trait will parse: text, or a list of texts."""
    from traitlets.config.loader import DeferredConfigList, DeferredConfigString

    return DeferredConfigString(value) if isinstance(value, str) else DeferredConfigList(value)


class Follower:
    """A rank's side. What home does not send any more returns to its old value here."""

    def __init__(self, fixed, shell, folder=""):
        """fixed: variables of the environment that are this rank's own. shell: None if only the environment and modules' files matter. folder:
        the rank's own."""
        self._fixed = {*fixed, "CUDA_VISIBLE_DEVICES"}
        self._shell = shell
        self._followed = {}  # the environment that home sent last
        self._before = {}  # its values before home sent anything
        self._options = {}
        self._extensions = set()
        self._paths = module_paths.Followed()
        self._reloads = reloads.HomesReloads(reloads.imported)
        self._autoreload = None
        self._logging = root_logging.RootLogging()
        self._folder, self._code = folder, None  # the RankCode, once home has sent a listing
        self._beforehand = []  # modules of CELLSPAN_PRELOAD that are not imported yet
        self._failed = []  # lines for the user, with the next cell

    def take(self, text, near, world):
        """Follows home. world: {name: text or None}, the values to which the variables of the last cell's world will be reset; for
        names in it only that value changes, since the next cell sets the variable. Raises the exceptions of modules that are
        loaded again."""
        said = json.loads(text) if text else {}
        self._autoreload = reloads.imported.autoreload = said.get("autoreload")
        wandb_service.take(said.get("wandb"), near)
        self._take_environment({name: value for name, value in said.get("env", {}).items() if self._is_ours(name, near)}, world)
        self._take_code(None if near else said.get("code"))
        if self._shell is None:
            return
        self._paths.take(said.get("path"))
        self._take_options(said.get("options", {}))
        self._logging.take(said.get("logging"))
        self._take_extensions(set(said.get("extensions", ())))
        self._reloads.take(said.get("reloaded", {}))

    def before_cell(self, cell=None):
        """cell: its number. Loads modules again whose files have changed, or prints a line about them. Each rank prints it: any of them may be the
        only one that runs the cell, or that has imported the module. Merging makes one line of what they print alike."""
        mlflow_run.follow(self._followed.get(mlflow_run.VARIABLE))
        self._try("W&B", wandb_service.before_cell)
        lines = self._code.before_cell(cell) if self._code is not None else []
        if self._beforehand:
            self._import_beforehand()
        lines, self._failed = [*self._failed, *lines], []
        if self._shell is None:
            self._say(lines)
            return
        lines += self._reloads.try_again()
        if self._autoreload is not None:
            lines += reloads.imported.reload_changed(self._autoreload, self._shell)
        else:
            lines += ignore_errors(reloads.imported.unsaid, self._shell, *(() if self._code is None else (self._code.is_homes,))) or []
        self._say(lines)

    def with_home_paths(self, text):
        """A text that may name files which came from home, as home has them."""
        return text if self._code is None else self._code.with_home_paths(text)

    def hints(self, error):
        """Lines below an error that has its cause in what this machine lacks."""
        return wandb_service.hints(error) or ([] if self._code is None else self._code.hints(error))

    def command_hints(self, command):
        """Lines below a shell command that has failed."""
        return [] if self._code is None else self._code.command_hints(command)

    def script(self, named):
        """(the file on this machine of the script that home has, the folder for sys.path), or None. named: as the user has named it."""
        return None if self._code is None else self._code.script(named)

    def _take_code(self, listing):
        """listing: what home has of the notebook's modules; None: they are not for this rank."""
        try:
            if listing is not None and self._code is None:
                from .._code.code_rank import RankCode  # imported here because ranks of home's machine never need it

                self._code = RankCode(self._folder)
                reloads.imported.file_now = self._code.file_now
                self._beforehand = [name for name in wanted_beforehand() if name not in sys.modules]
            if self._code is not None:
                self._code.take(listing)
        except OSError as error:  # no room; the cell may need no module
            self._failed.append(f"the notebook's modules can't come to {platform.node()}: {in_words(error)}")

    def _import_beforehand(self):
        """Imports those modules of CELLSPAN_PRELOAD that are the notebook's own. The process that forks ranks does not have them."""
        for name in [name for name in self._beforehand if self._code.may_have(name)]:
            self._beforehand.remove(name)  # also if it fails, or is interrupted: the cell may not need it
            self._try(f"CELLSPAN_PRELOAD: {name}", importlib.import_module, name)

    # ---- environment -------------------------------------------------------------------------------------------------

    def _take_environment(self, wanted, world):
        for name in {*self._followed, *wanted}:
            if name in wanted and name in self._followed and wanted[name] == self._followed[name]:
                continue
            if name in wanted:
                self._before.setdefault(name, world[name] if name in world else os.environ.get(name))
                self._put(name, wanted[name], world)
            else:
                self._put(name, self._before.pop(name), world)
        self._followed = wanted

    def _is_ours(self, name, near):
        if name in self._fixed:
            return False
        return near or not (name in MACHINES_OWN or name.startswith("SLURM_"))

    @staticmethod
    def _put(name, value, world):
        if name in world:
            world[name] = value
        elif value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    # ---- IPython -----------------------------------------------------------------------------------------------------

    def _take_options(self, options):
        from traitlets.config import Config

        changed = {name: traits for name, traits in options.items() if traits != self._options.get(name)}
        self._options = options
        if not changed:
            return
        config = Config()
        for section, traits in changed.items():
            for name, value in traits.items():
                config[section][name] = _deferred(value[TEXT]) if isinstance(value, dict) and TEXT in value else value
        for part in self._shell.configurables:  # the shell is one of them
            self._try("IPython's options", part.update_config, config)

    def _take_extensions(self, wanted):
        manager = self._shell.extension_manager
        for name in sorted(wanted - self._extensions):
            self._try(f"%load_ext {name}", manager.load_extension, name)
        for name in sorted(self._extensions - wanted):
            self._try(f"%unload_ext {name}", manager.unload_extension, name)
        self._extensions = wanted

    def _try(self, what, function, *args):
        try:
            function(*args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the cell may not need it; SystemExit must not end the rank
            self._failed.append(f"{what} on ranks: {in_words(error)}")

    def _say(self, lines):
        for line in lines:
            print(f"cellspan: {self.with_home_paths(line)}", file=sys.stderr)
