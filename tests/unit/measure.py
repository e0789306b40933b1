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

CIRCLE = 2  # files, in a folder and over the whole program
MUTUAL = 2  # pairs of files of a folder that call each other
CALLERS = 46  # files that call one file; those of base/ may have more
LINES = 600  # of a file
SHORT = 35  # files of at most SHORT_LINES lines: what has one caller and no subject of its own stands with its caller
SHORT_LINES = 60
RUNS = 2  # of at least RUN_LINES lines that stand in two places of the product and its C tests
RUN_LINES = 6
FIELDS = 37  # of a struct; tables of function pointers may have more
OWN_FIELDS = {"cell": 23, "notebook": 25}
ALL_FIELDS = {"cell": 68, "notebook": 68}  # with those of the structs of the same header that stand in it by value
REACHED_FIELDS = 114  # of struct cell and all structs of kernel/cell/*.h that it has, by value or by a pointer
# The structs whose fields, also those of structs in them, are each written by one file
OWNED = {"kernel/cell/cell.h": "cell", "kernel/notebook/notebook.h": "notebook"}
MANY_WRITERS = {"cell": 3, "notebook": 10}  # fields of these structs that several files write; the header says which files, and why
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

    def reached_fields(self, folder, tag):
        """The fields of a struct and of all structs of the folder's headers that it has, by value or by a pointer, each struct once."""
        headers = {name: text for name, text in self.text.items() if name.startswith(folder + "/") and name.endswith(".h")}
        bodies = {m[1]: body(text, m.end()) for text in headers.values() for m in re.finditer(r"\bstruct\s+(\w+)\s*\{", text)}
        left, found = [tag], []
        while left:
            inside = re.sub(r"\b(?:struct|enum)\s+\w*\s*\{", "{", bodies[left[-1]])
            outer = left.pop()
            found += [f"{outer}: {' '.join(line.split())}" for line in re.split(r"[;,{}]", inside) if re.search(r"\w", line)]
            for constant, inner in re.findall(r"(const\s+)?struct\s+(\w+)\b(?!\s*\{)", bodies[outer]):
                if inner in bodies and not constant and not any(each.startswith(inner + ": ") for each in found) and inner not in left:
                    left.append(inner)
        return found

    def callers(self):
        """{file: the files that call it}"""
        found = collections.defaultdict(list)
        for name, others in self.calls.items():
            for other in others:
                found[other].append(name)
        return found

    def included_in_circles(self):
        includes = {name: set() for name in self.text if name.endswith(".h")}
        for name in includes:
            wanted = re.findall(r'^#include "([^"]+)"', (TOP / name).read_text(errors="replace"), re.M)
            includes[name] = {other for other in wanted if other in includes}
        return [circle for circle in circles(includes) if len(circle) > 1]

    def long(self):
        return sorted(name for name in self.text if (TOP / name).read_text(errors="replace").count("\n") > LINES)

    def short(self):
        return sorted(name for name in self.sources if (TOP / name).read_text(errors="replace").count("\n") <= SHORT_LINES)

    def runs(self):
        """Runs of lines that stand twice: (place, place, lines). Blank lines, comments, braces, includes and what stands often don't count."""
        files = [TOP / name for name in self.text] + sorted((TOP / "tests/unit").rglob("*.[ch]"))
        lines = {}
        for path in files:
            code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), path.read_text(errors="replace"), flags=re.S)
            kept = [(n, " ".join(line.split())) for n, line in enumerate(code.split("\n"), 1)]
            lines[str(path.relative_to(TOP))] = [(n, s) for n, s in kept if re.search(r"\w", s) and not s.startswith("#include")]
        places = collections.defaultdict(list)
        for name, kept in lines.items():
            for at in range(len(kept) - RUN_LINES + 1):
                places[tuple(s for _, s in kept[at : at + RUN_LINES])].append((name, at))
        twice = {(a, b) for found in places.values() if len(found) <= 8 for a in found for b in found if a < b}
        starts = sorted((a, b) for a, b in twice if ((a[0], a[1] - 1), (b[0], b[1] - 1)) not in twice)
        return [f"{a[0]}:{lines[a[0]][a[1]][0]} and {b[0]}:{lines[b[0]][b[1]][0]}" for a, b in starts]

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
    yield "no headers include each other in a circle", tree.included_in_circles()
    many = {name: len(found) for name, found in tree.callers().items() if not name.startswith("base/")}
    yield f"at most {CALLERS} files call one file", [f"{name}: {n}" for name, n in many.items() if n > CALLERS]
    yield f"a file has at most {LINES} lines", tree.long()
    yield f"at most {SHORT} files have {SHORT_LINES} lines or fewer", tree.short() if len(tree.short()) > SHORT else []
    yield f"at most {RUNS} runs of {RUN_LINES} lines stand twice", tree.runs() if len(tree.runs()) > RUNS else []
    yield f"a struct has at most {FIELDS} fields", [
        f"struct {tag} {n} ({name})" for tag, places in structs.items() for name, n in places if n > OWN_FIELDS.get(tag, FIELDS)
    ]
    for name, tag in OWNED.items():
        fields, shared = list(tree.all_fields(name, tag)), tree.writers(name, tag)
        yield f"struct {tag} has at most {ALL_FIELDS[tag]} fields, with those of the structs in it", fields[ALL_FIELDS[tag] :]
        yield f"several files write at most {MANY_WRITERS[tag]} of them", shared.items() if len(shared) > MANY_WRITERS[tag] else []
    reached = tree.reached_fields("kernel/cell", "cell")
    yield f"struct cell and the structs that it has have at most {REACHED_FIELDS} fields", reached if len(reached) > REACHED_FIELDS else []
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
