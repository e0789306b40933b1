# SPDX-License-Identifier: BSD-3-Clause
"""The substitute for ipykernel.zmqshell: the real module is imported once at most, and sys.modules keeps its order."""

import importlib
import pickle
import sys

import pytest
from cellspan._jupyter import fake_zmqshell

REAL = "import ipykernel\nimport ipykernel.zmqshell as self\nipykernel.runs += 1\nclass ZMQDisplayPublisher: pass\n"


class Shell:
    pass


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The substitute beside a package ipykernel, whose files a test writes into this folder."""
    package = tmp_path / "ipykernel"
    package.mkdir()
    (package / "__init__.py").write_text("runs = 0\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ipykernel"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(fake_zmqshell, "_real", [], raising=False)
    fake_zmqshell.install(Shell)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "ipykernel"]:
        del sys.modules[name]


def test_names_come_from_the_real_module_which_is_imported_once(fake):
    (fake / "zmqshell.py").write_text(REAL)
    module, order = sys.modules[fake_zmqshell.NAME], list(sys.modules)
    for _ in range(3):
        assert not hasattr(module, "nosuch") and module.ZMQDisplayPublisher.__module__ == fake_zmqshell.NAME
    assert sys.modules["ipykernel"].runs == 1 and module.ZMQInteractiveShell is Shell
    assert [name for name in sys.modules if name in order] == order and sys.modules[fake_zmqshell.NAME] is module
    assert importlib.import_module(fake_zmqshell.NAME) is module and sys.modules["ipykernel"].zmqshell is module


@pytest.mark.parametrize("text", [None, "import ipykernel\nipykernel.runs += 1\nraise ImportError('no traitlets')",
                                  "import ipykernel\nipykernel.runs += 1\nraise OSError('broken')",
                                  "import ipykernel, sys\nipykernel.runs += 1\nsys.modules['ipykernel.zmqshell'].later"])
def test_one_that_can_not_be_imported_is_tried_once(fake, text):
    if text is not None:
        (fake / "zmqshell.py").write_text(text)
    module = sys.modules[fake_zmqshell.NAME]
    for _ in range(3):
        with pytest.raises(AttributeError, match="no attribute nosuch"):
            module.nosuch
    assert sys.modules["ipykernel"].runs == (text is not None) and sys.modules[fake_zmqshell.NAME] is module


def test_pickle_that_looks_for_a_name_in_each_module_ends(fake):
    import cellspan.horovod.torch  # noqa: F401 - it has a submodule whose names are refused
    import numpy

    (fake / "zmqshell.py").write_text(REAL)
    for _ in range(3):
        with pytest.raises(pickle.PicklingError):
            pickle.dumps(numpy.frompyfunc(lambda x: x, 1, 1))
    assert sys.modules["ipykernel"].runs <= 1
