#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures how the product's C files depend on each other, and checks the limits. Prints TAP; `measure.py --table` prints figures.

It reads the text alone, without comments and strings. A file depends on another file if it names one of that file's functions.
A circle is a set of files that can all be reached from each other. Calls through tables of functions are not seen.
"""
import collections
import os
import pathlib
import re
import sys

TOP = pathlib.Path(os.environ.get("top_srcdir", "."))
FOLDERS = ("base", "protocol", "magics", "kernel", "worker", "launchers", "cli")

CIRCLE = 4  # files, in a folder and over the whole program
MUTUAL = 3  # pairs of files of a folder that call each other
FIELDS = 40  # of a struct; tables of function pointers may have more
OWN_FIELDS = {"cell": 24, "notebook": 24}
ALL_FIELDS = {"cell": 76, "notebook": 69}  # with those of the structs of the same header that stand in it by value
# The structs whose fields, also those of structs in them, are each written by one file
OWNED = {"kernel/cell/cell.h": "cell", "kernel/notebook/notebook.h": "notebook"}
MANY_WRITERS = {"cell": 3, "notebook": 11}  # fields of these structs that several files write; the header says which files, and why
CALLBACKS = 21  # of kernel/notebook/cell_ops.h


def bare(text):
    """Without comments, string literals and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"^\s*#.*(\\\n.*)*$", "", text, flags=re.M)


def exported(text):
    """The functions that a .c file defines and others may call."""
    found = re.finditer(r"^([A-Za-z_][\w \t\*]*?[ \t\*])(\w+)\(([^;{}]*)\)\s*\n\{", text, re.M)
    return [m[2] for m in found if not m[1].lstrip().startswith(("static", "return", "else", "typedef")) and m[2] != "main"]


def circles(graph):
    """The strongly connected components (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for v in graph:
        if v not in index:
            visit(v)
    return found


def body(text, start):
    """From behind an opening brace to the closing one."""
    depth, at = 1, start
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]


class Tree:
    def __init__(self, top):
        files = [path for folder in FOLDERS for path in sorted((top / folder).rglob("*.[ch]"))]
        self.text = {str(path.relative_to(top)): bare(path.read_text(errors="replace")) for path in files}
        self.sources = {name: text for name, text in self.text.items() if name.endswith(".c")}
        self.macros = "\n".join(re.findall(r"^#define.*(?:\\\n.*)*", "\n".join(path.read_text() for path in files), re.M))
        self.tests = "\n".join(path.read_text(errors="replace") for path in (top / "tests").rglob("*.[ch]"))
        self.calls = self._calls()
        self.folders = sorted({self.folder(name) for name in self.sources})

    @staticmethod
    def folder(name):
        return name.rsplit("/", 1)[0]

    def _calls(self):
        defined = collections.defaultdict(list)
        for name, text in self.sources.items():
            for function in exported(text):
                defined[function].append(name)
        graph = {name: set() for name in self.sources}
        for name, text in self.sources.items():
            static = set(re.findall(r"^static[^;{}=]*?\b(\w+)\(", text, re.M))
            for word in set(re.findall(r"(?<![.>\w])(\w+)\b", text)) - static:
                if word in defined and name not in defined[word]:  # two programs may each define it: the nearest is meant
                    graph[name].add(max(defined[word], key=lambda other: len(os.path.commonprefix([other, name]))))
        return graph

    def inside(self, folder):
        """The calls between the files of a folder."""
        files = {name for name in self.sources if self.folder(name) == folder}
        return {name: self.calls[name] & files for name in files}

    def largest_circle(self, folder=None):
        return max(circles(self.inside(folder) if folder else self.calls), key=len)

    def mutual(self, folder):
        graph = self.inside(folder)
        return sorted((a, b) for a in graph for b in graph[a] if a < b and a in graph[b])

    def folder_circles(self):
        graph = {folder: set() for folder in self.folders}
        for name, others in self.calls.items():
            graph[self.folder(name)] |= {self.folder(other) for other in others} - {self.folder(name)}
        return [circle for circle in circles(graph) if len(circle) > 1]

    def structs(self):
        """{tag: [(file, fields)]}. Fields of a nested struct count for it and for the outer one, pointers to functions do not."""
        found = collections.defaultdict(list)
        for name, text in self.text.items():
            for m in re.finditer(r"\bstruct\s+(\w+)\s*\{", text):
                inner = re.sub(r"\([^()]*\)", "", body(text, m.end()))
                lines = [line for line in inner.split(";") if line.strip(" \n\t}")]
                functions = len(re.findall(r"\(\*\w+\)", body(text, m.end())))
                fields = sum(len([part for part in line.split(",") if part.strip()]) for line in lines)
                found[m[1]].append((name, fields - functions))
        return found

    def all_fields(self, name, tag):
        """The fields of a struct, each as "outer.inner" if it is in a struct of the same header that stands there by value."""
        inside = body(self.text[name], re.search(rf"\bstruct\s+{tag}\s*\{{", self.text[name]).end())
        for line in re.sub(r"\{[^{}]*\}", "", inside).split(";"):
            for part in filter(str.strip, line.split(",")):
                field = re.findall(r"\w+", re.sub(r"\[.*", "", part))[-1]
                by_value = re.match(rf"\s*struct\s+(\w+)\s+{field}\s*$", line)
                if by_value and re.search(rf"\bstruct\s+{by_value[1]}\s*\{{", self.text[name]):
                    yield from (f"{field}.{inner}" for inner in self.all_fields(name, by_value[1]))
                else:
                    yield field

    def writers(self, name, tag):
        """{field: the files that write it}, for fields that several files write. `tag` is also the pointers' name, or its first letter is."""
        pointer = rf"\b(?:{tag}|{tag[0]}|{tag[0]}b|nb->{tag})->"
        found = {}
        for field in self.all_fields(name, tag):
            at = pointer + re.escape(field) + r"\b"
            write = re.compile(rf"{at}\s*(?:[-+*|&^]?=(?!=)|\+\+|--)|(?:\+\+|--){at}")
            files = sorted(source for source, text in self.sources.items() if f"struct {tag} *" in text and write.search(text))
            if len(files) > 1:
                found[field] = files
        return found

    def called_by_tests_alone(self):
        words = {name: collections.Counter(re.findall(r"\w+", text)) for name, text in self.sources.items()}
        every = sum(words.values(), collections.Counter(re.findall(r"\w+", self.macros)))
        in_tests = set(re.findall(r"\w+", self.tests))
        return [f"{name}: {f}" for name, text in self.sources.items() for f in exported(text) if every[f] == 1 and f in in_tests]

    def named_after_another_file(self):
        stems = collections.defaultdict(list)
        for name in self.sources:
            stems[self.folder(name)].append(pathlib.Path(name).stem)
        found = []
        for name, text in self.sources.items():
            folder, stem = self.folder(name), pathlib.Path(name).stem
            for function in exported(text):
                owner = max((s for s in stems[folder] if function.startswith(s + "_")), key=len, default=stem)
                own = owner in (stem, pathlib.Path(folder).name) or stem.startswith(owner) or function.startswith(stem.split("_")[0] + "_")
                if not own:
                    found.append(f"{name}: {function}")
        return found


def checks(tree):
    """(sentence, what is wrong) for each limit."""
    structs = tree.structs()
    callbacks = re.findall(r"\(\*\w+\)", tree.text["kernel/notebook/cell_ops.h"])
    over = tree.largest_circle()
    yield f"at most {CIRCLE} files call each other in a circle", over if len(over) > CIRCLE else []
    for folder in tree.folders:
        yield f"{folder}: at most {MUTUAL} pairs of files call each other", tree.mutual(folder)[MUTUAL:]
    yield "no folders call each other in a circle", tree.folder_circles()
    yield f"a struct has at most {FIELDS} fields", [
        f"struct {tag} {n} ({name})" for tag, places in structs.items() for name, n in places if n > OWN_FIELDS.get(tag, FIELDS)
    ]
    for name, tag in OWNED.items():
        fields, shared = list(tree.all_fields(name, tag)), tree.writers(name, tag)
        yield f"struct {tag} has at most {ALL_FIELDS[tag]} fields, with those of the structs in it", fields[ALL_FIELDS[tag] :]
        yield f"several files write at most {MANY_WRITERS[tag]} of them", shared.items() if len(shared) > MANY_WRITERS[tag] else []
    yield "a struct tag is defined once", [f"struct {tag}: {places}" for tag, places in structs.items() if len(places) > 1]
    yield "no function is called by tests alone", tree.called_by_tests_alone()
    yield "no function is named after another file", tree.named_after_another_file()
    yield f"a cell has at most {CALLBACKS} callbacks", callbacks[CALLBACKS:]


def table(tree):
    print("| folder | files | calls between them | mutual pairs | largest circle |\n| --- | --- | --- | --- | --- |")
    for folder in tree.folders:
        graph = tree.inside(folder)
        figures = (len(graph), sum(map(len, graph.values())), len(tree.mutual(folder)), len(tree.largest_circle(folder)))
        print("|", folder, "|", " | ".join(map(str, figures)), "|")


def main():
    tree = Tree(TOP)
    if "--table" in sys.argv:
        return table(tree)
    bad = number = 0
    for number, (what, wrong) in enumerate(checks(tree), 1):
        print(f"{'not ok' if wrong else 'ok'} {number} - {what}")
        for one in wrong:
            print("#", one)
        bad += bool(wrong)
    print(f"1..{number}")
    return bad > 0


sys.exit(main())
