#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/commits.py on clones of its own: which commits it checks, and what it says of them. Prints TAP."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(os.environ.get("top_srcdir", ".")).resolve() / "tests" / "commits.py"
LONG = "docs: " + "a" * 66  # 72 characters
FILES = ("base/err.c", "docs/guide.md", "kernel/cell/cell.c", ".ci/run", "tests/e2e/client.py", "worker/ext/link.c", "README.md", "Makefile.am")
count = 0
scratch = tempfile.mkdtemp(prefix="commits-")
one = os.path.join(scratch, "one")
settings = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
settings.update({f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in (
    ("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2030-01-01T00:00:00Z"))})
settings.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", HOME=scratch)


def ok(good, what):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {what}")


def git(*words, folder=one, date=None):
    dates = {"GIT_AUTHOR_DATE": date} if date else {}
    subprocess.run(["git", *words], cwd=folder, env={**settings, **dates}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def commit(subject, *body, date=None):
    git("commit", "--allow-empty", *(word for part in (subject, *body) for word in ("-m", part)), date=date)


def commit_on(branch):
    """The branch, which has a commit more than main."""
    git("checkout", "-b", branch)
    commit("base: on another branch", "Why.")
    git("checkout", "main")
    return branch


def said(folder=one):
    """(the exit status, the lines)."""
    done = subprocess.run([sys.executable, str(CHECK), folder], env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def wrong(*message):
    """What is said of one more commit, which then goes."""
    commit(*message)
    status, text = said()
    git("reset", "--hard", "HEAD^")
    return text if status == 1 else ""


def twice(subject):
    """What is said of two commits of this subject, the first of which removes its folder. They go again."""
    git("rm", "-r", "base")
    commit(subject, "Why.")
    commit(subject, "Why.")
    text = said()[1]
    git("reset", "--hard", "HEAD~2")
    return text


def main():
    os.mkdir(one)
    ok(said() == (0, "commits: nothing is checked, for this is no clone, or git is not installed\n"), "a folder that is no clone")
    git("init", "-b", "main")
    ok(said()[0] == 0, "a clone without commits")
    for path in FILES:
        file = pathlib.Path(one, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    git("add", ".")
    commit("First", date="2026-11-01T00:00:00Z")
    ok(said() == (0, "commits: 0 checked of all, for there is no tag, 0 wrong\n"), "what is older than the rules may break them")
    commit("base: sets are quicker", "They were slow.")
    commit(LONG, "It has 72 characters.\n\nSigned-off-by: A <a@example.org>")
    ok(said() == (0, "commits: 2 checked of all, for there is no tag, 0 wrong\n"), "messages that keep the rules")
    ok("has 73 characters, at most 72 are allowed" in wrong(LONG + "a", "Why."), "a subject that is too long")
    for subject in ("Sets are quicker", "base:sets", "base sets: quicker", "base,cli: sets", "fixup! base: sets"):
        ok("does not begin with a folder" in wrong(subject, "Why."), f"the subject {subject!r}")
    for subject in ("kernel/cell: x", ".ci: x", "tests/e2e: x", "all: x", "ci, build: x", "kernel, worker/ext: x", "README: x", "Makefile.am: x", "base/err.c: x"):
        ok(wrong(subject, "Why.") == "", f"the subject {subject!r}")
    for subject in ("variables: x", "kernel/e2e: x", "base, cell: x", "Base: x", "err.c: x"):
        ok("there is no " in wrong(subject, "Why."), f"the subject {subject!r}")
    git("rm", "-r", "base")
    ok(wrong("base: it is gone", "Why.") == "" and "there is no base" in twice("base: it is gone"), "a folder that the commit removes")
    ok("no body" in wrong("base: x"), "a message without a body")
    ok("no body" in wrong("base: x", "Signed-off-by: A <a@example.org>"), "a body of trailers alone")
    ok(wrong('Revert "base: x"') == "", "a revert is free")
    git("checkout", "-b", "topic")
    commit("no folder")
    ok(said()[1].endswith("commits: 1 checked since main, 1 wrong\n"), "a branch is checked from where it left the main one")
    git("checkout", "main")
    commit("base: y", "Why.")
    git("merge", "--no-ff", "-m", "Merge branch 'topic'", "topic")
    ok(said()[1].endswith("commits: 4 checked of all, for there is no tag, 1 wrong\n"), "a merge is free, and what it brings is not")
    git("tag", "v1")
    commit("base: z", "Why.")
    ok(said() == (0, "commits: 1 checked since v1, 0 wrong\n"), "after a tag, only what follows it is checked")
    git("tag", "v2")
    ok(said() == (0, "commits: 1 checked since v1, 0 wrong\n"), "a tag of the last commit does not hide it")
    git("clone", "--depth", "1", "--no-tags", "file://" + one, "shallow", folder=scratch)
    ok(said(os.path.join(scratch, "shallow")) == (0, "commits: 1 checked that this shallow clone has, 0 wrong\n"), "a shallow clone")
    git("merge", "--no-ff", "-m", "Merge branch 'other'", commit_on("other"))
    git("clone", "--depth", "1", "--no-tags", "file://" + one, "merged", folder=scratch)
    ok(said(os.path.join(scratch, "merged")) == (0, "commits: 0 checked that this shallow clone has, 0 wrong\n"), "a shallow clone of a merge")
    git("checkout", "--detach", folder=os.path.join(scratch, "merged"))
    ok(said(os.path.join(scratch, "merged")) == (0, "commits: 0 checked that this shallow clone has, 0 wrong\n"), "the same without a branch")


if shutil.which("git") is None:
    print("1..0 # SKIP git is not installed")
else:
    try:
        main()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"1..{count}")
