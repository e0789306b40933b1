#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collects the texts of all errors that users can meet, from the calls that make them, and holds each against what an error owes its
reader: it names the value, it says what to do, it has no name that only the source knows, and it suggests nothing that destroys
without saying so. With --list it prints the texts. TAP.

In C these are the format of each call of C_CALLS in C_FOLDERS, and each function with a format is in C_CALLS or in C_OTHERS. In Python
it is what each error of the package is made from, wherever it is raised. What an extension module says to the package's own code
(worker/ext, worker/link, worker/collective) reaches users only behind a text that is held here."""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys

TOP = os.environ.get("top_srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# What only the source, the protocol or the processes call so.
INTERNAL = re.compile(
    r"\b(zygote|memfd|blobs?|ledger|fingerprint|span|spool|outbox|struct|nullptr|assert|cellspan\._\w+|_cellspan\w*|SPAN_\w+|PLAN_\w+|"
    r"DONE|CAPTURED?|HELLO|EXITED|STACKS|START|PUBLISH|READY|errno)\b")
DESTROYS = re.compile(r"--fresh|%%?ranks (?:stop|restart)|cellspan (?:stop|uninstall)|rm -rf?|kill -9|restart the kernel")
SAYS_SO = re.compile(r"\bends?\b|\bended\b|start(?:s|ed)? (?:new|anew|again|afresh)|remove|again|gone|frees?\b|new ranks")

C_FOLDERS = ("base", "kernel", "launchers", "magics", "cli", "worker/agent")
# The function that takes an error's text: the number of the argument with the text, from 0.
C_CALLS = {"err_set": 1, "err_null": 1, "cell_fail": 2, "cell_fail_in_words": 2, "wrong": 3, "refuse_call": 4, "ranks_answer": 4,
           "engine_run_fail": 1, "node_failures_lose": 2, "report_failed": 1, "report_gone": 1, "finding_say": 4, "worker_broke": 1}
# The other functions with a format: why their texts are no errors.
C_OTHERS = {
    "log_at": "the log",
    "blame": "a part of a line: why ranks can't be parked",
    "buf_addf": "any text",
    "buf_addv": "any text, as buf_addf()",
    "check_note": "a line of a table",
    "grid_add": "a field of a table",
    "output_note": "a line beside the output",
    "output_news": "a line beside the output",
    "report_busy": "progress",
    "report_say": "progress",
    "report_notice": "a notice states a fact",
    "say": "report_say() and report_failed() share it",
}
IN_WORDS = ("cell_fail_in_words",)  # somebody else's words follow the text
WITH_VALUE = ("wrong",)  # it writes the option and its value itself
CONVERSION = re.compile(r"%[.*\d]*[lz]*[sdugcf]")

# Files whose texts no user meets, or meets behind another text.
FILES = {
    "base/blob.c": "what it says of a file in memory, the log has",
    "base/loop/": "a program's own sockets and signals: the log has it",
    "base/mux/": "both ends are cellspan's own: a line on stderr has it, behind the name of the host",
    "launchers/relay_child.c": "the kernel sets that variable, and the agent says which ways it has tried",
    "kernel/blobs/": "what it says of a file in memory, the log has",
    "kernel/cell/park.c": "a part of a line: why ranks can't be parked",
    "worker/agent/gpu/checkpoint.c": "a part of a line: why ranks can't be parked",
    "kernel/merge/": "the kernel asks only for ranks and streams that are there",
    "worker/agent/net/": "agents speak to each other: the log has it, and users read which machine is gone",
    "worker/agent/relay": "a rank broke the protocol: the log has it, and users read how the rank ended",
    "worker/agent/processes/env.c": "the kernel sends no other environment",
    "worker/agent/start.c": "the kernel sends no other message",
    "worker/python/cellspan/_capture/vars_bundle.py": "a pickle that was torn on its way; the text around it names the variable",
    "worker/python/cellspan/_capture/origins.py": "no value has a pickle of an old kind, and a long one is left as it is",
    "worker/python/cellspan/_code/tree.py": "it follows 'the notebook has it, but', or the name of what --with asks for",
    "worker/python/cellspan/_worker/check.py": "the kernel asks for the steps of %ranks check in their order",
    "worker/python/cellspan/_worker/remote.py": "what is not plain is left out of an error's copy",
    "worker/python/cellspan/_install/unpack.py": "the launcher's text names the machine, and other folders are tried",
}

# How texts without a value begin, or what is in them: why they need none.
BEGINS = {"the kernel ": "no word of the user is wrong", "it ": "the name of the kernel stands before it"}
NO_VALUE = {
    "its pickle is of an old kind": "no value has one; who asks for it leaves the value as it is",
    "out of memory": "the value is the machine's",
    "there is no python3 on PATH": "nothing was given",
    "which script?": "nothing was given",
    "which rank?": "nothing was given",
    "which kernel?": "nothing was given",
    "there is nothing to run": "the body is empty",
    "needs a value": "the option is in the text",
    "can't be used together": "both options are in the text",
    "only in a notebook": "the option is in the text",
    "these arguments can't be passed on": "all of them",
    "HOME is not set": "the variable is in the text",
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
    "there are no ranks yet (run": "nothing was given",
    "no source of random numbers": "the value is the machine's",
    "no connection file is given": "nothing was given",
    "this machine has no address that": "the value is the machine's",
    "the agent that it is for is gone": "no user meets it: the text about the machine comes first",
    "by way of which it was to be reached": "the machine's name stands before it",
    "its files could not be read here": "the machine's name stands before it",
    "its files, or those of the Python packages": "the machine's name stands before it",
    "home has ended the call": "home has said why",
    "what home said of the cell's variables": "no user meets it: home sends nothing else",
    "that is no list of variables' names": "no user meets it: home sends nothing else",
    "%%ranks debug: ": "the time is the fault",
    "home has not answered for 10 s": "the time is in the text",
    "no ranks ran that cell": "-r and its value stand before it",
    "there is no srun on PATH": "nothing was given",
    "there is neither mpirun nor mpiexec on PATH": "nothing was given",
    "ssh needs hosts": "nothing was given",
    "there is no jupyter on PATH": "nothing was given",
    "Jupyter finds no kernel": "nothing was given",
    "no kernel of cellspan's runs": "nothing was given",
    "--connect is missing": "nothing was given",
    "stdin is closed": "nothing was given",
    "--serve: standard input": "no user starts it",
    "the list of GPUs is not one": "no user meets it: the probe sends nothing else",
    "no driver: NVIDIA's library": "the value is the machine's",
    "NVML: no permission": "the value is the machine's",
    "the agent ends": "the notebook ends",
    "the GPU driver does not answer": "the value is the machine's",
    "this process was forked from": "the place is the fault",
    "this is a process of multiprocessing": "the place is the fault",
    "not in one forked from it": "the place is the fault",
    "before they began this task": "the time is the fault",
    "another folder": "no user meets it: the next finder looks",
    "buffers of the call did not arrive": "no user meets it: they come before the call",
    "the call that needs it is over": "no user meets it: nothing asks for it any more",
    "the type of a library's functions": "it has no name",
    "a C function of ctypes": "it has no name",
    "the rank that began this process": "the module's name stands before it",
    "needs TensorFlow on the ranks": "the package is in the text",
    "The op parameter supersedes average": "Horovod's own text",
    "groups should be a non-negative integer": "Horovod's own text",
    "groups must consist of": "Horovod's own text",
    "A parameter can only appear once": "Horovod's own text",
    "compression may change the type": "the argument is in the text",
    "this DataLoader was made outside": "it has no name",
    "An experiment is currently running": "Maggy's own text",
    "TorchDistributor failed during training": "pyspark's own text",
    "but this client takes no input": "nothing was given",
    "standard input is rank 0's": "the place is the fault",
    "the process through which ranks meet": "the place is the fault",
    "interrupted while variables": "the interrupt is the user's own",
    "the cell awaits, though": "no user meets it: Python refuses such a cell",
    "the cell failed": "IPython has no error where it stopped",
}

INTERFACE = re.compile(r"worker/python/cellspan/_\w+\.py")

# Words that tell what to do, or which value, form or place is right. A text that ends with the words of somebody else leaves it to them.
DOES = re.compile(
    r"-> |did you mean|such as|--help (?:lists|shows)|is needed|[Tt]here are: |there is only|0 to %u|looks at|is missing|nothing follows|can't be used together|\bit is a\b|is wanted|the values are|the largest|ranks 0|no rank \{\} in|"
    r"\b(?:activate|add|ask|call|choose|copy|convert|define|derive|drop|fill|give|import|install|leave|make|move|name|names|open|pass|provide|put|read|reduce|repartition|"
    r"return|run|runs|say|says|see|send|sends|set|setting|submit|take|try|unset|use|wait|write)\b|"
    r"\b(?:needs?|must|has to|should|takes?|knows|may|can (?:only )?be|is for|are for|are a|at least|at most|it has the form|has letters|or newer|or more)\b|"
    r"\b(?:only|works?) (?:with|without|in|on)\b|only '|from \S+ to\b|is not supported; |, not \S+$|\([^)]*(?:\blists\b|-\w|%|=|,|\{|\d)", re.I)
QUOTES = re.compile(r"(?::|\.|\bbut) (?:%(?:\.\*)?s|\{\})*$")
# Texts that state a fact, and why there is nothing to do.
STATES = {
    "so it is not asked": "a row of ps --all; the process has to change, not who asks",
    "it was restarted, and its agent is gone": "the next cell starts the ranks again",
    ", and its agent is gone": "the next cell starts the ranks again",
    "its agent has ended": "the next cell starts the ranks again",
    "out of memory": "the machine's state",
    "Invalid config type!": "what follows says which one is right",
    "the cell does not start with": "no user meets it: the kernel has looked before",
    "that is no cell of cellspan's magics": "no user meets it: the kernel has looked before",
    "these arguments can't be passed on": "no user meets it: each was looked at before",
    "is no kernel of cellspan's: it starts": "where one would be replaced, --name follows",
    "has no attribute": "Python's own text",
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
    "the cell awaits, though": "no user meets it: Python refuses such a cell",
    "its child process failed before it ran": "the machine's state",
    "has not answered within %.3g s, and was ended": "who has started the program adds what to do",
    "the GPU driver does not answer": "the machine's state",
    "there is no node %u": "no user meets it: the kernel knows its machines",
    "rank %u's %s%s": "the rank's own words follow",
    "--timeout: the cell still ran": "the limit is the user's own",
    "connection file %s: ": "Jupyter writes it; the text says what is wrong there",
    "a value of %d bytes is too large": "no user meets it: no machine has the memory",
    "no GPUs to lend": "no user meets it: the agent lends what it has",
    "the list of GPUs is not one": "no user meets it: the probe sends nothing else",
    "is not the UUID of a GPU": "no user meets it: the driver has said it",
    "%s is held by %s": "the cell's error says behind it what to do",
    "%s is kept for %s": "the cell's error says behind it what to do",
    "its pickle is of an old kind": "no value has one; who asks for it leaves the value as it is",
    "--serve: standard input": "no user starts it",
    'there is no question "%s"': "no user meets it: the agent asks",
    "the agent ends": "the notebook ends",
    "another folder": "no user meets it: the next finder looks",
    "the kernel has ended": "there is no notebook any more",
    "not supported with Join": "Horovod's own text",
    "optimizer.zero_grad() was called after": "Horovod's own text",
    "TorchDistributor failed during training": "pyspark's own text",
    "a broadcast from rank": "no user meets it: the kernel gives each rank its own",
    "interrupted while variables": "the interrupt is the user's own",
    "the debugger does not answer": "the log has it; the page waits no longer",
    "a subshell serves no": "no user meets it: the kernel sends no other message",
    "the cell failed": "IPython has no error where it stopped",
    "home has no variable {}{}": "the names are in the text",
}



def says_what_to_do(text):
    """Does an error say what to do, or need not?"""
    own = CONVERSION.sub("", text).replace("{}", "")
    return not re.search(r"[A-Za-z]{2}", own) or bool(DOES.search(text) or QUOTES.search(text)) or any(key in text for key in STATES)


def needs_none(text):
    """Does an error need no value in its text?"""
    return text.startswith(tuple(BEGINS)) or any(key in text for key in NO_VALUE)


def files(folders, *endings):
    """The paths of the sources in these folders, those without an exception."""
    for top in folders:
        for folder, below, names in os.walk(os.path.join(TOP, top)):
            below.sort()
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), TOP)
                if name.endswith(endings):
                    yield path


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


# ---- C ----

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\w+|[^\s\w]', re.S)
DEFINE = re.compile(r'^#define (\w+)\s+((?:(?:\\\n)?\s*"(?:[^"\\]|\\.)*")+)$', re.M)
FORMATS = re.compile(r"(\w+)\([^()]*const char \*format[^()]*\)(?=[^;{]*PRINTF_LIKE)|PRINTF_LIKE\(\d, \d\) void (\w+)\(")


def in_quotes(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"').replace("\\n", "\n")


def defines(source):
    return {found.group(1): in_quotes(found.group(2)) for found in DEFINE.finditer(source)}


def literals(argument, known):
    """The texts in an argument: one, or several if it chooses. A macro that is no text of this source becomes a value."""
    texts, now = [], None
    for at, word in enumerate(argument):
        after = argument[at + 1] if at + 1 < len(argument) else ""
        if word.startswith('"') or word in known:
            now = (now or "") + (in_quotes(word) if word.startswith('"') else known[word])
        elif re.fullmatch(r"PRI\w+|[A-Z][A-Z0-9_]*", word) and (now is not None or after.startswith('"')):
            now = (now or "") + ("d" if word.startswith("PRI") else "%s")
        elif now is not None:
            texts.append(now)
            now = None
    return texts + ([now] if now is not None else [])


def arguments(tokens, at):
    """Those of the call whose "(" is there, each as its tokens."""
    found, depth = [[]], 0
    for word, _ in tokens[at:]:
        depth += (word in "([{") - (word in ")]}")
        if depth == 0:
            return found
        if word == "," and depth == 1:
            found.append([])
        elif depth > 1 or word != "(" or found != [[]]:
            found[-1].append(word)
    return found


def c_texts():
    sources = {path: read(path) for path in files(C_FOLDERS, ".c", ".h")}
    shared = {}
    for path, source in sources.items():
        if path.endswith(".h"):
            shared.update(defines(source))
    for path, source in sources.items():
        if not path.endswith(".c"):
            continue
        known = {**shared, **defines(source)}
        tokens = [(found.group(0), found.start()) for found in TOKEN.finditer(source) if not found.group(0).startswith(("/*", "//"))]
        for at in range(1, len(tokens) - 1):
            name = tokens[at][0]
            if name not in C_CALLS or tokens[at + 1][0] != "(" or tokens[at - 1][0] in ("int", "void", "define"):
                continue
            given, which = arguments(tokens, at + 1), C_CALLS[name]
            if ["FINE"] in given[:which] or ['"KeyboardInterrupt"'] in given[:which]:  # no error; and an interrupt is the user's own
                continue
            more = [text for argument in given[which + 1:] for text in literals(argument, known)]
            more += ["-> " + "".join(literals(given[which - 1], known))] if name == "finding_say" and given[which - 1] != ["NULL"] else []
            for text in literals(given[which], known):
                told = text + ("%s" if name in IN_WORDS else "")
                has = name in WITH_VALUE or CONVERSION.search(told.replace("%%", ""))
                yield f"{path}:{source[:tokens[at][1]].count(chr(10)) + 1}", told, more, bool(has)


def formats():
    """The functions of the C sources that take a format."""
    for path in files(C_FOLDERS, ".c", ".h"):
        for found in FORMATS.finditer(read(path)):
            yield path, found.group(1) or found.group(2)


# ---- Python ----


def text_of(node):
    """(text, whether it has a value in it) of a string or an f-string; None: it is something else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value, False
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values), True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(node.left), text_of(node.right)]
        known = [part for part in parts if part]
        return ("".join(part[0] if part else "{}" for part in parts), len(known) < 2 or any(part[1] for part in known)) if known else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        left = text_of(node.left)
        return left and (left[0], True)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return text_of(node.func.value)
    return None


def named(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def names_it(text):
    """Does a text without a value have the name of what is wrong in the user's own code? The interface's texts must have the value."""
    return bool(re.search(r"\w\(\)|\b\w+=|%\w|\b[A-Z]+_[A-Z_]+\b|\b\w+_\w+\b|\b[a-z]\w*\.[a-z]\w*\b|--\w", text))


class Module:
    """A module of the package: where its errors' texts come from."""

    def __init__(self, path):
        self.path, self.tree = path, ast.parse(read(path))
        self.functions, self.own = {}, {}  # own: the innermost function of each node
        self._walk(self.tree, self.tree)

    def _walk(self, node, function):
        for child in ast.iter_child_nodes(node):
            self.own[child] = function
            inner = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            if inner:
                self.functions.setdefault(child.name, []).append(child)
            self._walk(child, child if inner else function)

    def errors(self, classes):
        """The calls that make an error."""
        raised = {id(node.exc) for node in ast.walk(self.tree) if isinstance(node, ast.Raise)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (id(node) in raised or named(node.func) in classes):
                yield node

    def texts(self, node, function, deep=0):
        """(text, has a value) of all that an argument can be, as far as this module has the words."""
        found = text_of(node)
        if found:
            yield found
        elif isinstance(node, ast.IfExp):
            yield from self.texts(node.body, function, deep)
            yield from self.texts(node.orelse, function, deep)
        elif isinstance(node, ast.Name):
            for scope in (function, self.tree):
                for other in ast.walk(scope):
                    if isinstance(other, ast.Assign) and self.own[other] is scope and any(named(t) == node.id for t in other.targets) and deep < 4:
                        yield from self.texts(other.value, scope, deep + 1)
        elif isinstance(node, ast.Call):
            for other in self.functions.get(named(node.func), ()):
                for end in ast.walk(other):
                    if isinstance(end, ast.Return) and end.value is not None and deep < 4:
                        yield from self.texts(end.value, other, deep + 1)


def is_error(name, bases):
    """Is the class an exception?"""
    own = getattr(builtins, name, None)
    return isinstance(own, type) and issubclass(own, BaseException) or any(is_error(base, bases) for base in bases.get(name, ()))


def python_texts():
    modules = [Module(path) for path in files(("worker/python/cellspan",), ".py")]
    bases = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {named(base) for base in node.bases} - {None, node.name}
    classes = {name for name in (*bases, *dir(builtins)) if is_error(name, bases)} | {"UsageError", "PicklingError", "UnpicklingError"}
    for module in modules:
        for call in module.errors(classes):
            for argument in (*call.args, *(key.value for key in call.keywords if key.arg not in ("name", "path"))):
                for text, has in module.texts(argument, module.own[call]):
                    if " " in text:  # a word alone is an argument of the class
                        yield f"{module.path}:{call.lineno}", text, [], has


# ---- the rules ----


def report(number, sentence, bad):
    print(f"{'not ok' if bad else 'ok'} {number} - {sentence}")
    for where, text in bad:
        print(f"# {where}: {text}")
    return bool(bad)


def whole(row):
    return " | ".join([row[1], *row[2]])


def main():
    in_c, in_python = list(c_texts()), list(python_texts())
    if "--list" in sys.argv:
        for row in in_c + in_python:
            print(f"{row[0]}\t{whole(row)}")
        return 0
    used = {start for start in FILES for where, *_ in in_c + in_python if where.startswith(start)}
    in_c, in_python = ([row for row in rows if not row[0].startswith(tuple(FILES))] for rows in (in_c, in_python))
    both = in_c + in_python
    held = {name for _, name in formats()}
    unknown = [(path, name) for path, name in formats() if name not in C_CALLS and name not in C_OTHERS]
    failed = report(1, "there are some hundred of them, and each C function with a format is known",
                    unknown + ([] if len(in_c) > 300 and len(in_python) > 300 else [("found", f"{len(in_c)} and {len(in_python)}")]))
    failed |= report(2, "none has a name that only the source knows", [(row[0], whole(row)) for row in both if INTERNAL.search(whole(row))])
    failed |= report(3, "none suggests what destroys without saying so",
                     [(row[0], whole(row)) for row in both if DESTROYS.search(whole(row)) and not SAYS_SO.search(whole(row))])
    failed |= report(4, "each of C names the value, or needs none", [(w, t) for w, t, _, has in in_c if not has and not needs_none(t)])
    failed |= report(5, "each of Python names the value, or needs none",
                     [(w, t) for w, t, _, has in in_python if not has and not needs_none(t) and (INTERFACE.match(w) or not names_it(t))])
    failed |= report(6, "each says what to do, quotes who does, or states a fact",
                     [(row[0], whole(row)) for row in both if not says_what_to_do(row[1]) and not says_what_to_do(whole(row))])
    bare = [text for _, text, _, has in both if not has]
    failed |= report(7, "each reason is for a text that is there",
                     [("NO_VALUE", key) for key in NO_VALUE if not any(key in text for text in bare)]
                     + [("FILES", key) for key in FILES if key not in used] + [("C_OTHERS", key) for key in C_OTHERS if key not in held])
    states = [whole(row) for row in both if not DOES.search(whole(row)) and not QUOTES.search(row[1])]
    failed |= report(8, "and for one that needs it", [("STATES", key) for key in STATES if not any(key in text for text in states)])
    print("1..8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
