#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
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
    "its magics need its own kernel": "the place is the fault",
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

# Words that tell what to do, or which value, form or place is right. A text that ends with the words of somebody else leaves it to them.
DOES = re.compile(
    r"did you mean|such as|is missing|nothing follows|can't be used together|\bit is a\b|is wanted|the values are|the largest|ranks 0|no rank \{\} in|"
    r"\b(?:add|call|choose|convert|define|derive|drop|fill|give|install|leave out|make|move|name|names|open|pass|provide|put|reduce|repartition|"
    r"return|run|runs|say|says|see|set|setting|take|try|unset|use|write)\b|"
    r"\b(?:needs?|must|has to|should|takes?|knows|may|is for|are for|are a|at least|at most|it has the form|has letters|or newer|or more)\b|"
    r"\b(?:only|works?) (?:with|in|on)\b|only '|from \S+ to\b|is not supported; |, not \S+$|\([^)]*(?:\blists\b|-\w|%|=|,|\{|\d)", re.I)
QUOTES = re.compile(r"(?::|\.) (?:%s|\{\}|)$")
# Texts that state a fact, and why there is nothing to do.
STATES = {
    "out of memory": "the machine's state",
    "/proc: %s": "the machine's state",
    "Invalid config type!": "what follows says which one is right",
    "the cell does not start with": "no user meets it: the kernel has looked before",
    "that is no cell of cellspan's magics": "no user meets it: the kernel has looked before",
    "these arguments can't be passed on": "no user meets it: each was looked at before",
    "the kernel was started, but does not answer": "what it wrote stands above",
    "the kernel ended before the cell did": "what it wrote stands above",
    "cellspan's kernel was started, but does not answer": "what it wrote stands above",
    "stdout can't be written": "the reader is gone",
    "it does not answer": "a row of a table",
    "it was started without a connection file": "a row of a table",
    "it stopped answering": "a row of a table",
    "is no kernel of cellspan's: it starts": "where one would be replaced, --name follows",
    "%s: kernel %ld does not end": "SIGKILL was sent: the system keeps it",
    "has no attribute": "Python's own text",
    "{} did not arrive": "what failed stands above",
    "the kernel sent no table of ranks": "no user meets it: it always sends one",
    "does not support": "pyspark's own text",
    "Cannot check successful()": "ipyparallel's own text",
    "slots were requested": "spark-tensorflow-distributor's own text",
    "Expected more than 1 value per channel": "torch's own text",
    "An experiment is currently running": "Maggy's own text",
    "cannot broadcast torch.optim.LBFGS state": "Horovod's own text",
    "was not created or has been cleared": "Horovod's own text",
    "gradient_predivide_factor not supported": "Horovod's own text",
    "A parameter can only appear once": "Horovod's own text",
    "CELLSPAN_HOROVOD=real: Horovod sees": "it asks whether the build is to blame",
    "have a sum of": "both sums are in the text",
    "has no error to look at": "there is none",
    "map() gives it": "the function and the items are the user's",
    "the cell awaits, though": "no user meets it: Python refuses such a cell",
    "practice": "no user meets it: it is raised to warm up",
}


def says_what_to_do(text):
    """Does an error say what to do, or need not?"""
    own = re.sub(r"%[.*\d]*l*[sduzc]|\{\}", "", text)
    return not re.search(r"[A-Za-z]{2}", own) or bool(DOES.search(text) or QUOTES.search(text)) or any(key in text for key in STATES)


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
    failed |= report(6, "each says what to do, quotes who does, or states a fact", [(w, t) for w, t, _ in both if not says_what_to_do(t)])
    bare = [text for _, text, has in both if not has]
    failed |= report(7, "each reason is for a text that is there", [("NO_VALUE", key) for key in NO_VALUE if not any(key in text for text in bare)])
    states = [text for _, text, _ in both if not DOES.search(text) and not QUOTES.search(text)]
    failed |= report(8, "and for one that needs it", [("STATES", key) for key in STATES if not any(key in text for text in states)])
    print("1..8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
