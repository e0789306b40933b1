# SPDX-License-Identifier: BSD-3-Clause
"""C++ that torch compiles, in this process alone."""

import os

from cellspan._worker import cpp_builds


def test_a_system_without_proc_keeps_torchs_own_lock(monkeypatch):
    helped = []
    monkeypatch.setattr(cpp_builds, "when_imported", lambda name, then: helped.append(name))
    cpp_builds.meet()
    monkeypatch.setattr(os.path, "isdir", lambda path: False)
    cpp_builds.meet()
    assert helped == [cpp_builds.CPP]
