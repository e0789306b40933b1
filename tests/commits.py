#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the messages of commits: those since the last tag, or else since the branch left the main one, or else all that are here.

    tests/commits.py [FOLDER]

Names each commit that breaks a rule, and ends with status 1 if there is one. The rules, which CONTRIBUTING.md explains:
- The subject has at most 72 characters. It begins with a folder or another word for the area, or with several of them and commas, and
  `: `, and says what changes.
- A body says why. Lines such as `Signed-off-by: …` alone are none.
Merges and reverts are free, and so is what was committed before the rules were made. A shallow clone, or one without tags, has fewer
commits to check; the last line says which were checked.
"""
import os
import re
import subprocess
import sys

SUBJECT_MAX = 72  # characters
AREA = r"[a-z0-9_.][\w.+-]*(/[\w.+-]+)*"
SUBJECT = re.compile(rf"{AREA}(, {AREA})*: \S")
TRAILER = re.compile(r"[A-Z][\w-]+: \S")
BEFORE = 1795824000  # 2026-11-28; what was written before may break the rules


def git(folder, *words):
    """What git prints; None: it fails, or is not there."""
    command = ["git", "-c", "safe.directory=*", "-C", folder, *words]  # a container's root may look at a user's folder
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def base_of(folder):
    """(where the commits to check begin, in words; its name, or None for all that are here)."""
    tag = git(folder, "describe", "--tags", "--abbrev=0", "HEAD^")  # HEAD itself may have one
    if tag:
        return f"since {tag}", tag
    head = git(folder, "rev-parse", "HEAD")
    for main in ("origin/HEAD", "origin/main", "main"):
        met = git(folder, "merge-base", main, "HEAD")
        if met and met != head:
            return f"since {main}", met
    if git(folder, "rev-parse", "--is-shallow-repository") == "true":
        return "that this shallow clone has", None
    return "of all, for there is no tag", None


def faults(subject, body):
    """What is wrong with a message."""
    if len(subject) > SUBJECT_MAX:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT_MAX} are allowed"
    if not SUBJECT.match(subject):
        yield "the subject does not begin with a folder and `: `, such as `docs: `"
    if not any(line.strip() and not TRAILER.match(line) for line in body.splitlines()):
        yield "there is no body that says why"


def is_merge(folder, name, parents):
    """Of a commit at the edge of a shallow clone, git log names no parents."""
    if not parents:
        head = (git(folder, "cat-file", "commit", name) or "").split("\n\n")[0]
        parents = " ".join(re.findall(r"^parent (\w+)$", head, re.M))
    return " " in parents


def check(folder):
    """The exit status."""
    if git(folder, "rev-parse", "--verify", "HEAD") is None:
        print("commits: nothing is checked, for this is no clone, or git is not installed")
        return 0
    where, base = base_of(folder)
    log = git(folder, "log", "--format=%h%x00%P%x00%at%x00%s%x00%b%x01", f"{base}..HEAD" if base else "HEAD")
    checked = wrong = 0
    for one in (log or "").split("\x01"):
        if not one.strip():
            continue
        name, parents, written, subject, body = one.strip("\n").split("\0")
        if int(written) < BEFORE or subject.startswith('Revert "') or is_merge(folder, name, parents):
            continue
        checked += 1
        told = list(faults(subject, body))
        wrong += bool(told)
        for fault in told:
            print(f"{name} {subject}\n    {fault}")
    print(f"commits: {checked} checked {where}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
