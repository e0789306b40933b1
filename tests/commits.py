#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the messages of commits: those since the last tag, or else since the branch left the main one, or else all that are here.

    tests/commits.py [FOLDER]

Names each commit that breaks a rule, and ends with status 1 if there is one. The rules, which CONTRIBUTING.md explains:
- The subject has at most 72 characters. It begins with a folder or a file that the commit or its parent has (of `README.md` and the like
  without `.md`), with `all`, `build` or `ci`, or with several of these and commas. Then come `: ` and what changes.
- A body says why. Lines such as `Signed-off-by: …` alone are none.
Merges and reverts are free, and so is what was committed before the rules were made. A shallow clone, or one without tags, has fewer
commits to check; the last line says which were checked.
"""
import os
import re
import subprocess
import sys

SUBJECT_MAX = 72  # characters
AREA = r"[\w.][\w.+-]*(?:/[\w.+-]+)*"
SUBJECT = re.compile(rf"({AREA}(?:, {AREA})*): \S")
WORDS = {"all", "build", "ci"}  # areas that are no folder
TRAILER = re.compile(r"[A-Z][\w-]+: \S")
BEFORE = 1795824000  # 2026-11-28; what was written before may break the rules
EXCEPTIONS = {  # begin with a word, which was allowed then
    "contributing: the row of tests/engines/run names files that are there",
    "jupyter: the first Tab waits as long as a busy machine needs",
    "kernel, agent: no word of ranks and of lines that are gone",
}


def git(folder, *words, lines=()):
    """What git prints; None: it fails, or is not there. lines: its stdin."""
    command = ["git", "-c", "safe.directory=*", "-C", folder, *words]  # a container's root may read a user's folder
    try:
        done = subprocess.run(command, input="\n".join(lines).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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


def missing(folder, name, areas):
    """Those of the areas that neither the commit nor its parent has."""
    areas = [area for area in areas if area not in WORDS]
    asked = [(area, f"{at}:{area}{end}") for area in areas for at in (name, name + "^") for end in ("", ".md")]
    answers = (git(folder, "cat-file", "--batch-check", lines=[path for _, path in asked]) or "").splitlines() if asked else ()
    there = {area for (area, _), answer in zip(asked, answers) if not answer.endswith(" missing")}
    return [area for area in areas if area not in there]


def faults(folder, name, subject, body):
    """What is wrong with a message."""
    if len(subject) > SUBJECT_MAX:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT_MAX} are allowed"
    begin = SUBJECT.match(subject)
    if not begin:
        yield "the subject does not begin with a folder and `: `, such as `docs: `"
    elif missing(folder, name, begin[1].split(", ")):
        yield f"there is no {' and no '.join(missing(folder, name, begin[1].split(', ')))}: the subject begins with a folder, such as `docs: `"
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
        if int(written) < BEFORE or subject in EXCEPTIONS or subject.startswith('Revert "') or is_merge(folder, name, parents):
            continue
        checked += 1
        told = list(faults(folder, name, subject, body))
        wrong += bool(told)
        for fault in told:
            print(f"{name} {subject}\n    {fault}")
    print(f"commits: {checked} checked {where}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
