#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a release says of itself is the same everywhere: its version, the libraries inside the wheel, and pip's metadata. Links of the
documents that are installed lead to others that are. Prints TAP."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(os.environ.get("top_srcdir", ".")).resolve()
sys.path.insert(0, str(TOP / "worker" / "python" / "backend"))
sys.dont_write_bytecode = True
import cellspan_build  # noqa: E402

results = []


def ok(passed, name):
    results.append(passed)
    print("%s %d - %s" % ("ok" if passed else "not ok", len(results), name))


def first(pattern, *path):
    return re.search(pattern, (TOP.joinpath(*path)).read_text(encoding="utf-8"), re.M)[1]


version = cellspan_build.version()
ok(first(r"^version: (\S+)$", "CITATION.cff") == version, "CITATION.cff has configure.ac's version")
ok(first(r'^  version: "([^"]+)"$', "packaging", "conda", "recipe.yaml") == version, "so has the recipe for conda")
ok(first(r"^## (\S+?),? ", "CHANGELOG.md") == version, "so has the newest head of CHANGELOG.md")

project = cellspan_build.project()
text = cellspan_build.metadata()
try:
    import tomllib
except ImportError:
    print("# Python %d.%d has no tomllib: pyproject.toml was read by cellspan_build alone" % sys.version_info[:2])
else:
    whole = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    whole = {**whole, "authors": [one["name"] for one in whole["authors"]], "urls": whole.get("urls", {})}
    ok(project == whole, "cellspan_build reads pyproject.toml as tomllib does")
ok(first(r'^  - name: "([^"]+)"$', "CITATION.cff") in project["authors"], "the authors are those of CITATION.cff")
ok(first(r"^license: (\S+)$", "CITATION.cff") == project["license"], "the license is that of CITATION.cff")
ok(first(r"^  summary: (.*)$", "packaging", "conda", "recipe.yaml") == project["description"], "the summary is that of the recipe")
ok("\nVersion: %s\n" % version in text, "pip's metadata have the version")
ok(project["urls"] or not re.search(r"\]\((?![a-z]+:)", text), "pip's description has no link that leads nowhere")
ok("](https://a.b/c/raw/main/docs/images/" in cellspan_build.description("README.md", "https://a.b/c/"),
   "with the project's address, its pictures are absolute")

with tempfile.TemporaryDirectory() as folder:
    info = pathlib.Path(folder, cellspan_build.prepare_metadata_for_build_wheel(folder))
    ok((info / "METADATA").read_text(encoding="utf-8") == text and all((info / "licenses" / name).exists() for name in project["license-files"]), "pip gets them without a build")
for name, key in ("PACKAGE_BUGREPORT", "Issues"), ("PACKAGE_URL", "Source"):
    ok(first("^%s='(.*)'$" % name, "configure") == project["urls"].get(key, ""), "configure's %s is that of pyproject.toml" % name)

roots = [TOP / name for name in ("configure.ac", "Makefile.am", ".ci", "base", "bench", "cli", "docs", "examples", "kernel", "launchers", "m4", "magics",
                                 "packaging", "protocol", "tests", "worker")]
bare = []
for path in sorted(path for root in roots for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts):
    head = path.read_bytes()[:300]
    source = path.suffix in (".c", ".h", ".py", ".pyi", ".sh", ".mk", ".m4", ".ac", ".am", ".bash", ".fish") or head.startswith((b"#!", b"#compdef"))
    if source and b"SPDX-License-Identifier: %s" % project["license"].encode() not in head:
        bare.append(str(path.relative_to(TOP)))
ok(not bare, "each source file names its license, but for: %s" % " ".join(bare))

variable = re.search(r"^nobase_dist_doc_DATA \+= ((?:.*\\\n)*.*)$", (TOP / "docs" / "Local.mk").read_text(encoding="utf-8"), re.M)[1]
installed = variable.replace("\\\n", " ").split()
dead = []
for page in installed:
    if page.endswith(".md"):
        text = re.sub(r"^```.*?^```", "", (TOP / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)  # code has no links
        links = re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", text)
        dead += ["%s: %s" % (page, to) for to in links if os.path.normpath(os.path.join(os.path.dirname(page), to)) not in installed]
ok({"README.md", "LICENSE", "CHANGELOG.md"} < set(installed) and not dead, "no link of a page that is installed is dead %s" % " ".join(dead))

lines = [line.split() for line in (TOP / "packaging" / "sources").read_text().splitlines() if not line.startswith("#")]
table = (TOP / "docs" / "building.md").read_text(encoding="utf-8")
for name, inside, file, digest, where, *_ in lines:
    ok(re.search(r"^\| [^|]*%s[^|]* \| %s \| [^|]* \| `%s` \| `%s` \|$" % (name.replace("zeromq", "zmq"), inside, file, digest), table, re.M),
       "docs/building.md has %s %s as packaging/sources" % (name, inside))
    if where == "kept":
        ok(hashlib.sha256((TOP / "packaging" / "kept" / file).read_bytes()).hexdigest() == digest, "packaging/kept has that file")
vendored = (TOP / "vendor" / "tomlc17" / "README.md").read_text(encoding="utf-8")
for name, digest in re.findall(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", vendored, re.M):
    ok(hashlib.sha256((TOP / "vendor" / "tomlc17" / name).read_bytes()).hexdigest() == digest, "vendor/tomlc17/%s is the one that its README names" % name)
bom = json.loads(subprocess.run([sys.executable, str(TOP / "packaging" / "sbom")], stdout=subprocess.PIPE, check=True).stdout)
listed = {part["name"]: part["version"] for part in bom["components"]}
ok(all(listed.get(name) == inside for name, inside, *_ in lines), "the list of what is inside has each of them")
ok(bom["metadata"]["component"]["version"] == version, "and the version")
print("1..%d" % len(results))
