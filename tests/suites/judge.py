"""Judges the result of a suite: `judge.py SUITE JUNIT.xml README.md`. README.md's table names the tests that may fail, and why.

The exit status is 0 if no other test failed.
"""

import re
import sys
import xml.etree.ElementTree as tree

ROW = re.compile(r"^\| ([\w-]+) \| `([^`]+)` \|", re.M)


def named(readme, suite):
    """The tests of a suite that the table names, as results() does."""
    return {test for name, test in ROW.findall(readme) if name == suite}


def results(xml):
    """{test: "passed", "failed" or "skipped"} of a file that pytest wrote. Tests are named with their class, or their file;
    one that fails and then fails to tidy up stands there twice."""
    found = {}
    for case in tree.parse(xml).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        how = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = case.get("classname", "").rpartition(".")[2] + "." + case.get("name")
        found[name] = "failed" if found.get(name) == "failed" else how
    return found


def main(suite, xml, readme):
    with open(readme, encoding="utf-8") as file:
        may_fail = named(file.read(), suite)
    try:
        found = results(xml)
    except (OSError, tree.ParseError) as error:
        print(f"== {suite}: it did not run: {error}; see .build/logs/suite-{suite}.log")
        return 1
    counts = {how: sum(1 for each in found.values() if each == how) for how in ("passed", "failed", "skipped")}
    surprises = sorted(test for test, how in found.items() if how == "failed" and test not in may_fail)
    for test in surprises:
        print(f"FAILED {test}")
    for test in sorted(may_fail & {test for test, how in found.items() if how == "passed"}):
        print(f"passed, though README.md names it: {test}")
    print(f"== {suite}: {counts['passed']} passed, {counts['failed']} failed ({counts['failed'] - len(surprises)} of them named in "
          f"README.md), {counts['skipped']} skipped")
    return 1 if surprises or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
