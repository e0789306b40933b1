# SPDX-License-Identifier: BSD-3-Clause
"""The user's settings for IPython, and what runs before the first cell: as IPython's application for kernels does it."""

from __future__ import annotations

import ast
import os
import sys

from traitlets.config import Config

from .._base.errors import attempt
from . import environment

CONNECTION = "CELLSPAN_CONNECTION_FILE"  # kernel/kernel.h
DEFAULT_EXTENSIONS = ("storemagic",)  # of InteractiveShellApp


def shell_config(role):
    """The user's settings for IPython kernels: ipython_config.py and ipython_kernel_config.py, if they exist. Ranks
    get home's settings; see follow.py."""
    config = Config()
    config.InteractiveShell.colors = "neutral" if _modern() else "Neutral"
    if role != "home":
        return config
    config.IPKernelApp.connection_file = os.environ.get(CONNECTION, "")  # tqdm and others look for the section's name
    for directory in (*reversed(_shared_directories()), profile_directory()):
        for name in ("ipython_config.py", "ipython_kernel_config.py"):
            if os.path.isfile(os.path.join(directory, name)):
                config.merge(_load(name, directory))
    _add_traits(config, environment.traits)
    return config


def _add_traits(config, given):
    """Adds the settings of the kernel's command line, which override the files: `--Class.trait=value`, or the value as the next
    argument. A trait that is given several times is a list."""
    from traitlets.config.loader import DeferredConfigList, DeferredConfigString

    rest, values = list(given), {}
    while rest:
        name, equals, value = rest.pop(0)[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "True"
        values.setdefault(name, []).append(value)
    for name, texts in values.items():
        *sections, trait = name.split(".")
        if not all(part.isidentifier() for part in (*sections, trait)):
            print(f"--{name}: no setting of IPython's, ignored; --Class.trait=value is one", file=sys.stderr)
            continue
        there = config
        for section in sections:
            there = there[section]
        there[trait] = DeferredConfigString(texts[0]) if len(texts) == 1 else DeferredConfigList(texts)


def profile_directory():
    """The folder of IPython's default profile."""
    base = os.environ.get("IPYTHONDIR") or os.path.join(os.path.expanduser("~"), ".ipython")
    return os.path.join(base, "profile_default")


def _shared_directories():
    """Where settings for all users of this Python or machine are. The first ones count more."""
    own = os.path.join(sys.prefix, "etc", "ipython")
    return [own, *(path for path in ("/usr/local/etc/ipython", "/etc/ipython") if path != own)]


def _modern():
    from IPython.core import release

    return release.version_info[0] >= 9


def _load(name, directory):
    from traitlets.config.loader import PyFileConfigLoader

    return attempt(os.path.join(directory, name), PyFileConfigLoader(name, path=directory).load_config) or Config()


def run_startup(shell):
    """Runs the start-up of the profile, in IPython's order: matplotlib, extensions, the files of the startup folders, exec_lines,
    exec_files. %who does not show what they bind."""
    _enable_matplotlib(shell)
    for extension in (*DEFAULT_EXTENSIONS, *_startup_list(shell, "extensions"), *_startup_list(shell, "extra_extensions")):
        attempt(f"%load_ext {extension}", shell.extension_manager.load_extension, extension)
    files = []
    for folder in (profile_directory(), *_shared_directories()):
        folder = os.path.join(folder, "startup")
        if os.path.isdir(folder):
            files += [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith((".py", ".ipy"))]
    first = [os.environ.get("PYTHONSTARTUP", "")] if _is_on(shell, "exec_PYTHONSTARTUP") else []
    for path in (*first, *sorted(files)):
        if path and os.path.isfile(path):
            _run_file(shell, path)
    for line in _startup_list(shell, "exec_lines"):
        attempt(line, lambda text=line: shell.run_cell(text, store_history=False))
    for name in _startup_list(shell, "exec_files"):
        path = os.path.expanduser(str(name))
        places = (path, os.path.join(os.path.dirname(profile_directory()), path))  # the same places as in IPython
        found = next((place for place in places if os.path.isfile(place)), None)
        if found:
            _run_file(shell, found)
        else:
            print(f"exec_files: there is no {' or '.join(places)}", file=sys.stderr)
    if _is_on(shell, "hide_initial_ns"):
        shell.user_ns_hidden.update(shell.user_ns)


def _enable_matplotlib(shell):
    """The first of these settings that is there: --pylab=inline, --matplotlib=inline, --gui=asyncio."""
    for name, enable in (("pylab", shell.enable_pylab), ("matplotlib", shell.enable_matplotlib), ("gui", shell.enable_gui)):
        value = _setting(shell, name)
        if value:
            attempt(f"c.InteractiveShellApp.{name} = {str(value)!r}", enable, str(value))
            return


def _run_file(shell, path):
    if path.endswith((".ipy", ".ipynb")):
        attempt(path, shell.safe_execfile_ipy, path)
    else:
        attempt(path, shell.safe_execfile, path, shell.user_ns)


def _setting(shell, name, otherwise=None):
    """A setting of the application."""
    return {**shell.config.get("InteractiveShellApp", {}), **shell.config.get("IPKernelApp", {})}.get(name, otherwise)


def _is_on(shell, name):
    """Is a setting on that is on by default?"""
    return str(_setting(shell, name, True)).lower() not in ("false", "0")


def _startup_list(shell, name):
    """A list setting of the application. On the command line it is the text of a Python list, or a single line."""
    value = _setting(shell, name, [])
    if not isinstance(value, str):
        return attempt(f"c.InteractiveShellApp.{name} is a list", list, value) or []
    try:
        listed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        listed = None
    return list(listed) if isinstance(listed, (list, tuple)) else [str(value)]
