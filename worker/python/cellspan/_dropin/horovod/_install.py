# SPDX-License-Identifier: BSD-3-Clause
"""install(): horovod and sparkdl as names of our modules."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys

from .._dropin_api import setting, when_imported
from . import _refused

OURS = "cellspan.horovod"
TORCH = f"{OURS}.torch"
MODULES = {  # the name of a module: ours in its place
    "horovod.torch": TORCH,
    "horovod.torch.compression": TORCH,
    "horovod.torch.functions": TORCH,
    "horovod.torch.mpi_ops": TORCH,
    "horovod.torch.optimizer": TORCH,
    "horovod.torch.sync_batch_norm": TORCH,
    "horovod.torch.elastic": f"{TORCH}.elastic",
    "horovod.common.exceptions": TORCH,
}
PACKAGES = {  # packages that only exist for these names: the names in them that are ours
    "horovod": (),
    "horovod.common": (),
    "sparkdl": ("HorovodRunner",),
    "sparkdl.horovod": ("HorovodRunner", "log_to_driver"),
}

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def real():
    """Does the user want the real Horovod?"""
    choice = setting("CELLSPAN_HOROVOD")
    if choice not in ("", "none", "real"):
        raise ValueError(f"CELLSPAN_HOROVOD={choice!r}: the values are none and real")
    return choice == "real"


class _Finder:
    """An entry of sys.meta_path, which is also the loader of what it finds."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in ("horovod", "sparkdl"):
            return None
        if name in PACKAGES or name in MODULES:
            return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)
        text = f"cellspan.horovod has no {name}: docs/names.md lists what it has"
        raise _refused.missing(name) or ModuleNotFoundError(text, name=name)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        if name in MODULES:  # Python's import takes what sys.modules has now
            sys.modules[name] = importlib.import_module(MODULES[name])
            return
        ours = sys.modules[OURS]
        module.__doc__ = f"{name}, as cellspan.horovod.install() has it."
        module.__dict__.update({one: getattr(ours, one) for one in PACKAGES[name]})
        if name == "horovod":
            module.run = _refused.function("run")


class _Refusing:
    """The last entry of sys.meta_path: refuses the parts of Horovod that are not there, below the name cellspan.horovod."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith(f"{OURS}."):
            error = _refused.missing(name.removeprefix(f"{OURS}."))
            if error is not None:
                raise error
        return None


if _Refusing not in sys.meta_path:
    sys.meta_path.append(_Refusing)


def installed():
    """Has install() been called here?"""
    return _Finder in sys.meta_path


def hook():
    """Puts our modules in the place of horovod and sparkdl, and "horovod" among Lightning's strategies, in this process."""
    if installed():
        return
    for name in [name for name in sys.modules if name.partition(".")[0] in ("horovod", "sparkdl")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder)
    for package in LIGHTNING:
        when_imported(f"{package}.strategies", lambda package=package: _register(package))


def _register(package):
    from . import _lightning

    _lightning.register(sys.modules[f"{package}.strategies"], package)


def install():
    """After this, `import horovod.torch as hvd` and `from sparkdl import HorovodRunner` find cellspan's modules, at home and on all
    ranks, and Lightning 2 has strategy="horovod". With CELLSPAN_HOROVOD=real in the environment, the real Horovod is used instead.

    ModuleNotFoundError: the real Horovod is wanted and is not there.
    """
    if real():
        if importlib.util.find_spec("horovod") is None:
            raise ModuleNotFoundError("CELLSPAN_HOROVOD=real, and horovod is not installed: pip install horovod[pytorch]", name="horovod")
        return
    hook()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    manager = getattr(shell, "extension_manager", None)
    if manager is not None and OURS not in manager.loaded:
        manager.load_extension(OURS)  # ranks load the extensions that home has loaded


def load_ipython_extension(shell):
    """For %load_ext cellspan.horovod."""
    if not real():
        hook()


def unload_ipython_extension(shell):
    """Gives the names back."""
    if installed():
        sys.meta_path.remove(_Finder)
        for name in [name for name in sys.modules if name in MODULES or name in PACKAGES]:
            del sys.modules[name]
