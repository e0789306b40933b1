#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each link of a document to a file or a heading of the sources leads there. A heading's anchor must be the same in the repository, where
GitHub makes it, and in the site, where MkDocs does (docs/site finds such links, too, but builds the whole site for it). Prints TAP."""
import functools
import json
import os
import pathlib
import re
import unicodedata

TOP = pathlib.Path(os.environ.get("top_srcdir", ".")).resolve()
FENCED = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"\]\(\s*<?([^()<>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)|^ *\[[^]]+\]: +(\S+)", re.M)
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$", re.M)

results = []


def ok(passed, name):
    results.append(passed)
    print("%s %d - %s" % ("ok" if passed else "not ok", len(results), name))


def of_github(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def of_mkdocs(heading):
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(text):
    """Those on which both agree. A second heading of the same text gets a number, which each writes in its own way."""
    found = ([], [])
    for heading in HEADING.findall(FENCED.sub("", text)):
        shown = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        for made, names, mark in zip((of_github, of_mkdocs), found, "-_"):
            name = first = made(shown)
            count = 0
            while name in names:
                count += 1
                name = "%s%s%d" % (first, mark, count)
            names.append(name)
    return set(found[0]) & set(found[1])


def links(text):
    return [one or other for one, other in LINK.findall(CODE.sub("", FENCED.sub("", text)))]


@functools.lru_cache(None)
def anchors_of(path):
    return anchors(path.read_text(encoding="utf-8"))


def text_of(path):
    """A document, or what stands between the cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def documents():
    """Those of the sources: not of builds, of environments, nor of what editors keep."""
    for folder, inner, files in os.walk(TOP):
        inner[:] = [name for name in inner if name[0] != "." and name not in ("build", "dist") and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))]
        yield from (pathlib.Path(folder, name) for name in files if name.endswith((".md", ".ipynb")))


def dead(path):
    """The links of a document that lead nowhere."""
    for link in links(text_of(path)):
        if re.match(r"[a-z][a-z+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        to = path.parent / name if name else path
        if not to.exists() or (anchor and (to.suffix != ".md" or anchor not in anchors_of(to))):
            yield link


FIRST = "# A *b* and `c_d`\n## [Linked](x.md), too\n## Twice\n## Twice\n## One – two\n## Größe\n```\n## no heading\n[no](link)\n```\n"
ok(anchors(FIRST) == {"a-b-and-c_d", "linked-too", "twice"}, "an anchor counts if GitHub and MkDocs agree on it")
ok(links("[a](b.md#c) `[no](link)` [`d`\ne](<f.md> \"g\")\n![h](i.png)\n\n[j]: k.md\n" + FIRST) == ["b.md#c", "f.md", "i.png", "k.md", "x.md"],
   "links are found, but not in code")

pages = sorted(documents())
counted = sum(len(links(text_of(path))) for path in pages)
ok({TOP / "README.md", TOP / "docs" / "guide.md"} <= set(pages) and counted > 100, "%d documents with %d links" % (len(pages), counted))
for path in pages:
    wrong = list(dead(path))
    ok(not wrong, "no link of %s leads nowhere%s" % (path.relative_to(TOP), "".join(": " + link for link in wrong)))
print("1..%d" % len(results))
