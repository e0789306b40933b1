# SPDX-License-Identifier: BSD-3-Clause
"""Prints how many tests of a JUnit file passed and failed, "N M". Skipped tests count as neither."""

import sys
import xml.etree.ElementTree

suites = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testsuite"))
total, failed, errors, skipped = (
    sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
)
print(total - failed - errors - skipped, failed + errors)
