# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the notebook's own modules: the part "code" of FOLLOW, and the answers to what ranks ask.

A thread answers, also while a cell runs or waits for its ranks. A rank asks while it imports something, so home must neither import to
answer nor take a lock of imports, or both would wait for each other: all that this needs is imported when it is loaded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import sys
import threading

from .._base.modules import names_of
from .._capture import class_versions
from .._capture.vars_bundle import human
from . import distributions, package_versions
from .changes import Changes
from .editables import redirected
from .entries import MAIN, NEW
from .listing import Lister, absolute, archive_of, is_foreign, is_installed, is_text
from .manifest import SCANNED, Changing, Hashes, Unsendable, imports_in, is_code, of_path, of_places, scan

KEPT = 8  # search paths, the notebook's and those of scripts, that are remembered
ASKED_FOR = 64  # folders that ranks have asked about, whose changes are told
WATCHED = 100  # folders without __init__.py that are watched in case they become packages
REPORTED = re.compile("its data|a link")  # how reasons for leaving something out begin that are told with the cell
MOST_TOLD = 3
LARGE = 1 << 20  # bytes of a module or package that ranks do not get for every cell, only because one has imported it
AT_ONCE = 1 << 20  # bytes of a file that are read at once
PART_MOST = 900 << 10  # characters of the part as JSON; FOLLOW has room for little more


class Bad(Exception):
    """What is wrong with a --with, for the user."""


class CodeHome:
    """entries, finders, modules: sys.path, sys.meta_path and sys.modules, as functions."""

    def __init__(self, entries=lambda: sys.path, finders=lambda: sys.meta_path, modules=lambda: sys.modules, inotify=True):
        self._entries, self._finders, self._modules = entries, finders, modules
        self._lock = threading.RLock()
        self._lister, self._hashes, self._changes = Lister(), Hashes(), Changes(inotify)
        self._keys = []  # search paths, the latest last
        self._listings = {}  # {search path: Listing}
        self._manifests = {}  # {(name, roots): Manifest}
        self._named, self._brought = {}, {}  # {PATH of --with: where that is}, {PATH of --with: Manifest}
        self._scripts = set()  # those of these paths that are scripts
        self._added = {}  # {folder that ranks have added to their own sys.path: names of modules in it that they have asked for}
        self._asked_for = []  # folders that ranks have asked about
        self._mentioned, self._asked = set(), set()  # names that cells import, and that ranks have asked for
        self._needed = set()  # names that modules import which ranks need
        self._large = frozenset()  # of the names in the last part, those of large packages
        self._given, self._older = set(), set()  # names of which ranks may have files; (name, folders) that they can't get any more
        self._versioned = {}  # {name of a package: (its version, the path of its module)}
        self._turn = 0  # counts what makes the last part outdated
        self._process = os.urandom(8).hex()  # ranks may have files of another process of home, of which this one knows nothing
        self._state, self._part, self._lines = None, None, []
        self._reported = set()
        self._loaded = {}  # {name of a module at home: (its spec, its file's hash when it was seen)}
        self._paths = {}  # {hash: paths}, of files that ranks may have
        self._sent = {}  # {hash: bytes} that went to ranks

    # ---- FOLLOW --------------------------------------------------------------------------------------------------------

    def part(self, text="", imports=(), script="", bring=(), ran=None, reloads=False):
        """(the part "code", the same object until it changes; lines for the user). text: the cell's or script's. imports: top-level modules
        that functions import which it may call. script: the script's path. bring: the paths of --with. ran: a number that is another one
        when home has run a cell. reloads: home loads changed modules again by itself (%autoreload). Raises Bad."""
        with self._lock:
            self._see_changes(ran)
            script = _file_of(script)
            key, mentioned = self._key(script), imports_in(text.encode("utf-8", "replace") if text else _head(script)).union(imports)
            if not mentioned <= self._mentioned:
                self._mentioned |= mentioned
                self._turn += 1
            state = key, len(self._modules()), tuple(bring), script
            if (self._turn, self._unneeded(mentioned, key), *state) != self._state:
                self._use(key)
                part = self._composed(key, bring, mentioned, script)
                self._compare_loaded(reloads)
                self._state = (self._turn, self._unneeded(mentioned, key), *state)
                if part != self._part:
                    self._part = part
            lines, self._lines = self._lines, []
            return self._part, lines

    def _composed(self, key, bring, mentioned, script):
        listing = self._listing(key)
        part = {"names": dict(listing.names), "namespaces": dict(listing.namespaces), "digests": self._digests(listing), "home": self._process}
        for name in part["digests"].keys() - listing.names.keys() - listing.namespaces.keys():  # they were too many
            part["namespaces" if listing.is_namespace(name) else "names"][name] = listing.roots(name)
        part.update(self._search_path(key))
        others = [name for name in part["digests"] if name in self._modules() and not self._is_from(name, listing)]
        if others:
            part["others"] = sorted(others)
        unneeded = self._unneeded(mentioned, key)
        if unneeded:
            part["unneeded"] = sorted(unneeded)
        if listing.redirects:
            part["redirects"] = listing.redirects
        if listing.incomplete:
            part["incomplete"] = True
        versions = self._versions()
        if versions:
            part["versions"] = {name: version for name, (version, _) in versions.items()}
            part["paths"] = {name: path for name, (_, path) in versions.items()}
        if bring:
            self._name(bring)
            part["with"] = {path: self._manifest_of_path(path).digest for path in bring}
            self._check_targets(part["with"])
        if script:
            part.update(self._script(script))
        if len(json.dumps(part)) > PART_MOST:  # ranks ask for what they import and do not have
            part.pop("redirects", None)
            part.pop("unneeded", None)
            part.update(names={}, namespaces={}, digests={}, incomplete=True, home=f"{self._process} {self._turn}")
        return part

    def _search_path(self, key):
        """What ranks must know to see which entries of their sys.path home does not have, and the modules in those that were asked for."""
        entries, here, _ = key
        folders = [os.path.join(here, entry) for entry in entries if isinstance(entry, str)]
        found = {"here": here, "folders": [folder for folder in absolute(folders) if not is_foreign(folder)]}
        if self._asked_for:
            found["states"] = {folder: _state(self._of_folder(folder)) for folder in self._asked_for}
        added = []
        for folder, names in self._added.items():
            listing = self._of_folder(folder)
            for name in names & listing.places.keys():
                manifest = self._followed(name, listing)
                added.append([name, folder, manifest.digest if manifest else ""])
        return {**found, "added": added} if added else found

    def _script(self, path):
        """Where the script is, and the folder that Python puts on the search path for it."""
        full = os.path.abspath(path)
        if not os.path.isfile(full) or not is_text(full):
            return {}
        self._scripts.add(full)
        self._name([full])
        try:
            digest = self._manifest_of_path(full).digest
        except Bad:  # ranks have the text, if it is one
            return {}
        return {"script": {"path": full, "folder": os.path.dirname(os.path.realpath(full)), "digest": digest}}

    def _digests(self, listing):
        """{name: digest} of what ranks will need, or may have: they get it before the cell begins."""
        found, large, queue = {}, set(), [name for name in listing.places if self._is_wanted(name, listing)]
        for name in queue:
            if name in found:
                continue
            manifest = self._followed(name, listing)
            if manifest is None:
                continue
            found[name] = manifest.digest
            if manifest.size() > LARGE:
                large.add(name)
            self._needed |= manifest.needs
            self._note_left(manifest)
            queue += [other for other in manifest.needs if listing.places.get(other) and not listing.is_namespace(other)]
        self._large = frozenset(large)
        for name in listing.unbuilt:
            self._followed(name, listing)
        return found

    def _followed(self, name, listing):
        """The Manifest. None: it can't be sent as it is now, so what ranks have stays. A rank that asks for it is told; those that have files of
        it do not ask. What only changes while it is read goes with a later cell."""
        key = name, tuple(listing.roots(name))
        try:
            manifest = self._manifest(name, listing)
        except Unsendable as error:
            if name in self._given and key not in self._older and not isinstance(error, Changing):
                self._older.add(key)
                self._lines.append(f"{name} on other machines may be older than the notebook's: {error}")
            return None
        self._older.discard(key)
        return manifest

    def _unneeded(self, mentioned, key):
        """The large packages that a cell which mentions these names does not need, and that home has not imported. All cells would wait for
        such a one otherwise, also after a cell that was interrupted while it went."""
        if not self._large:
            return frozenset()
        listing = self._listing(key)
        names = [name for name in mentioned.union(self._modules()) if name in listing.places]  # not all that are listed: each cell asks
        found, queue = set(), [name for name in names if name in mentioned or self._is_from(name, listing)]
        for name in queue:
            manifest = self._manifests.get((name, tuple(listing.roots(name))))
            if name not in found and manifest is not None:
                found.add(name)
                queue += [other for other in manifest.needs if other in listing.names]
        return self._large - found

    def _compare_loaded(self, reloads):
        """Says once of a module that home has imported, and that ranks import in a newer version: values that travel then hold a class of
        one name in two versions. What home has is taken to be what was there when the module was first seen here, unless its file has changed
        since home imported it."""
        hashes = {row[0]: row[2] for manifest in list(self._manifests.values()) for row in manifest.files}
        for name, module in list(self._modules().items()):
            names = names_of(module)
            path, spec = names.get("__file__"), names.get("__spec__")
            now = hashes.get(path) if isinstance(path, str) else None
            if now is None:
                continue
            known = self._loaded.get(name)
            if known is None or known[0] is not spec:  # imported, or loaded again
                known = self._loaded[name] = spec, None if class_versions.is_older(name) else now
            if known[1] != now and not reloads and (name, now) not in self._reported:
                self._reported.add((name, now))
                self._lines.append(
                    f"{path} has changed since the notebook imported it: ranks that import it now have a newer {name} than home, also in the "
                    f"classes of values that travel. importlib.reload({name}) brings it here"
                )

    def _versions(self):
        """{name: (version, path)} of the installed packages that cells and the modules that ranks need import, for ranks to compare."""
        for name in (self._mentioned | self._needed) - self._versioned.keys():
            path = names_of(self._modules().get(name)).get("__file__")
            if isinstance(path, str) and is_installed(path):
                self._versioned[name] = package_versions.of(name), path
        return {name: found for name, found in self._versioned.items() if found[0]}

    def _is_wanted(self, name, listing):
        if not listing.places[name]:
            return False
        return name in self._mentioned or name in self._asked or (name in self._modules() and self._is_from(name, listing))

    def _is_from(self, name, listing):
        """Has home imported the module of this name from there?"""
        names = names_of(self._modules().get(name))
        path = names.get("__path__")
        places = [names.get("__file__"), *(getattr(path, "_path", path) or ())]
        roots = tuple(os.path.join(root, "") for root in listing.roots(name))
        return any(isinstance(place, str) and os.path.abspath(place).startswith(roots) for place in places)

    def _note_left(self, manifest):
        new = [(path, why) for path, _, why in manifest.left if REPORTED.match(why) and (path, why) not in self._reported]
        self._reported.update(new)
        self._lines += [f"{path}: {why}" for path, why in new[:MOST_TOLD]]
        if len(new) > MOST_TOLD:
            self._lines.append(f"and {len(new) - MOST_TOLD} more, which %ranks code lists")

    def _tell_of_names(self, entries):
        """Says once which folders of the search path are left out because of their names."""
        for entry in entries:
            if not is_text(entry) and entry not in self._reported and os.path.exists(entry):
                self._reported.add(entry)
                shown = os.fsencode(entry).decode("utf-8", "replace")
                self._lines.append(f"{shown}: modules of this folder do not go to other machines: its name is not UTF-8")

    # ---- what there is -------------------------------------------------------------------------------------------------

    def _see_changes(self, ran=None):
        changed = self._changes.take(ran)
        if not changed:
            return
        self._turn += 1
        self._listings.clear()
        for known in (self._manifests, self._brought):
            for key in [key for key, manifest in known.items() if not manifest.folders.isdisjoint(changed)]:
                known.pop(key, None)
        self._changes.done()

    def _key(self, script=""):
        """What decides which names there are: (entries of sys.path, the current folder, the finders)."""
        try:
            here = os.getcwd()
        except OSError:  # it was deleted
            here = ""
        entries = tuple(self._entries())
        if script:
            entries = (os.path.dirname(os.path.realpath(script)), *(entry for entry in entries if entry))
        return entries, here, tuple(self._finders())

    def _use(self, key):
        if key in self._keys:
            self._keys.remove(key)
        self._keys.append(key)
        for old in self._keys[:-KEPT]:
            self._listings.pop(old, None)
        del self._keys[:-KEPT]

    def _listing(self, key):
        if key not in self._listings or self._listings[key].unbuilt:  # which may have been built meanwhile
            entries, here, finders = key
            entries = [os.path.join(here, entry) if here else entry for entry in entries if isinstance(entry, str) and (entry or here)]
            self._tell_of_names(entries)
            self._watch_folders(entries)
            listing = self._lister.listing(entries, redirected(finders))
            folders = absolute(entries)
            own = [folder for folder in folders if not is_foreign(folder)]
            listing.metadata = distributions.in_folders(own, [folder for folder in folders if is_installed(folder)])
            self._listings[key] = listing
        self._listings[key].add_imported(self._modules())
        return self._listings[key]

    def _watch_folders(self, entries):
        for entry in absolute(entries):
            if not is_foreign(entry):
                archive = archive_of(entry)
                if archive or os.path.isdir(entry):
                    self._watch(os.path.dirname(archive) if archive else entry, True)
                else:
                    self._changes.wait_for(entry)
        for folder in self._lister.folders(entries)[:WATCHED]:
            self._watch(folder, True)

    def _watch(self, folder, only_modules=False):
        self._changes.watch(folder, only_modules)

    def _manifest(self, name, listing):
        key = name, tuple(listing.roots(name))
        if name in listing.unbuilt:
            raise Unsendable(f"{name}: {listing.unbuilt[name]}")
        if key not in self._manifests:
            more = [path for dotted, path in listing.redirects.items() if dotted.startswith(name + ".")]
            more += distributions.files_of(listing.metadata.get(name, ()))
            self._manifests[key] = self._known(of_places(listing.roots(name), listing.places[name], self._hashes, more, self._watch))
        return self._manifests[key]

    def _name(self, bring):
        """The user has named these paths: ranks may have them."""
        for path in bring:
            full = os.path.abspath(path if os.path.exists(path) else os.path.expanduser(path))
            if self._named.get(path) != full:  # it may be another one after %cd
                self._named[path] = full
                self._brought.pop(path, None)

    def _manifest_of_path(self, path):
        if path not in self._brought:
            full = self._named[path]
            try:
                manifest = of_path(full, self._hashes, self._watch)
            except OSError as error:
                several = " (give each path a --with of its own)" if any(sign in path for sign in "*?[,") else ""
                raise Bad(f"--with {path}: {error.strerror}{several}") from None
            except Unsendable as error:
                raise Bad(f"--with {path}: {error}") from None
            here = os.getcwd()
            inside = os.path.join(full, "").startswith(os.path.join(here, ""))
            manifest.roots = [here if inside else os.path.dirname(full)]
            self._brought[path] = self._known(manifest)
        return self._brought[path]

    def _check_targets(self, paths):
        """Two files can't be at one place of the ranks' folder."""
        placed = {}
        for path in paths if len(paths) > 1 else ():
            manifest = self._brought[path]
            for full, _, digest, _ in manifest.files:
                target = os.path.relpath(full, manifest.roots[0])
                other, there = placed.setdefault(target, (path, digest))
                if there != digest:
                    raise Bad(f"--with {other} and --with {path}: both would be {target} in the ranks' folder. Give one of them only, or rename it")

    def _known(self, manifest):
        self._changes.watch_linked(manifest.linked)
        for path, _, digest, _ in manifest.files:
            paths = self._paths.setdefault(digest, [])
            if path not in paths:
                paths.append(path)
        return manifest

    # ---- answers -------------------------------------------------------------------------------------------------------

    def answer(self, what, content):
        """(the answer, its bytes in pieces or None) for a rank's question. Any thread may call it."""
        try:
            if what == "tree":
                return self._tree(content), None
            if what == "files":
                return self._files(content["hashes"])
            return {"error": f"home answers no {what}"}, None
        except (Unsendable, Bad) as error:
            return {"error": str(error)}, None
        except OSError as error:
            return {"error": f"{error.filename or ''}: {error.strerror}"}, None

    def _tree(self, content):
        if "seen" in content:  # a rank asks whether its folder is home's
            return {"seen": [NEW.match(name) is not None and os.path.lexists(os.path.join(folder, name)) for folder, name in content["seen"]]}
        if "path" in content:  # may a --with name it? A rank's error says so
            return {"there": os.access(os.path.abspath(content["path"]), os.R_OK)}
        with self._lock:
            self._see_changes()
            if "with" in content:  # a rank gets only what the user has named in a cell
                path = content["with"]
                return described(self._manifest_of_path(path)) if path in self._named else {}
            if "folders" in content:
                return self._first_there(content["folders"])
            name = content["name"]
            roots = content.get("roots")
            listing = self._listing_with(name, roots)
            if listing is None:
                return {"gone": True} if roots and len(roots) == 1 and _may_be_added(roots[0]) and os.access(roots[0], os.R_OK) else {}
            if roots and len(roots) == 1 and (roots[0] in self._added or not self._lists(name, roots)):  # ranks hear of its changes from now on
                names = self._added.setdefault(roots[0], set())
                self._turn += name not in names
                names.add(name)
            manifest = self._manifest(name, listing)
            self._given.add(name)
            if name not in self._asked:
                self._asked.add(name)
                self._turn += 1
                self._note_left(manifest)
            return described(manifest)

    def _listing_with(self, name, roots):
        """A Listing that has this name in these folders (None: in any), or None."""
        for key in reversed(self._keys or [self._key()]):
            listing = self._listing(key)
            if name in listing.places and roots in (None, listing.roots(name)):
                return listing
        if roots is None or len(roots) != 1 or not _may_be_added(roots[0]):
            return None
        listing = self._of_folder(roots[0])
        return listing if name in listing.places else None

    def _lists(self, name, roots):
        """Is it in the latest part, in these folders?"""
        listing = self._listing(self._keys[-1] if self._keys else self._key())
        return name in listing.places and listing.roots(name) == roots

    def _of_folder(self, folder):
        """The Listing of one folder, which a rank has on its sys.path."""
        self._watch_folders([folder])
        return self._lister.listing([folder])

    def _first_there(self, folders):
        """The first of these folders that home has, and the names in it. states: as in Tree.find_folder(); without it, ranks ask in each cell."""
        found, states = {}, {}
        for folder in filter(_may_be_added, folders):
            if folder not in self._asked_for and len(self._asked_for) < ASKED_FOR:
                self._asked_for.append(folder)
                self._turn += 1
            listing = self._of_folder(folder)
            states[folder] = _state(listing)
            if listing.places:
                self._added.setdefault(folder, set())
                found = {"folder": folder, "names": listing.names, "namespaces": listing.namespaces}
                break
        return {**found, "states": states} if states.keys() <= set(self._asked_for) else found

    def _files(self, hashes):
        rows, pieces, gone, at, modules = [], [], [], 0, 0
        for k, digest in enumerate(hashes):
            path, size, own = self._found(digest)
            if own is None:
                gone.append(digest)
                continue
            rows.append([k, at, size])
            pieces.append(own)
            at += size
            modules += is_code(path)
        if gone:  # the rank asks for all of them anew
            return {"files": [], "gone": gone, "modules": 0}, ()
        with self._lock:
            self._sent.update((hashes[k], size) for k, _, size in rows)
        return {"files": rows, "gone": gone, "modules": modules}, itertools.chain.from_iterable(pieces)

    def _found(self, digest):
        """(a file that still has this hash, its size, its pieces); None: there is none. Several files may have the same bytes."""
        with self._lock:
            paths = list(self._paths.get(digest, ()))
        for path in paths:
            found = _content(path, digest)
            if found is not None:
                return path, *found
            self._forget_file(path, digest)
        return None, 0, None

    def _forget_file(self, path, digest):
        """A file is not what it was, perhaps though nothing has told so: what is known of it is read again."""
        with self._lock:
            self._paths[digest].remove(path)
            for known in (self._manifests, self._brought):
                for key in [key for key, manifest in known.items() if any(row[0] == path and row[2] == digest for row in manifest.files)]:
                    del known[key]
                    self._turn += 1

    # ---- %ranks code ---------------------------------------------------------------------------------------------------

    def report(self):
        """What went to other machines, and what did not, for people; "" if no rank has asked for anything."""
        with self._lock:
            manifests = [(name, manifest) for (name, _), manifest in sorted(self._manifests.items())]
            manifests += [("script" if path in self._scripts else f"--with {path}", manifest) for path, manifest in sorted(self._brought.items())]
            rows = [_row(name, manifest, self._sent) for name, manifest in manifests if manifest.files]
            left = sorted({(path, size, why) for _, manifest in manifests for path, size, why in manifest.left})
        if not rows:
            return ""
        lines = _table([("name", "files", "size", "sent", "from"), *rows])
        if left:
            lines += ["", "not sent:", *(f"{path}{f' ({human(size)})' if size else ''}: {why}" for path, size, why in left)]
        return "\n".join(lines)


def _file_of(script):
    """The file of a script, which may be a folder with a __main__.py. "" for none."""
    path = os.path.expanduser(script)
    return os.path.join(path, MAIN) if os.path.isdir(path) else path


def _head(script):
    """The beginning of a script that is a folder, whose text does not go with the cell."""
    if os.path.basename(script) != MAIN:
        return b""
    try:
        with open(script, "rb") as file:
            return file.read(SCANNED)
    except OSError:
        return b""


def _may_be_added(folder):
    """May ranks have modules of this folder because they have put it on their sys.path? Not what is installed or hidden."""
    return os.path.isabs(folder) and is_text(folder) and not is_foreign(folder) and "/." not in folder


def _state(listing):
    """Is another one when the names in this Listing are others."""
    return hashlib.sha256(json.dumps([sorted(listing.names), sorted(listing.namespaces)]).encode()).hexdigest()[:16]


def _content(path, digest):
    """(size, pieces) of a file with this hash; None: it has another one, or there is none. The pieces of a large file are read when they are
    used, so that home's memory has it once; OSError: it has changed by then."""
    try:
        size = os.stat(path).st_size
        if size > AT_ONCE:
            return (size, _pieces(path, digest, size)) if scan(path)[1] == digest else None
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return (len(data), [data]) if hashlib.sha256(data).hexdigest() == digest else None


def _pieces(path, digest, size):
    hashed, count = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        for part in iter(lambda: file.read(AT_ONCE), b""):
            hashed.update(part)
            count += len(part)
            if count > size:
                break
            yield part
    if count != size or hashed.hexdigest() != digest:
        raise OSError(errno.ESTALE, "it changes while it is read", path)


def described(manifest):
    """The answer to "tree"."""
    said = {"roots": list(manifest.roots), "files": manifest.files, "digest": manifest.digest, "left": manifest.left}
    return {**said, "empty": manifest.empty} if manifest.empty else said


def _row(name, manifest, sent):
    paths = [row[0] for row in manifest.files]
    went = sum(sent.get(row[2], 0) for row in manifest.files)
    own = [path for path in paths if not distributions.is_metadata(path)] or paths
    return name, str(len(paths)), human(manifest.size()), human(went), os.path.commonpath(own) if len(own) > 1 else own[0]


def _table(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.rjust(width) if 0 < k < 4 else cell.ljust(width) for k, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


_home = None


def home():
    """This process's CodeHome; made when it is first needed, in the main thread."""
    global _home
    if _home is None:
        _home = CodeHome()
    return _home


def part(*args, **kw):
    return home().part(*args, **kw)


def answer(what, content):
    return home().answer(what, content)


def report():
    return home().report()
