# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tests of the worker's parts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def nb():
    """A notebook's variables, as home has them; some files have one of their own, with more."""
    from notebook import Notebook

    notebook = Notebook()
    yield notebook
    notebook.close()


@pytest.fixture(scope="module")
def zygote():
    """One for all tests of a file: its imports take a while."""
    from fake_agent import Zygote, adopt_orphans

    adopt_orphans()
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture(scope="module")
def torch_programs():
    """Runs programs that need torch, which it has imported for all of them."""
    pytest.importorskip("torch")
    from torch_programs import TorchPrograms

    programs = TorchPrograms()
    yield programs
    programs.close()


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The environment of a home: settings of IPython that are empty."""
    return {"IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))}


@pytest.fixture(scope="session")
def forked_homes():
    from fake_agent import environment
    from forked_homes import ForkedHomes

    homes = ForkedHomes(environment())
    yield homes
    homes.close()


@pytest.fixture
def home(settings, forked_homes):
    from forked_homes import ForkedHome

    home = ForkedHome(forked_homes, settings)
    yield home
    home.close()
