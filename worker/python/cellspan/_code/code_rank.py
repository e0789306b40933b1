# SPDX-License-Identifier: BSD-3-Clause
"""A rank on another machine than home: the notebook's modules and files come here, before a cell or when it imports them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
import platform
import re
import shlex
import socket  # noqa: F401 - children.py needs it where nothing may be imported
import sys
from importlib import machinery

from .. import _link
from .._base import threads
from .._base.errors import text_of
from .._base.modules import names_of
from . import children, finders, package_versions
from .entries import MAIN, UNKNOWN, Late, Refused, Unavailable, key_of, new_name, remove_abandoned, write_file
from .tree import Tree, hash_of

NOT_FOUND = re.compile(r"File `'(.+)'` not found\.")  # what %run says
LACKS = re.compile(r"(?:partially initialized )?module '([\w.]+)' has no attribute")
RUNS_SCRIPTS = re.compile(r"python[\d.]*\Z|(ba)?sh\Z|torchrun\Z")  # programs
OF_THE_SYSTEM = ("/dev/", "/proc/", "/sys/", "/run/", "/tmp/")


def _find(what, content):
    try:
        return _link.find(what, content)
    except _link.LinkDead:
        raise Unavailable("the kernel has ended") from None


def _target(path, entry):
    """Where a file of home belongs in the ranks' folder."""
    return os.path.join(os.getcwd(), os.path.relpath(path, entry["roots"][0]))


def _at_home(target, entry):
    """Where home has, or had, a file of the ranks' folder."""
    return os.path.join(entry["roots"][0], os.path.relpath(target))


def _hash_here(path):
    """A file's hash; None: there is none."""
    try:
        return hash_of(path)
    except FileNotFoundError:
        return None


def _state(target):
    """Is another one when somebody has written the file; None: it is not there."""
    with contextlib.suppress(OSError):
        found = os.stat(target)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


class RankCode:
    """Make it when home sends the first listing."""

    def __init__(self, folder, find=_find):
        """folder: the rank's own, in the agent's."""
        self._pid, self._host = os.getpid(), platform.node()
        self._tree = Tree(os.path.join(os.path.realpath(os.path.dirname(folder)), "code"), find, self._host)
        self._site = children.Site(os.path.join(folder, "code"), self._tree.folder)
        self._asked = children.known_or_asked(self._tree.entries, self._site.folder)
        self._asked_for_folders = children.folders_asked(self._site.folder)
        self._project = finders.Project(self._tree.root, self._bring, self._find_folder, sys.path)
        self._with, self._versions, self._paths = {}, {}, {}
        self._placed = {}  # {what a --with names: {file: (hash, state)}}, as this process has left them
        self._notes = {}  # {path of a note: its text}, of this process
        self._script = None  # where home has the script that this rank runs
        self._unneeded = ()  # names that the cell does not mention
        self._home = None  # home's process whose listing has been followed
        self._to_ask = {}  # {key that home has listed and no longer lists: may it still have that, since it looks from elsewhere now?}
        self._took = False  # a listing for the cell that begins
        self._in_vain = set()  # {(name, digest)} of what could not be brought
        self._others = ()  # names that home, too, has imported from elsewhere
        self._elsewhere = {}  # {name that this rank has imported from elsewhere: where that is}, to be told
        self._lines = []
        self._runs = False
        self._stamp = None
        self._files_now = None, {}  # what file_now() has found, and for which entries
        os.register_at_fork(after_in_child=self._forked)
        finders.install(self._project)
        threads.begin("code", children.serve, self._site.listen(), self._tree.bring, self._tree.find_folder, lambda: self._project.on)

    def _forked(self):
        self._project.update = children.follower(self._site.folder, self._project)

    def take(self, listing):
        """listing: the part "code" of FOLLOW; None: home's code stays at home. Brings what the cell is likely to import."""
        self._runs = False
        if self._project.on and not self._project.incomplete:
            self._to_ask = {**dict.fromkeys(self._project.keys(), False), **self._to_ask}
        seen_from = self._project.seen_from()
        self._project.take(listing)
        if self._project.seen_from() != seen_from:
            self._to_ask = dict.fromkeys(self._to_ask, True)
        self._tree.cell_begins(None)
        self._site.take(listing)
        self._with, self._versions, self._paths = ((listing or {}).get(part) or {} for part in ("with", "versions", "paths"))
        self._script = (listing or {}).get("script")
        if listing is None:
            return
        self._unneeded, self._others = listing.get("unneeded", ()), listing.get("others", ())
        self._bring_listed()
        self._ask_about()  # after it: a file that a name has by other folders now stays where it is
        self._took = True

    def _to_follow(self):
        """[(name, its folders or (), digest)] of what home has named, and of what this rank has imported before home's process was another one.
        Without folders: it is what home lists by this name."""
        project, entries = self._project, self._tree.entries.all()
        found = {name: ((), digest) for name, digest in project.digests.items()}
        new = [(name, (folder,), digest) for name, folder, digest in project.added.digests() if key_of(name, (folder,)) in entries]
        if self._home != project.home:
            listed = project.keys()
            for key, entry in entries.items():
                name, *roots = key.split("\n")
                if name not in sys.modules or entry["home"] == project.home:
                    continue
                if list(project.roots(name)) == roots:
                    found.setdefault(name, ((), ""))
                elif key not in listed and len(roots) == 1:
                    new.append((name, tuple(roots), ""))
        return [(name, *row) for name, row in found.items()] + new

    def _follow(self, name, roots, digest):
        project = self._project
        if roots:
            self._tree.bring(name, roots, digest, project.home, keep=key_of(name, roots) not in project.keys())
        else:
            entry = project.entry(name)
            project.renew(name)
            self._say_other(name, entry)

    def _ask_about(self):
        """Names that home no longer lists, until it has answered. What home still has stays here: modules that ranks have imported look for files
        beside themselves. From then on home tells of its changes. Another process of home, and one that has gone to another folder, does not
        list all that it has."""
        if self._project.incomplete or not self._to_ask:
            return
        listed = self._project.keys()
        for key, elsewhere in list(self._to_ask.items()):
            name, *roots = key.split("\n")
            try:
                if key in listed:
                    pass
                elif not elsewhere and self._project.roots(name):
                    self._tree.drop([key])
                elif self._tree.entries.get(key) is not None and (not elsewhere or (len(roots) == 1 and name in sys.modules)):
                    self._tree.bring(name, roots, UNKNOWN, self._project.home, keep=elsewhere)
            except (Late, OSError):  # the others would wait as long, or fail for the same reason: with the next cell
                return
            except Unavailable:
                pass
            del self._to_ask[key]

    def _bring_listed(self):
        followed = self._project.home
        self._home, to_follow = None, self._to_follow()  # an interrupt leaves it so
        for name, roots, digest in to_follow:
            if name not in sys.modules and ((name, digest) in self._in_vain or name in self._unneeded):  # its import tries it again
                continue
            try:
                self._follow(name, roots, digest)
            except Unavailable as error:
                if name in sys.modules:
                    self._lines.append(f"{name} on {self._host} may be older than the notebook's: {error}")
                    followed = None  # it is asked for again
                if isinstance(error, Late):
                    return  # the others would wait as long
                self._in_vain.add((name, digest))
        self._home = followed

    def script(self, named):
        """(the script's file on this machine, or its folder, if that is the script; the folder for sys.path); None: home has none, or it can't
        come. named: as the user has named it, which may be the same file here."""
        if self._script is None or named == "-m":
            return None
        path, folder = self._script["path"], self._script["folder"]
        try:
            entry = self._tree.bring_with(path, self._script["digest"])
        except Unavailable:
            return None
        if entry is None:
            return None
        came, own = self._project.place(path, entry), os.path.abspath(named)
        is_folder = os.path.basename(path) == MAIN != os.path.basename(own)
        own = os.path.join(own, MAIN) if is_folder else own
        came_as = os.path.dirname(came) if is_folder else came
        if os.path.isfile(own):
            if os.path.samefile(own, came):
                came_as = named
            elif hash_of(own) != entry["files"][0][2] and self._tree.first(f"other {own}"):
                print(f"cellspan: {own} on {self._host} is not the notebook's file: the ranks there use the notebook's", file=sys.stderr)
        return came_as, self._project.place(folder, entry)

    def _say_other(self, name, entry):
        """Notes a module that the rank has already from elsewhere, such as one of Python's own. Home may have it from there, too."""
        path = names_of(sys.modules.get(name)).get("__file__")
        if entry is None or not isinstance(path, str) or finders.home_path(path).startswith(tuple(os.path.join(root, "") for root in entry["roots"])):
            return
        if name not in self._project.redirects and name not in self._others and self._tree.first(f"loaded {name} {path}"):
            self._elsewhere[name] = path

    def before_cell(self, cell=None):
        """In the ranks' folder, before a cell begins: places the files of --with, and returns lines for the user. cell: its number. Raises
        Refused."""
        self._project.cell_begins()
        self._tree.cell_begins(cell)
        self._refresh_in_place()
        if self._home is None and self._project.on and not self._lines:  # home sends a listing only when it has changed
            self._bring_listed()
        if self._project.on and not self._took:
            self._ask_about()
        self._took = False
        for path, digest in self._with.items():
            self._place(path, digest)
        for module, version in self._versions.items():
            if self._tree.first(f"version {module} {version}"):
                self._lines += package_versions.compared({module: version}, self._host)
        lines, self._lines = [*self._lines, *self._about_others(), *self._tree.lines()], []
        self._runs = True
        return lines

    def _refresh_in_place(self):
        for name, error in self._tree.refresh_in_place(self._project.home) if self._project.on else ():
            self._lines.append(f"{name} on {self._host} may be older than the notebook's: {error}")
            if isinstance(error, Late):
                break  # the others would wait as long

    def _about_others(self):
        """A line about the modules that the rank has from elsewhere. It names no machine, so that one line is left of those of many."""
        found, self._elsewhere = self._elsewhere, {}
        if not found:
            return []
        names, paths, many = ", ".join(found), ", ".join(found.values()), len(found) > 1
        what = "are not imported on ranks: other modules of these names are" if many else f"is not imported on ranks: another module {names} is"
        return [f"the notebook's {names} {what} loaded there already ({paths}). Rename the {'files' if many else 'file'}, or, if "
                f"{'those are' if many else 'that one is'} not wanted, %ranks restart"]

    def is_homes(self, path):
        """Has this file come from home, or is it used in place of home's?"""
        return finders.home_path(path) != path or any(row[0] == path for entry in self._tree.entries.all().values() if entry["here"] for row in entry["files"])

    def file_now(self, path):
        """The file that an import of this one would read now: a file that was used in place may come from home meanwhile, and the other way
        round."""
        stamp, known = self._files_now
        if stamp != self._tree.entries.stamp:
            stamp, known = self._files_now = self._tree.entries.stamp, {}
        if path not in known:
            known[path] = self._file_now(path)
        return known[path]

    def _file_now(self, path):
        if path.startswith(self._tree.root + os.sep):
            return path if os.path.exists(path) or not self.is_homes(finders.home_path(path)) else finders.home_path(path)
        return finders.path_here(path)

    def may_have(self, name):
        """Does home list this module, or does its list not tell?"""
        top = name.partition(".")[0]
        return self._project.on and (self._project.incomplete or bool(self._project.roots(top)))

    def _bring(self, name, roots, digest, home):
        if os.getpid() != self._pid:
            return self._asked(name, roots, digest, home)
        entry = self._tree.bring(name, roots, digest, home, self._runs)
        if self._tree.entries.stamp != self._stamp:  # other ranks bring files, too
            self._stamp = self._tree.entries.stamp
            importlib.invalidate_caches()
        for line in self._tree.lines() if self._runs else ():
            print(f"cellspan: {line}", file=sys.stderr)
        return entry

    def _find_folder(self, folders):
        return self._tree.find_folder(folders) if os.getpid() == self._pid else self._asked_for_folders(folders)

    # ---- --with ------------------------------------------------------------------------------------------------------

    def _place(self, path, digest):
        """Copies a file, or those of a folder, into the ranks' folder. A file of somebody else is not replaced."""
        try:
            entry = self._tree.bring_with(path, digest)
        except Unavailable as error:
            raise Refused(f"--with {path}: {error}") from None
        if entry is None:
            raise Refused(f"--with {path}: the notebook has no such file or folder: name one of the notebook's machine")
        targets = {_target(row[0], entry): row for row in entry["files"]}
        key = path, os.getcwd(), entry["roots"][0]
        if self._placed.get(key) == {target: (row[2], _state(target)) for target, row in targets.items()}:
            return
        try:
            with self._tree.locked():
                self._place_all(key, targets, entry)
                self._placed[key] = {target: (row[2], _state(target)) for target, row in targets.items()}
        except Unavailable as error:
            raise Refused(f"--with {path}: {error}") from None
        except OSError as error:
            where = error.filename or os.getcwd()
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and not os.path.lexists(where):  # it could not be made
                raise Refused(f"--with {path}: no file can be made in {os.path.dirname(where)} on {self._host} ({error.strerror}): name another "
                              "folder by --cwd") from None
            raise Refused(f"--with {path}: {where} on {self._host}: {error.strerror}") from None

    def _place_all(self, key, targets, entry):
        note = self._path_of_note("\0".join(key))
        listed, here = self._listed(note), {target: _hash_here(target) for target in targets}
        others = {target: row for target, row in targets.items() if here[target] != row[2]}
        gone = listed - targets.keys()  # home has them no more
        homes = self._homes_own({os.path.dirname(target): os.path.dirname(row[0]) for target, row in others.items()},
                                {os.path.dirname(target): os.path.dirname(_at_home(target, entry)) for target in gone})
        for target in gone:
            if os.path.dirname(target) not in homes:
                self._remove(target)
        own = {target for target in listed & targets.keys() if os.path.dirname(target) not in homes}
        try:
            for folder in entry["empty"]:
                os.makedirs(_target(folder, entry), exist_ok=True)
            for target, row in targets.items():
                if os.path.dirname(target) not in homes and self._copy(target, row, here[target], self._project.place(row[0], entry)):
                    own.add(target)
        finally:
            if own != listed:
                self._note(note, json.dumps(sorted(own)))

    def _homes_own(self, written, cleared):
        """Those of these folders, {folder here: home's}, that are home's own, as on a shared file system, under the same path or another
        one: a new file in it is seen at home, too. This machine may see home's files in it as they were before. Nothing of home's own may
        be written or removed. cleared: folders in which files are only removed."""
        made, homes = {}, set()
        try:
            for folder, at_home in {**cleared, **written}.items():
                path = os.path.join(folder, new_name())
                try:
                    if folder in written:
                        os.makedirs(folder, exist_ok=True)
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                    made[path] = at_home
                    remove_abandoned(path)
                except OSError:
                    if folder in written:
                        raise
                    homes.add(folder)  # nothing can be removed there
            seen = self._tree.seen_at_home([(at_home, os.path.basename(path)) for path, at_home in made.items()]) if made else ()
            return homes | {os.path.dirname(path) for path, is_seen in zip(made, seen) if is_seen}
        finally:
            for path in made:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _listed(self, note):
        """The files that a --with has brought, and that ranks have not had from elsewhere."""
        try:
            return set(json.loads(self._noted(note) or "[]"))
        except (ValueError, TypeError):
            return set()

    def _copy(self, target, row, now, source):
        """Has it written the file? now: the hash of what is there, or None."""
        if now is not None:
            before = self._recorded(target)
            if row[2] in (now, before):  # what came before may have been changed here
                if now == row[2] != before:
                    self._note(self._path_of_note(target), now)
                return False
            if now != before:
                raise Refused(f"--with: {target} on {self._host} is another file, which is not replaced: rename it there, or name another folder "
                              "by --cwd")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            write_file(target, file, 0o755 if row[3] & 0o100 else 0o644)
        self._note(self._path_of_note(target), row[2])
        return True

    def _remove(self, target):
        with contextlib.suppress(OSError):
            if hash_of(target) == self._recorded(target):
                os.unlink(target)

    def _recorded(self, target):
        """The hash of what was placed there."""
        return self._noted(self._path_of_note(target))

    def _path_of_note(self, about):
        """The file of a note. It outlives this run, as what was placed does."""
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return os.path.join(cache, "cellspan-placed", hashlib.sha256(os.fsencode(f"{self._host}:{about}")).hexdigest())

    def _noted(self, path):
        with contextlib.suppress(OSError):
            with open(path, encoding="ascii") as file:
                return file.read()
        return self._notes.get(path)

    def _note(self, path, text):
        self._notes[path] = text
        with contextlib.suppress(OSError):  # without it, the next run does not replace or remove the file
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_file(path, text.encode(), 0o600)

    # ---- errors ------------------------------------------------------------------------------------------------------

    with_home_paths = staticmethod(finders.with_home_paths)

    def hints(self, error):
        """Lines below an error that has its cause in what this machine lacks."""
        if not self._project.on:
            return []
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
            return self._about_file(error.filename)
        unfound = NOT_FOUND.match(text_of(error)) if type(error) is Exception else None
        if unfound:
            return self._about_file(unfound.group(1))
        if isinstance(error, ImportError) and isinstance(error.name, str):
            return [*self._about_module(error.name, text_of(error)), *self._about_version(error.name)]
        lacking = LACKS.match(text_of(error)) if type(error) is AttributeError else None
        return self._about_version(lacking.group(1)) if lacking else []

    def command_hints(self, command):
        """Lines below a shell command that has failed, perhaps because its script is not here."""
        try:
            words = shlex.split(command)
        except ValueError:
            return []
        if not self._project.on or not words or not RUNS_SCRIPTS.match(os.path.basename(words[0])):
            return []
        script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), "")
        return self._about_file(script) if script and not os.path.exists(script) else []

    def _about_file(self, path):
        path = os.path.normpath(path)
        home = finders.home_path(path)  # what a module looks for beside its own file
        for entry in self._tree.entries.all().values():
            for left, _, why in entry["left"]:
                if home == left or home.startswith(os.path.join(left, "")):
                    return [f"{home} was not sent to {self._host}: {why}. --with {home} sends it"]
        if home == path and path.startswith(OF_THE_SYSTEM) or not self._is_at_home(home):
            return []
        if home != path:
            return [f"{home} is not on {self._host}: --with {home} on the cell's first line brings the notebook's"]
        line = f"{path} is not on {self._host}: --with {path} on the cell's first line brings the notebook's"
        return [line if not os.path.isabs(path) else f"{line} into the ranks' folder, as {os.path.basename(path)}"]

    def _is_at_home(self, path):
        try:
            return self._tree.is_at_home(path)
        except (Unavailable, ValueError):  # what home does not know, it does not have
            return False

    def _about_version(self, name):
        """Where the two versions are of a package that lacks something here: which one is wrong is the user's to say."""
        top = name.partition(".")[0]
        path, here = names_of(sys.modules.get(top)).get("__file__"), package_versions.of(top)
        there = self._versions.get(top)
        if not there or not here or here == there or not isinstance(path, str):
            return []
        return [f"{top} is version {here} on {self._host} ({path}), and {there} on the notebook's machine ({self._paths.get(top)})"]

    def _about_module(self, name, text):
        parent, _, child = name.rpartition(".")
        top = name.partition(".")[0]
        version = self._versions.get(top)
        if version and not package_versions.is_there(top):
            return [f"{top} {version} is installed on the notebook's machine, but not on {self._host}"]
        entry = self._tree.entries.get(key_of(top, self._project.roots(top)))
        stem = os.sep + name.replace(".", os.sep)
        fitting = tuple(stem + suffix for suffix in machinery.EXTENSION_SUFFIXES)
        for path in (row[0] for row in entry["files"]) if entry else ():
            if path.endswith(".so") and stem + "." in path and not path.endswith(fitting):
                python = ".".join(map(str, sys.version_info[:2]))
                return [f"{path} was compiled for another Python or machine: {self._host} has Python {python} on {platform.machine()}"]
        names = names_of(sys.modules.get(parent)) if child and text.startswith("No module named") else {}
        path = names.get("__path__")
        folders = [folder for folder in (getattr(path, "_path", path) or ()) if isinstance(folder, str)]
        there = "".join(f" on {self._host}" for folder in folders[:1] if not self.is_homes(folder))
        return [f"{' and '.join(map(finders.home_path, folders))}{there} has no {child}"] if folders else []
