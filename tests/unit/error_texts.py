#!/usr/bin/env python3
"""Collects the texts of errors that users can meet, from the calls that make them, and holds each against what an error owes its
reader: it names the value, it says what to do, it has no name that only the source knows, and it suggests nothing that destroys
without saying so. With --list it prints the texts. TAP."""

from __future__ import annotations

import ast
import os
import re
import sys

TOP = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# What only the source, the protocol or the processes call so.
INTERNAL = re.compile(
    r"\b(zygote|memfd|blobs?|ledger|fingerprint|span|spool|outbox|struct|nullptr|assert|cellspan\._\w+|_cellspan\w*|SPAN_\w+|PLAN_\w+|"
    r"DONE|CAPTURED?|HELLO|EXITED|STACKS|errno)\b")
DESTROYS = re.compile(r"--fresh|%%?ranks (?:stop|restart)|cellspan (?:stop|uninstall)|rm -rf?|kill -9")
SAYS_SO = re.compile(r"\bends?\b|\bended\b|start(?:s|ed)? (?:new|anew|again|afresh)|remove|again|gone|frees?\b|new ranks")

# Calls of the user's own words whose first text is the error. Errors of the system, of memory and of the protocol are for the log, or
# follow a text that names what was tried.
C_CALLS = {"magics": r"(?:err_set|err_null|wrong)\(\s*(?:&?\w[\w.>-]*,\s*)*?", "cli": r"(?:err_set|err_null)\(\s*&?\w[\w.>-]*,\s*",
           "kernel/cell": r'cell_fail\(\s*\w+,\s*"UsageError",\s*', "kernel/ranks": r'cell_fail\(\s*\w+,\s*"UsageError",\s*'}
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*(?:PRI\w+\s*)?)+)'

# How texts without a value begin, or what is in them: why they need none.
BEGINS = {"the kernel ": "no word of the user is wrong", "it ": "the name of the kernel stands before it"}
NO_VALUE = {
    "out of memory": "the value is the machine's",
    "there is no python3 on PATH": "nothing was given",
    "which script?": "nothing was given",
    "which rank?": "nothing was given",
    "which kernel?": "nothing was given",
    "there is nothing to run": "the body is empty",
    "needs a value": "the option is in the text",
    "can't be used together": "both options are in the text",
    "only in a notebook": "the option is in the text",
    "too many options set the environment": "the options are counted",
    "these arguments can't be passed on": "all of them",
    "HOME is not set": "the variable is in the text",
    "stdout can't be written": "the stream is in the text",
    "%%distribute runs a script": "the code is the value",
    "this is a rank: ": "the place is the fault",
    "pull() needs the name": "nothing was given",
    "map() needs something": "nothing was given",
    "what does not block must be begun": "the thread is the fault",
    "was called while this thread's other call": "the time is the fault",
    "needs its parentheses": "nothing was given",
    "say where, such as": "the argument is in the text",
    "works in the function that TorchDistributor": "the place is the fault",
    "Cannot check successful()": "ipyparallel's own text",
    "display_outputs() is for results of": "the result is the value",
    "the cell does not start with": "no user meets it: the kernel has looked before",
    "that is no cell of cellspan's magics": "the cell is the value",
    "holds a NUL character": "it can't be shown",
    "the kernelspec can't be written as JSON": "it can't be shown",
}


def needs_none(text):
    """Does an error need no value in its text?"""
    return text.startswith(tuple(BEGINS)) or any(key in text for key in NO_VALUE)


def c_texts():
    for folder, call in C_CALLS.items():
        pattern = re.compile(call + TEXT, re.S)
        for name in sorted(os.listdir(os.path.join(TOP, folder))):
            if name.endswith(".c"):
                with open(os.path.join(TOP, folder, name), encoding="utf-8") as file:
                    source = file.read()
                for found in pattern.finditer(source):
                    text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(1)))
                    has = found.group(0).startswith("wrong") or re.search(r"%[.*\d]*l*[sduzc]", text.replace("%%", ""))  # wrong() writes it
                    yield f"{folder}/{name}:{source[:found.start()].count(chr(10)) + 1}", text.replace('\\"', '"'), bool(has)


def text_of(node):
    """(text, whether it has a value in it) of a string or an f-string; None: it is something else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value, False
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values), True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left), text_of(node.right)]
        known = [part for part in parts if part]
        return ("".join(part[0] for part in known), len(known) < 2 or any(part[1] for part in known)) if known else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        left = text_of(node.left)
        return left and (left[0], True)
    return None


INTERFACE = re.compile(r"worker/python/cellspan/_\w+\.py")  # those of _dropin/ are often the other package's
USERS = ("TypeError", "ValueError", "UsageError", "AttributeError", "NotAtHomeError", "NameError", "NotImplementedError", "RuntimeError")


def python_texts():
    package = os.path.join(TOP, "worker", "python", "cellspan")
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                call = node.exc if isinstance(node, ast.Raise) else None
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in USERS and call.args:
                    found = text_of(call.args[0])
                    if found:
                        yield f"{os.path.relpath(path, TOP)}:{node.lineno}", found[0], found[1]


def report(number, sentence, bad):
    print(f"{'not ok' if bad else 'ok'} {number} - {sentence}")
    for where, text in bad:
        print(f"# {where}: {text}")
    return bool(bad)


def main():
    in_c, in_python = list(c_texts()), list(python_texts())
    both = in_c + in_python
    if "--list" in sys.argv:
        for where, text, _ in both:
            print(f"{where}\t{text}")
        return 0
    failed = report(1, "there are some hundred of them", [] if len(in_c) > 80 and len(in_python) > 80 else [("found", f"{len(in_c)} and {len(in_python)}")])
    failed |= report(2, "none has a name that only the source knows", [(w, t) for w, t, _ in both if INTERNAL.search(t)])
    failed |= report(3, "none suggests what destroys without saying so", [(w, t) for w, t, _ in both if DESTROYS.search(t) and not SAYS_SO.search(t)])
    failed |= report(4, "each of a command or a magic names the value, or needs none",
                     [(w, t) for w, t, has in in_c if not has and not needs_none(t)])
    failed |= report(5, "each TypeError and ValueError of the interface names the value, or needs none",
                     [(w, t) for w, t, has in in_python if INTERFACE.match(w) and not has and not needs_none(t)])
    bare = [text for _, text, has in both if not has]
    failed |= report(6, "each reason is for a text that is there", [("NO_VALUE", key) for key in NO_VALUE if not any(key in text for text in bare)])
    print("1..6")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
