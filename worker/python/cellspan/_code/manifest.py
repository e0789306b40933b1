# SPDX-License-Identifier: BSD-3-Clause
"""The files of one top-level name: which of them go to other machines, with their hashes.

All that Python imports goes. Data of a package goes unless it is too much; of a folder without __init__.py, only what lies below a
package in it. A file is read once, and again only when its size, time or inode has changed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
import sys
import time

from .._base.filesystems import state_of
from . import ignores
from .entries import NEW
from .listing import MODULE, NAMESPACE, SKIPPED, SUFFIXES, has_init, is_environment, is_text

DATA_MOST = 100 << 20  # bytes of a package's data
FILES_MOST = 50_000  # files of one name
FILE_MOST = 4 << 30  # bytes of one file: home needs as much memory while it sends it
LEFT_MOST = 1_000  # files that are listed as left out
SECRETS_SCANNED = 100  # folders in one with secrets' name that are looked at for modules
ENTRIES_MOST = 50_000  # entries of folders after which folders without __init__.py are left out
WATCHED_ALL = 1_000  # folders; after these, only those with files that go are watched
ZIPPED = (".zip", ".egg")
HIDDEN = frozenset((".git", ".hg", ".svn", ".ipynb_checkpoints", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"))
CODE = re.compile(r"\.(py|pyi|pyx|pxd|pyd|pyc|typed|so(\.\d+)*)\Z")
TAGGED = re.compile(r"\.(?:cpython-|pypy|cp)(\d+)[^.]*\.(?:so|pyd)\Z")
OURS = "%d%d" % sys.version_info[:2]
PART = 1 << 20  # bytes that are read at once
SCANNED = 64 << 10  # bytes at a module's start that are looked through for imports
YOUNG = 2_000_000_000  # ns: a file that has just changed may change once more without another time
TRIES = 3
IMPORT = re.compile(rb"[ \t]*(?:from[ \t]+([A-Za-z_]\w*)|import[ \t]+([A-Za-z_][\w., \t]*))")


class Unsendable(Exception):
    """The text says what is in the way, for the user."""


class Changing(Unsendable):
    """A file changes while it is read. Later it may not."""


class Manifest:
    """files: [[path, size, hash, mode], …] in order. left: [[path, size, why], …]. folders: those that were read. empty: folders without
    files, of what the user has named. needs: top-level names that the modules import. linked: {file that has other names, too: its state}."""

    def __init__(self, roots):
        self.roots, self.files, self.left = roots, [], []
        self.folders, self.needs, self.empty, self.linked = set(), set(), [], {}
        self.digest = ""

    def size(self):
        return sum(row[1] for row in self.files)

    def close(self):
        self.files.sort()
        self.left.sort()
        own = hashlib.sha256()
        for path, _, digest, mode in self.files:
            own.update(b"%s\0%s\0%o\n" % (path.encode(), digest.encode(), mode))
        for folder in self.empty:
            own.update(b"%s\0" % folder.encode())
        self.digest = own.hexdigest()
        return self


class Hashes:
    """Hashes of files, and what they import, by path."""

    def __init__(self):
        self._known = {}  # {path: (identity, hash, imports, is it young?)}

    def of(self, path, now):
        """(hash, size, names that it imports); now: the file's stat."""
        known = self._known.get(path)
        own = _identity(now)
        if known is None or known[0] != own or known[3]:
            known = self._known[path] = self._read(path)
        return known[1], known[0][0], known[2]

    @staticmethod
    def _read(path):
        for _ in range(TRIES):
            own, digest, head = scan(path)
            if own is not None:
                young = time.time_ns() - own[1] < YOUNG
                needs = imports_in(head) if path.endswith(".py") else frozenset()
                return own, digest, needs, young
        raise Changing(f"{path} changes while it is read: save it, then run the cell again")


def scan(path):
    """(identity, hash, the first bytes) of a file; identity None: it has changed meanwhile."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        before, hashed, head, count = os.fstat(file), hashlib.sha256(), b"", 0
        while count < before.st_size:
            part = os.read(file, PART)
            if not part:
                break
            head = head or part[:SCANNED]
            count += len(part)
            hashed.update(part)
        own = _identity(before)
        same = own == _identity(os.stat(path)) and count == before.st_size
    finally:
        os.close(file)
    return (own if same else None), hashed.hexdigest(), head


def _identity(found):
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def imports_in(text):
    """The top-level names that import statements in this text, of bytes, name."""
    found, at = set(), text.find(b"import")
    while at >= 0:
        start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        line = IMPORT.match(text[start : end if end >= 0 else len(text)])
        if line is not None:
            one, several = line.groups()
            for part in (one,) if one else several.split(b","):
                found.add(part.strip().partition(b" ")[0].partition(b".")[0].decode())
        at = text.find(b"import", end) if end >= 0 else -1
    return frozenset(found - {""})


# ---- walking ---------------------------------------------------------------------------------------------------------


class _Walk:
    """Adds the files of places to a Manifest."""

    def __init__(self, manifest, hashes, watch):
        self.manifest, self._hashes, self._watch = manifest, hashes, watch
        self._entries = 0
        self._data, self._size = [], 0  # [(path, stat), …] of a package, and their bytes
        self._ignores = None
        self._everything = False

    def add(self, place):
        if place.zipped:
            self._reads(os.path.dirname(place.path), only_modules=place.path.endswith(ZIPPED))
            self._take_file(place.path)
        elif place.kind == MODULE:
            self._reads(os.path.dirname(place.path), only_modules=True)
            for suffix in SUFFIXES:
                self._take_file(place.path + suffix, missing=True)
        else:
            self._ignores = ignores.Ignores(place.path)
            base = (os.path.realpath(place.root), os.path.realpath(place.path))
            self._folder(place.path, base, (), place.kind != NAMESPACE)
            self._take_data(place.path)

    def add_file(self, path, only_modules=True, missing=True):
        self._reads(os.path.dirname(path), only_modules)
        self._take_file(path, missing=missing)

    def add_all(self, folder):
        """All files of a folder but those that never go."""
        self._ignores, self._everything = None, True
        self._folder(folder, (os.path.realpath(folder),), (), True)

    def _reads(self, folder, only_modules=False):
        self.manifest.folders.add(folder)
        self._watch(folder, only_modules)

    def _folder(self, folder, bases, above, data):
        """data: does data in it belong to a package?"""
        few = len(self.manifest.folders) < WATCHED_ALL
        if few:
            self._reads(folder)
        try:
            own = os.stat(folder)
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._leave(folder, 0, error.strerror)
            return
        identity = own.st_dev, own.st_ino
        if identity in above:  # a link leads back
            return
        self._entries += len(entries)
        if not few and any(is_code(entry.name) or (data and self._size <= DATA_MOST and not entry.is_dir()) for entry in entries):
            self._reads(folder)
        for entry in entries:
            self._entry(entry, bases, (*above, identity), data)

    def _entry(self, entry, bases, above, data):
        name, path = entry.name, entry.path
        if NEW.match(name):  # a rank writes it at the moment
            return
        try:
            path.encode()
        except UnicodeEncodeError:
            self._leave(os.fsencode(path).decode("utf-8", "replace"), 0, "its name is not UTF-8")
            return
        try:
            is_folder, is_link = entry.is_dir(), entry.is_symlink()
        except OSError:
            return
        if is_folder:
            if name in SKIPPED or name in HIDDEN or (name.startswith(".") and not self._everything) or is_environment(path):
                return
            if is_link and not self._is_followed(path, bases):
                return
            package = has_init(path)
            if name.lower() in ignores.SECRET_FOLDERS and not _has_code(path):
                self._leave(path, 0, "folders of this name without modules are never sent")
            elif self._entries > ENTRIES_MOST and not package and not self._everything:
                self._leave(path, 0, f"a folder without __init__.py, and over {ENTRIES_MOST:,} files were looked at before")
            else:
                self._folder(path, bases, above, data or package)
        elif self._everything:
            why = ignores.never(path) or (is_link and leads_to_secret(path))
            if why:
                self._leave(path, 0, why)
            else:
                self._take_file(path, missing=True, is_link=is_link)
        elif is_code(name):
            self._take_file(path, missing=True, is_link=is_link)
        elif data:
            self._note_data(entry)

    def _is_followed(self, link, bases):
        """Is this link to a folder followed? Not if it leads back to a folder around it, or out of the project."""
        real = os.path.realpath(link)
        if os.path.join(os.path.realpath(os.path.dirname(link)), "").startswith(os.path.join(real, "")):
            return False
        inside = real.startswith(tuple(os.path.join(base, "") for base in bases))
        if not inside:
            self._leave(link, 0, "a link to a folder outside of the project does not go to other machines")
        return inside

    def _note_data(self, entry):
        if self._size > DATA_MOST:
            return
        why = ignores.never(entry.path) or (entry.is_symlink() and leads_to_secret(entry.path))
        try:
            now = entry.stat()
        except OSError:
            return
        if not stat.S_ISREG(now.st_mode):
            return
        if not why and self._ignores.ignored(entry.path):
            why = "an ignore file names it"
        if not why and now.st_size > DATA_MOST:
            why = f"its data, over {DATA_MOST >> 20} MiB, does not go to other machines"
        if why:
            self._leave(entry.path, now.st_size, why)
        elif entry.name not in ignores.IGNORE_FILES:
            self._data.append((entry.path, now))
            self._size += now.st_size

    def _take_data(self, folder):
        if self._size > DATA_MOST:
            self._leave(folder, 0, f"its data, over {DATA_MOST >> 20} MiB, does not go to other machines")
        else:
            for path, now in self._data:
                self._take_file(path, now, missing=True)
        self._data, self._size = [], 0

    def _take_file(self, path, now=None, missing=False, is_link=None):
        """missing: it is no error if there is no such file. is_link: None if nobody has looked."""
        is_link = os.path.islink(path) if is_link is None else is_link
        try:
            now = now or os.stat(path)
            if not stat.S_ISREG(now.st_mode):
                return
            if is_link and leads_to_secret(path):
                self._leave(path, now.st_size, leads_to_secret(path))
                return
            if now.st_size > FILE_MOST:
                raise Unsendable(f"{path} has over {FILE_MOST >> 30} GiB, which is too much to send: copy it to the other machines by other means")
            if is_for_another_python(path):
                self._leave(path, now.st_size, "it is compiled for another version of Python")
                return
            if now.st_nlink > 1:
                self.manifest.linked[path] = state_of(path)
            digest, size, needs = self._hashes.of(path, now)
        except FileNotFoundError:
            if not missing:
                raise
            return
        except OSError as error:
            self._leave(path, 0, error.strerror)
            return
        if is_link:
            self._reads(os.path.dirname(os.path.realpath(path)))
        self.manifest.files.append([path, size, digest, stat.S_IMODE(now.st_mode) & 0o777])
        self.manifest.needs |= needs
        if len(self.manifest.files) > FILES_MOST:
            raise Unsendable(f"{path} is one of over {FILES_MOST:,} files, which are too many to send: copy them to the other machines by other means")

    def _leave(self, path, size, why):
        if len(self.manifest.left) < LEFT_MOST:
            self.manifest.left.append([path, size, why])


def is_code(name):
    """Is a file of this name one that Python imports or reads for its modules?"""
    return CODE.search(name) is not None


def _has_code(folder):
    """Is there a file that Python imports in the folder, or in one in it?"""
    for at, _, names in itertools.islice(os.walk(folder), SECRETS_SCANNED):
        if any(is_code(name) for name in names):
            return True
    return False


def leads_to_secret(link):
    """Why a link does not go because of the file to which it leads; "": it may."""
    path = os.path.realpath(link)
    return "" if is_code(os.path.basename(path)) else ignores.never(path)


def is_for_another_python(path):
    tag = TAGGED.search(os.path.basename(path)) if path.endswith((".so", ".pyd")) else None
    return tag is not None and tag.group(1) != OURS


def of_places(roots, places, hashes, more=(), watch=lambda folder, only_modules: None):
    """The Manifest of a top-level name. more: files that belong to it and stand elsewhere. watch: is called for each folder before it is
    read; see Changes.watch(). Raises Unsendable."""
    manifest = Manifest(roots)
    walk = _Walk(manifest, hashes, watch)
    for place in places:
        walk.add(place)
    known = {row[0] for row in manifest.files}
    for path in more:
        if path not in known:
            walk.add_file(path)
    return manifest.close()


def of_path(path, hashes, watch=lambda folder, only_modules: None):
    """The Manifest of a file or a folder that the user has named, whatever is in it. Raises Unsendable, OSError."""
    os.stat(path)
    manifest = Manifest([])
    walk = _Walk(manifest, hashes, watch)
    if os.path.isdir(path):
        walk.add_all(path)
        full = {parent for row in manifest.files for parent in _parents(row[0])}
        manifest.empty = sorted(folder for folder in manifest.folders - full if is_text(folder))
    else:
        walk.add_file(path, only_modules=False, missing=False)
    return manifest.close()


def _parents(path):
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path
