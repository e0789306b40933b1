# SPDX-License-Identifier: BSD-3-Clause
"""Judges the result of a suite: `judge.py SUITE JUNIT.xml README.md`. README.md's tables say how many tests pass at least, and
which tests fail, or may fail, and with which words.

The exit status is 0 if so many tests passed, each failure is one that README.md names, with its words, and each test that the table
says fails has failed or was skipped.
"""

import re
import sys
import xml.etree.ElementTree as tree
from typing import NamedTuple

ROW = re.compile(r"^\| ([\w-]+) \| `([^`]+)` \| (fails|may fail) \| `([^`]+)` \|", re.M)
COUNT = re.compile(r"^\| ([\w-]+) \| [^|]+ \| [^|]+ \| (\d+) of (\d+)", re.M)


class Known(NamedTuple):
    always: bool  # it fails; else both outcomes were seen
    words: str  # in the text of its failure


class Result(NamedTuple):
    how: str  # "passed", "failed" or "skipped"
    text: str  # of the failure


def named(readme, suite):
    """{test: Known} of the tests of a suite that the table names, as results() does."""
    return {test: Known(how == "fails", words) for name, test, how, words in ROW.findall(readme) if name == suite}


def floor(readme, suite):
    """How many tests of a suite pass at least."""
    return next(int(passed) for name, passed, _ in COUNT.findall(readme) if name == suite)


def results(xml):
    """{test: Result} of a file that pytest wrote. Tests are named with their class, or their file; one that fails and then fails to
    tidy up stands there twice."""
    found = {}
    for case in tree.parse(xml).getroot().iter("testcase"):
        name = case.get("classname", "").rpartition(".")[2] + "." + case.get("name")
        text = "\n".join(child.get("message", "") + "\n" + (child.text or "") for child in case if child.tag in ("failure", "error"))
        how = "failed" if text else "skipped" if case.find("skipped") is not None else "passed"
        before = found.get(name)
        if before and before.how == "failed":
            how, text = "failed", before.text + text
        found[name] = Result(how, text)
    return found


def surprises(found, known):
    """A line for each test whose result is not the one that README.md tells."""
    for test, result in sorted(found.items()):
        row = known.get(test)
        if result.how == "failed" and not row:
            yield f"FAILED {test}"
        elif result.how == "failed" and row.words not in result.text:
            yield f"FAILED {test}: not with the words of README.md: {row.words}"
        elif result.how == "passed" and row and row.always:
            yield f"passed, though README.md says that it fails: {test}"
    for test in sorted(known.keys() - found.keys()):
        yield f"did not run, though README.md names it: {test}"


def main(suite, xml, readme):
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    known, least = named(text, suite), floor(text, suite)
    try:
        found = results(xml)
    except (OSError, tree.ParseError) as error:
        print(f"== {suite}: it did not run: {error}; see .build/logs/suite-{suite}.log")
        return 1
    lines = list(surprises(found, known))
    counts = {how: sum(1 for each in found.values() if each.how == how) for how in ("passed", "failed", "skipped")}
    if counts["passed"] < least:
        lines.append(f"only {counts['passed']} tests passed: README.md says at least {least}")
    for line in lines:
        print(line)
    print(f"== {suite}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
