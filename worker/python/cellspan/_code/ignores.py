# SPDX-License-Identifier: BSD-3-Clause
"""Which files are left out: those that never leave home, and data that .gitignore or .cellspanignore names. It reads these two files, and the
beginning of what may be a key.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re

IGNORE_FILES = (".gitignore", ".cellspanignore")
SECRETS = (
    ".env* *.env *.pem *.key *.p12 *.pfx *.jks *.keystore id_rsa* id_dsa* id_ecdsa* id_ed25519* credentials* secrets.* .netrc .pypirc "
    ".npmrc .htpasswd .git-credentials .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .dockercfg .dockerconfigjson .vault-token .renviron .*_history "
    "kubeconfig* client_secret*.json *.kdbx *.ppk *.gpg *.tfstate* env.production env.prod env.staging env.local env.development env.dev "
    "*.tfvars *.tfvars.json .terraformrc terraform.rc service-account*.json service_account*.json serviceaccount*.json token.json *.p8 "
    "*secret*.asc *private*.asc"
).split()
SECRET_FOLDERS = frozenset(("secrets", ".secrets", "credentials"))
SECRET = re.compile("|".join(map(fnmatch.translate, SECRETS)), re.IGNORECASE)
NOTEBOOK = re.compile(fnmatch.translate("*.ipynb"), re.IGNORECASE)
PRIVATE_KEY = b"-----BEGIN PGP PRIVATE"
SCANNED = 4096  # bytes at the beginning of a file that may be a key
UP = 32  # folders above one in which an ignore file is looked for
TOP = (".git", ".hg")  # the folder with one of these is the project's top


def never(path):
    """Why a file, which Python does not import, never goes; "": it may."""
    name = os.path.basename(path)
    if SECRET.match(name):
        return "files of this name are never sent"
    if name.lower().endswith(".asc") and _has_private_key(path):  # others of this name are grids of numbers, or public keys
        return "private keys are never sent"
    return "notebooks are never sent" if NOTEBOOK.match(name) else ""


def _has_private_key(path):
    try:
        with open(path, "rb", buffering=0, opener=_opened) as file:
            return PRIVATE_KEY in (file.read(SCANNED) or b"")
    except OSError:
        return False


def _opened(path, flags):
    return os.open(path, flags | os.O_NONBLOCK)  # it may be a pipe


class Ignores:
    """The patterns that hold in a folder. They may change from call to call, so nothing is kept beyond one walk."""

    def __init__(self, folder):
        self._of = {}  # {folder: [(pattern, does it include again?), …] of its files}
        self._above = []
        path = os.path.abspath(folder)
        for _ in range(UP):
            if any(os.path.exists(os.path.join(path, name)) for name in TOP) or os.path.dirname(path) == path:
                self._above.append(path)
                break
            self._above.append(path)
            path = os.path.dirname(path)
        else:
            self._above = [os.path.abspath(folder)]
        if os.path.dirname(self._above[-1]) == self._above[-1]:  # no project: only the package's own
            self._above = [os.path.abspath(folder)]
        self._top = self._above[-1]

    def ignored(self, path):
        """Is this file left out?"""
        folders, folder = [], os.path.dirname(path)
        while len(folder) >= len(self._top):
            folders.append(folder)
            if folder == self._top:
                break
            folder = os.path.dirname(folder)
        return any(self._is(part, folders, part != path) for part in _levels(path, self._top))

    def _is(self, path, folders, is_folder):
        """Do the patterns of these folders, the deepest first, name this path?"""
        found = False
        for folder in reversed(folders):
            inner = path[len(folder) :].lstrip(os.sep) if path.startswith(os.path.join(folder, "")) else ""
            for pattern, only_folders, again in self._patterns(folder) if inner else ():
                if (is_folder or not only_folders) and pattern.match(inner):
                    found = not again
        return found

    def _patterns(self, folder):
        if folder not in self._of:
            self._of[folder] = [row for name in IGNORE_FILES for row in _read(os.path.join(folder, name))]
        return self._of[folder]


def _levels(path, top):
    """The folders below `top` that lead to a path, and the path."""
    found = []
    while len(path) > len(top):
        found.append(path)
        path = os.path.dirname(path)
    return reversed(found)


def _read(path):
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 20)
    except OSError:
        return []
    return [row for row in map(parsed, text.decode("utf-8", "replace").splitlines()) if row]


@functools.lru_cache(maxsize=1024)
def parsed(line):
    """(compiled pattern, does it name folders only?, does it include again?) of a line of an ignore file, or None."""
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    again = line.startswith("!")
    line = line[again:]
    line = line[1:] if line.startswith("\\") else line
    only_folders = line.endswith("/")
    line = line.rstrip("/")
    anchored = "/" in line
    line = line.lstrip("/")
    if not line:
        return None
    try:
        return re.compile(("" if anchored else "(?:.*/)?") + _translated(line) + r"\Z"), only_folders, again
    except re.error:
        return None


def _translated(line):
    """A pattern as a regular expression: `*` and `?` stay in one folder, `**` does not."""
    found, at = "", 0
    while at < len(line):
        if line.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif line.startswith("**", at):
            found, at = found + ".*", at + 2
        elif line[at] == "[" and "]" in line[at + 2 :]:
            end = line.index("]", at + 2)
            inner = line[at + 1 : end].replace("\\", "\\\\")
            found, at = found + "[" + ("^" + inner[1:] if inner.startswith("!") else inner) + "]", end + 1
        else:
            found, at = found + {"*": "[^/]*", "?": "[^/]"}.get(line[at], re.escape(line[at])), at + 1
    return found
