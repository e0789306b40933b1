# SPDX-License-Identifier: BSD-3-Clause
"""Prints what each step of tests/run, tests/package or tests/clients took, and the twenty slowest tests.

Its argument is a folder. NAME.times there is what `timed` in tests/checks.sh wrote: the two lines of bash's `times` (the
shell's own processor time, then that of its children), and when the step began and ended. pytest-NAME.xml are JUnit files.
`processors` has the first line of /proc/stat, from the begin and from the end: a kernel's ranks are nobody's children when they end,
so the steps' times lack theirs.
"""

import os
import pathlib
import re
import sys
import xml.etree.ElementTree

SLOWEST = 20


def seconds(text):
    """Of "1m2.345s"."""
    minutes, rest = re.fullmatch(r"(\d+)m([\d.]+)s", text).groups()
    return 60 * int(minutes) + float(rest)


def step(path):
    words = path.read_text().replace(",", ".").split()  # some languages write a comma
    began, ended = map(float, words[-2:])
    return began, ended, sum(map(seconds, words[:-2])), path.name[: -len(".times")]


def machine(path):
    """(seconds that all processors together were busy, and that they were there), whatever for."""
    first, last = ([int(word) for word in line.split()[1:9]] for line in path.read_text().splitlines())
    passed = [(b - a) / os.sysconf("SC_CLK_TCK") for a, b in zip(first, last)]
    return sum(passed) - passed[3] - passed[4], sum(passed)  # without idle and iowait


def tests(path):
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        yield float(case.get("time", 0)), "%s::%s" % (case.get("classname", "").replace(".", "/") + ".py", case.get("name"))


def main(logs):
    steps = sorted(step(path) for path in logs.glob("*.times"))
    if not steps:
        return
    print("%9s %9s %9s  %s" % ("begins", "seconds", "processor", "step"))
    for began, ended, processor, name in steps:
        print("%9.0f %9.0f %9.0f  %s" % (began - steps[0][0], ended - began, processor, name))
    wall = max(ended for _, ended, _, _ in steps) - steps[0][0]
    print("%9s %9.0f %9.0f  %s" % ("", wall, sum(processor for _, _, processor, _ in steps), "all of it"))
    print("%9s %9s %9.0f  the machine, of %.0f" % ("", "", *machine(logs / "processors")))
    slowest = sorted((test for path in logs.glob("pytest-*.xml") if path.exists() for test in tests(path)), reverse=True)[:SLOWEST]
    if slowest:
        print("%9s  %s" % ("seconds", "the slowest tests"))
    for took, name in slowest:
        print("%9.1f  %s" % (took, name))


main(pathlib.Path(sys.argv[1]))
