# SPDX-License-Identifier: BSD-3-Clause
"""Python's lists of magics and of places for names come from the tables of the kernel's magics."""

import re

import pytest
from cellspan import _link
from cellspan._jupyter import kernelmagics, requests


def test_home_has_the_magics_of_the_kernels_table():
    table = _link.magics()
    assert list(kernelmagics.LINE) == [magic["name"] for magic in table] and "ranks" in kernelmagics.LINE
    assert kernelmagics.CELL == ("distribute",)


def test_the_table_tells_what_an_option_takes_and_where_it_fits():
    options = {option["name"]: option for option in _link.magics()[0]["options"]}
    assert options["nproc"]["argument"] == "n" and options["nproc"]["words"] == ["gpu"]
    assert options["gather"]["value"] is None and options["gather"]["cell"] and not options["gather"]["line"]
    assert [name for name, option in options.items() if option["is_name"]] == ["into", "capture"]
    assert "help" not in options


@pytest.mark.parametrize("line", ["%push ab", "%pull x, ab", "%pull x --into=ab", "%%distribute --into ab", "%%distribute -n 2 --capture=x,ab"])
def test_names_are_typed_where_the_table_says(line):
    assert re.match(requests.NAME, line).group("name") == "ab"


@pytest.mark.parametrize("line", ["%ranks ab", "%%distribute --merge ab", "%distribute ab"])
def test_and_nowhere_else(line):
    assert re.match(requests.NAME, line) is None


def test_names_of_ranks_are_typed_behind_pull_alone():
    assert re.match(requests.PULLED, "%pull ab") and not re.match(requests.PULLED, "%pull x --into ab") and not re.match(requests.PULLED, "%push ab")
