"""What ranks follow home in: the changes of its environment since it started, IPython's options and extensions, and modules
that are loaded again. Home tells them with each distributed cell.
"""

from __future__ import annotations

import json
import os
import sys

from .._base.errors import in_words
from . import environment, reloads, torchenv

LARGEST = 1 << 20  # bytes of what a FOLLOW can bring
# What a machine, or its Slurm, sets for itself; on home's own machine the ranks take it all the same.
MACHINES_OWN = ("PATH", "LD_LIBRARY_PATH", *torchenv.INTERFACES, *torchenv.JAX_GPUS)
# Settings that are about the process as a program, its history and its start.
HOMES_OWN = ("Application", "App", "HistoryManager", "HistoryAccessor", "ProfileDir")
TEXT = "%text"  # marks a setting that is text yet, to be read as its trait wants it


class Lead:
    """Home's side. Made when home's process looks as the user's first line finds it."""

    def __init__(self, shell):
        self._shell = shell
        self._watch = reloads.Watch(shell)
        self._began = dict(os.environ)
        self._seen = None
        self._configs = []
        self._settings = {}
        self._text = ""
        self._untold = environment.raw()

    def text(self):
        """(what FOLLOW brings, lines for the user)."""
        environ = environment.raw()
        seen = environ, self._options(), set(self._shell.extension_manager.loaded), dict(self._watch.reloaded), self._watch.autoreload()
        if seen == self._seen:
            return self._text, []
        parts = {
            "env": {} if environ == self._untold else self._changes(),
            "options": self._settings,
            "extensions": sorted(seen[2]),
            "reloaded": seen[3],
            "autoreload": seen[4],
        }
        parts = {name: part for name, part in parts.items() if part}
        text = json.dumps(parts, sort_keys=True) if parts else ""
        if len(text) > LARGEST:
            return self._text, [f"the changes of home's environment and options have over {LARGEST >> 20} MiB: ranks don't get them"]
        self._seen, self._text = seen, text
        return text, []

    def _changes(self):
        """{name: value} of what was set since home started, with None for what was deleted."""
        now = dict(os.environ)
        names = {name for name in {*self._began, *now} if self._began.get(name) != now.get(name)}
        return {name: now.get(name) for name in names if not name.startswith("CELLSPAN_")}

    def _options(self):
        """What IPython's files, the kernel's arguments and %config have set, {class: {trait: value}}; the same object
        until that changes."""
        parts = self._shell.configurables
        configs = [part.config for part in parts]
        if len(configs) != len(self._configs) or any(a is not b for a, b in zip(configs, self._configs)):
            self._configs, self._settings = configs, {}
            self._add(self._shell.config)
            for part, config in zip(parts, configs):  # %config tells the part that it is about, and no other
                self._add({kind.__name__: config[kind.__name__] for kind in type(part).__mro__ if kind.__name__ in config})
        return self._settings

    def _add(self, config):
        for section, traits in config.items():
            if isinstance(traits, dict) and not section.endswith(HOMES_OWN):
                self._settings.setdefault(section, {}).update(_plain(traits))


def _plain(traits):
    """Those of a section's traits that JSON can hold."""
    found = {}
    for name, value in traits.items():
        value = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        found[name] = {TEXT: value} if type(value).__name__.startswith("Deferred") else value
    return found


def _deferred(value):
    """A setting that is read as its trait wants it: text, or a list of texts."""
    from traitlets.config.loader import DeferredConfigList, DeferredConfigString

    return DeferredConfigString(value) if isinstance(value, str) else DeferredConfigList(value)


class Follower:
    """A rank's side. What home does not say any more goes back to what it was here."""

    def __init__(self, fixed, shell):
        """fixed: names of the environment that are this rank's own. shell: None where only the environment counts."""
        self._fixed = {*fixed, "CUDA_VISIBLE_DEVICES"}
        self._shell = shell
        self._followed = {}  # the environment that home said last
        self._before = {}  # what stood there before home said anything
        self._options = {}
        self._extensions = set()
        self._reloaded = {}
        self._autoreload = None
        self._failed = []  # lines for the user, with the next cell

    def take(self, text, near, world):
        """Follows what home says. world: what the environment of the last cell's world goes back to, {name: text or None};
        names in it change there, since the next cell puts them in place. Raises what modules that are loaded again raise."""
        said = json.loads(text) if text else {}
        self._autoreload = said.get("autoreload")
        self._take_environment({name: value for name, value in said.get("env", {}).items() if self._is_ours(name, near)}, world)
        if self._shell is None:
            return
        self._take_options(said.get("options", {}))
        self._take_extensions(set(said.get("extensions", ())))
        before, self._reloaded = self._reloaded, said.get("reloaded", {})
        reloads.imported.follow([name for name, times in self._reloaded.items() if before.get(name, 0) < times])

    def before_cell(self, leads):
        """Modules whose files have changed are loaded again, or spoken of. leads: this rank speaks for its node."""
        if self._shell is None:
            return
        lines, self._failed = self._failed, []
        if self._autoreload is not None:
            lines += reloads.imported.look(self._autoreload, self._shell)
        elif leads:
            lines += reloads.imported.unsaid()
        for line in lines:
            print(f"cellspan: {line}", file=sys.stderr)

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
        except BaseException as error:  # noqa: BLE001 - the cell may not need it, and SystemExit ends no rank
            self._failed.append(f"{what} on ranks: {in_words(error)}")
