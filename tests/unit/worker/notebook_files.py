# SPDX-License-Identifier: BSD-3-Clause
"""A home that has files: answers what ranks ask, as _code/tree.py wants it."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Files:
    """files: {path: text}; they are nowhere on this machine. find() is as _link.find()."""

    def __init__(self, files=None):
        self.files = dict(files or {})
        self.modes, self.left = {}, []
        self.shared = {}  # {folder of home: the same folder as ranks name it}
        self.asked = []  # (what, question)
        self.instead = None  # called in place of an answer

    def find(self, what, content):
        question = json.loads(content)
        self.asked.append((what, question))
        if self.instead is not None:
            return self.instead(what, question)
        if what == "files":
            return self._bytes(question["hashes"])
        if "path" in question:
            path = posixpath.join("/nowhere/project", question["path"])
            return json.dumps({"there": any(one == path or one.startswith(path + "/") for one in self.files)}), None
        if "seen" in question:
            return json.dumps({"seen": [os.path.lexists(os.path.join(self.shared.get(folder, "/nowhere"), name)) for folder, name in question["seen"]]}), None
        if "folders" in question:
            return json.dumps(self.first_there(question["folders"])), None
        if "with" in question:
            return json.dumps(self.manifest(posixpath.dirname(question["with"]), posixpath.basename(question["with"]))), None
        found = [self.manifest(root, question["name"]) for root in question.get("roots", ("/nowhere/project",))]
        found = [one for one in found if one]
        if not found:
            return "{}", None
        files = [row for one in found for row in one["files"]]
        return json.dumps({"roots": [one["roots"][0] for one in found], "files": files, "digest": sha(json.dumps(files).encode()), "left": self.left}), None

    def first_there(self, folders):
        for folder in folders:
            names = {path[len(folder) + 1 :].partition("/")[0].partition(".")[0] for path in self.files if path.startswith(folder + "/")}
            if names:
                return {"folder": folder, "names": {name: [folder] for name in names}, "namespaces": {}, "states": self.looked(*folders)}
        return {"states": self.looked(*folders)}

    def looked(self, *folders):
        """{folder: what a listing says of it until its modules change}."""
        return {folder: str(sorted(path for path in self.files if path.startswith(folder + "/"))) for folder in folders}

    def manifest(self, root, name):
        start = posixpath.join(root, name)
        files = [[path, len(text.encode()), sha(text.encode()), self.modes.get(path, 0o644)] for path, text in sorted(self.files.items())
                 if path == start or path == start + ".py" or path.startswith(start + "/")]
        return {"roots": [root], "files": files, "digest": sha(json.dumps(files).encode()), "left": self.left} if files else {}

    def digest(self, name, *roots):
        said, _ = self.find("tree", json.dumps({"name": name, "roots": roots or ["/nowhere/project"]}))
        self.asked.pop()
        return json.loads(said)["digest"]

    def _bytes(self, hashes):
        known = {sha(text.encode()): text.encode() for text in self.files.values()}
        rows, whole, gone = [], b"", [one for one in hashes if one not in known]
        for k, one in enumerate(hashes):
            if one in known:
                rows.append([k, len(whole), len(known[one])])
                whole += known[one]
        return json.dumps({"files": rows, "gone": gone}), whole
