# SPDX-License-Identifier: BSD-3-Clause
"""What the user reads where the notebook changes a setting that was read at the start."""

import os
import re

import pytest
from cellspan._worker import late_settings

TOP = os.path.join(os.path.dirname(__file__), "../../..")


@pytest.fixture
def late(monkeypatch):
    """Of a home whose kernel was started with these."""
    for name in [name for name in os.environ if name.startswith("CELLSPAN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CELLSPAN_SEED", "5")
    return late_settings.LateSettings()


def test_a_setting_that_is_set_late_is_named_once_with_what_to_do(late, monkeypatch):
    assert late.lines() == []
    monkeypatch.setenv("CELLSPAN_SEED", "7")
    monkeypatch.setenv("CELLSPAN_HANG_NOTICE", "5min")
    assert late.lines() == [
        "CELLSPAN_HANG_NOTICE=5min has no effect now: settings are read when the kernel starts; set it where Jupyter is started, or in cellspan.toml",
        "CELLSPAN_SEED=7 has no effect now: settings are read when the kernel starts, and 5 still counts; write --seed 7 behind %%distribute, or "
        "set it where Jupyter is started, or in cellspan.toml"]
    assert late.lines() == []
    monkeypatch.setenv("CELLSPAN_SEED", "5")
    assert late.lines() == [], "that is what counts"
    monkeypatch.delenv("CELLSPAN_SEED")
    assert late.lines() == ["CELLSPAN_SEED was removed here, which has no effect now: settings are read when the kernel starts, and 5 still counts; "
                            "unset it where Jupyter is started"]
    monkeypatch.setenv("CELLSPAN_ON", "ssh:a,b --x\n" + "c" * 100)
    (line,) = late.lines()
    assert "\n" not in line and len(line) < 400 and "write --on " in line


def test_what_home_reads_when_it_needs_it_is_not_named(late, monkeypatch):
    monkeypatch.setenv("CELLSPAN_CAPTURE_LIMIT", "1G")
    monkeypatch.setenv("CELLSPAN_CODE", "never")
    monkeypatch.setenv("CELLSPAN_HOROVOD", "real")
    monkeypatch.setenv("CELLSPAN_MINE", "1")
    assert late.lines() == [], "the first cell reads the limit"
    monkeypatch.setenv("CELLSPAN_CAPTURE_LIMIT", "2G")
    assert late.lines() == ["CELLSPAN_CAPTURE_LIMIT=2G has no effect now: settings are read when the first distributed cell runs, and 1G still counts; "
                            "set it where Jupyter is started, or in cellspan.toml"]


def test_the_options_are_those_of_the_magic():
    with open(os.path.join(TOP, "magics/distribute.c"), encoding="utf-8") as file:
        defaults = set(re.findall(r"CELLSPAN_[A-Z_]*[A-Z]", file.read()))
    assert defaults == set(late_settings.OPTIONS)
