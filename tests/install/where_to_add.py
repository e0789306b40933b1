# SPDX-License-Identifier: BSD-3-Clause
"""where_to_add.py DIR PYTHON: proves four rows of docs/architecture.md's table "Where to add what".

It takes a copy of the sources in DIR and adds messages between the kernel and home, ranks and an agent, an option of %%distribute, a magic and a module with another package's
name, as a newcomer would who knows only the table. Each addition may touch the files and folders that its row names, and no other.
Then it builds the copy as it is released, checks that tables and documents agree there, and uses what is new in a notebook. PYTHON
has the packages of the tests. additions.py has the edits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import additions

TOP = Path(__file__).resolve().parents[2]
PAGE = "docs/architecture.md"
# What compares tables with documents, lists of files with folders, and stubs with functions.
PROGRAMS = ("tests/unit/protocol/table.t", "tests/unit/magics/words.t", "tests/unit/base/settings.t")
SCRIPTS = ("tests/unit/rooms.sh", "tests/unit/documented.sh")
PYTESTS = ("tests/unit/worker/test_types.py", "tests/unit/worker/test_dropins.py")


def copy_to(tree):
    """Copies what git knows, and what it would know; where there is no git, all that was unpacked."""
    if not (TOP / ".git").exists():
        shutil.copytree(TOP, tree, ignore=shutil.ignore_patterns(".build", "__pycache__"), dirs_exist_ok=True)
        return
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, capture_output=True, check=True)
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (TOP / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, tree / name)


def rows(tree):
    """{what is added: (the files that its row names, the folders for new files, the folders in which it says what that does)}."""
    text = (tree / PAGE).read_text()
    table = text[text.index("## Where to add what"):].split("\n## ")[0]
    found = {}
    for what, where in re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.M):
        named = re.findall(r"`([\w./-]+)`", where) + [os.path.normpath("docs/" + link) for link in re.findall(r"\]\(([\w./-]+\.md)", where)]
        files, folders, before = set(), set(), ""
        does = {folder.rstrip("/") for folder in re.findall(r"does, in `([\w./-]+)`", where)}
        for name in named:
            if "/" not in name and before:  # "`from_home.c`" behind "`kernel/dispatch/from_ranks.c`"
                name = f"{os.path.dirname(before)}/{name}"
            if (tree / name).is_dir():
                folders.add(name.rstrip("/"))
            elif (tree / name).is_file():
                files.add(name)
            else:
                continue  # a name in the code
            before = name
        found[what] = files, folders, does
    return found


def apply(tree, what, edits, allowed):
    """Makes the edits of one addition; fails if the row does not name one of the files, or names one that is not needed."""
    files, folders, does = allowed
    for path, edit in edits.items():
        folder, is_new = os.path.dirname(path), not (tree / path).exists()
        above = folder if (tree / folder).is_dir() else os.path.dirname(folder)  # a new folder
        if path not in files and folder not in does and not (is_new and above in folders):
            sys.exit(f"{what}: {path} must change, and its row in {PAGE} does not name it")
        old = (tree / path).read_text() if (tree / path).exists() else ""
        new = edit(old)
        if new == old:
            sys.exit(f"{what}: nothing was changed in {path}")
        (tree / folder).mkdir(exist_ok=True)
        (tree / path).write_text(new)
    spare = files - set(edits) - set(additions.NOT_ALWAYS.get(what, ()))
    if spare:
        sys.exit(f"{what}: its row in {PAGE} names {', '.join(sorted(spare))}, which did not have to change")


def must(tree, name, *command, **env):
    """Runs a command in the copy; shows the end of what it said if it fails."""
    print("==", name, flush=True)
    done = subprocess.run(command, cwd=tree, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-6000:]}\n{name}: failed")
    return done.stdout


def build(tree, python):
    """Builds and installs the copy with the options of a release; returns where Jupyter finds its kernel."""
    venv = Path(python).parents[1]
    shared = os.environ.get("CCACHE_DIR", str(TOP / ".build" / "ccache"))
    must(tree, "build", "bash", "-c", f'. tests/setup.sh && venv="{venv}" && build_release && make -C .build/build install', CCACHE_DIR=shared)
    made = tree / ".build"
    must(tree, "kernelspec", made / "prefix/bin/cellspan", "install", "--prefix", made / "jupyter", "--python", python)
    return made / "jupyter/share/jupyter"


def check(tree, python):
    """What compares lists and documents must be content: nothing had to be added elsewhere."""
    built = tree / ".build/build"
    must(tree, "tests' programs", "make", "-C", built, *PROGRAMS)
    for program in PROGRAMS[:2]:
        must(tree, program, built / program, top_srcdir=str(tree))
    for script in SCRIPTS:
        must(tree, script, "sh", script, top_srcdir=str(tree), top_builddir=str(built))
    must(tree, "Python's tests", python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PYTESTS, PYTHONPATH=str(tree / ".build/prefix/lib/cellspan/python"))


def shown_by(client, code):
    """A cell's status, and all that it shows as one text."""
    said = []

    def hook(message):
        content = message["content"]
        said.append(content.get("text") or content.get("data", {}).get("text/plain") or "\n".join(content.get("traceback", ())))

    reply = client.execute_interactive(code, timeout=200, output_hook=hook)["content"]
    return reply["status"], "\n".join(filter(None, said))


def use(tree):
    """Runs cells that use what was added."""
    from jupyter_client.manager import start_new_kernel

    shown = must(tree, "cellspan run --help", tree / ".build/prefix/bin/cellspan", "run", "--help")
    assert "--greeting TEXT" in shown, shown
    manager, client = start_new_kernel(kernel_name="cellspan")
    try:
        of_copy = ("import cellspan; print(cellspan.__file__)", (str(tree),))
        for code, wanted in (of_copy, *additions.CELLS):
            for _ in range(100):  # an agent may answer after the next cell has begun
                status, text = shown_by(client, code)
                if status != "ok" or all(one in text for one in wanted):
                    break
                time.sleep(0.2)
            print(code, text, sep="\n", flush=True)
            assert status == "ok" and all(one in text for one in wanted), (wanted, status)
        for code, wanted in additions.COMPLETIONS:
            offered = client.complete(code, reply=True, timeout=200)["content"]["matches"]
            assert wanted in offered, (code, offered)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def main():
    folder, python = Path(sys.argv[1]).resolve(), sys.argv[2]
    tree = folder / "cellspan"
    shutil.rmtree(folder, ignore_errors=True)
    tree.mkdir(parents=True)
    copy_to(tree)
    table = rows(tree)
    for what, edits in additions.EDITS.items():
        if what not in table:
            sys.exit(f"{PAGE} has no row for {what}")
        apply(tree, what, edits, table[what])
    os.environ["JUPYTER_PATH"] = str(build(tree, python))
    check(tree, python)
    use(tree)


if __name__ == "__main__":
    main()
