# SPDX-License-Identifier: BSD-3-Clause
"""Processes that a rank starts on another machine find the notebook's modules, too. They must not use the rank's connection, so they ask
the rank by a unix socket, on which a thread of the rank listens.

A fork has the rank's finders. A new Python, such as multiprocessing's "spawn" starts, gets them by a sitecustomize.py, whose folder stands
in PYTHONPATH; that runs the user's own sitecustomize afterwards. A rank's folder has what such a process needs:

    sitecustomize.py
    listing.json    the part "code" of FOLLOW, as the rank has it
    ask             the socket: a question is {"name", "roots", "digest", "home"} or {"folders"} as JSON in a line, the answer {"entry"} or
                    {"error"}
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

from .entries import Entries, Unavailable, changed_in_place, fits, key_of, write_file
from .finders import Project, install

WAIT_S = 60.0  # seconds for an answer; the rank waits for home at most 10
LINE_MAX = 1 << 20
SITE = '''# Written by cellspan, for processes that a rank starts.
import sys


def begin():
    kept = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, {own!r})  # another version may be there
    sys.dont_write_bytecode = True
    try:
        from cellspan._code.children import begin
        begin({folder!r}, {code!r}, {began!r})
    except Exception:
        pass
    finally:
        sys.path[:], sys.dont_write_bytecode = kept


def run_own():
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.path[:] = [path for path in sys.path if path != {folder!r}]
if sys.version_info[:2] == {version!r}:
    begin()
run_own()
'''


# ---- in the rank -----------------------------------------------------------------------------------------------------


class Site:
    """A rank's folder for its children."""

    def __init__(self, folder, code):
        """code: the agent's code folder."""
        self.folder, self._text = folder, None
        os.makedirs(folder, mode=0o700, exist_ok=True)
        own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self._put("sitecustomize.py", SITE.format(own=own, folder=folder, code=code, began=sys.path, version=tuple(sys.version_info[:2])))

    def _put(self, name, text):
        write_file(os.path.join(self.folder, name), text.encode("utf-8", "surrogateescape"))

    def take(self, listing):
        """What children find from now on; None: nothing."""
        text = json.dumps(listing)
        if text != self._text:
            self._put("listing.json", text)
            self._text = text
        others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != self.folder]
        if listing is not None:
            others.insert(0, self.folder)
        if others:
            os.environ["PYTHONPATH"] = os.pathsep.join(others)
        else:
            os.environ.pop("PYTHONPATH", None)

    def listen(self):
        """The socket, bound. Its path may be too long for the system; that of its folder's descriptor is not."""
        import socket

        made = socket.socket(socket.AF_UNIX)
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(FileNotFoundError):  # of an earlier process with this number
                os.unlink("ask", dir_fd=fd)
            made.bind(f"/proc/self/fd/{fd}/ask")
        finally:
            os.close(fd)
        made.listen(64)
        return made


def serve(listening, bring, find_folder, is_on):
    """Answers children; runs in a thread. bring, find_folder: as Tree's. is_on(): may this rank have home's modules now?"""
    while True:
        try:
            one, _ = listening.accept()
        except OSError:
            return
        with one:
            try:
                one.settimeout(WAIT_S)
                asked = json.loads(_line(one))
                if not is_on():
                    raise Unavailable("--no-code keeps the modules at home in this cell; leave it out to have them here")
                entry = find_folder(asked["folders"]) if "folders" in asked else bring(*(asked[part] for part in ("name", "roots", "digest", "home")), True)
                one.sendall(_packed({"entry": entry}))
            except Exception as error:  # noqa: BLE001 - the next one needs an answer, too
                try:
                    one.sendall(_packed({"error": str(error)}))
                except OSError:
                    pass


def _packed(value):
    return json.dumps(value).encode() + b"\n"


def _line(connection):
    with connection.makefile("rb") as stream:
        return stream.readline(LINE_MAX << 6)


# ---- in a child ------------------------------------------------------------------------------------------------------


def ask(folder, question):
    """The rank with this folder answers it."""
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(WAIT_S)
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                made.connect(f"/proc/self/fd/{fd}/ask")
            finally:
                os.close(fd)
            made.sendall(_packed(question))
            said = json.loads(_line(made) or "{}")
        except (OSError, ValueError):
            raise Unavailable("the rank that began this process has ended or does not answer: run the cell again") from None
    if "error" in said:
        raise Unavailable(said["error"])
    return said.get("entry")


def known_or_asked(entries, folder):
    """A function as Tree.bring(), for a process that is not the rank."""

    def bring(name, roots, digest, home):
        entry = entries.get(key_of(name, roots))
        if fits(entry, digest, home) and not changed_in_place(entry):
            return entry
        return ask(folder, {"name": name, "roots": list(roots), "digest": digest, "home": home})

    return bring


def folders_asked(folder):
    """A function as Tree.find_folder(), for a process that is not the rank."""
    return lambda folders: ask(folder, {"folders": list(folders)}) or {}


def follower(folder, project):
    """A function that takes the listing of the rank with this folder if that has changed."""
    path, seen = os.path.join(folder, "listing.json"), []

    def update():
        project.forget_absent()  # the rank knows what home did not have
        try:
            now = os.stat(path)
            stamp = [now.st_ino, now.st_mtime_ns]
            if stamp == seen:
                return
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                listing = json.load(file)
        except OSError:  # the rank has ended
            return
        seen[:] = stamp
        project.take(listing)
        importlib.invalidate_caches()

    return update


def begin(folder, code, began):
    """In a new Python: it finds what the rank with this folder finds. began: sys.path with which that rank has begun."""
    project = Project(os.path.join(code, "tree"), known_or_asked(Entries(code), folder), folders_asked(folder), began)
    project.update = follower(folder, project)
    project.update()
    install(project)
