# SPDX-License-Identifier: BSD-3-Clause
"""What type checkers know of the interface: the stubs are those of PEP 561, in cellspan-stubs beside the package."""

from __future__ import annotations

import ast
import glob
import os
import re
import subprocess
import sys
import textwrap

import cellspan
import pytest
from cellspan import _call_options, _map

FOLDER = os.path.dirname(cellspan.__file__)
STUBS = FOLDER + "-stubs"
# stubtest takes positional names as part of an interface; map()'s stubs have names where the function has *iterables.
ALLOWED = r"cellspan\._map\.map"

RIGHT = """
    from typing import Union

    import cellspan
    import cellspan.horovod.torch as hvd
    from cellspan import px
    from cellspan.horovod import HorovodRunner
    from cellspan.maggy import experiment
    from cellspan.maggy.config import TorchDistributedConfig
    from cellspan.tensorflow import MirroredStrategyRunner
    from cellspan.torch import TorchDistributor


    def square(x: int) -> float:
        return x * 0.5


    def train(rate: float, epochs: int = 1) -> dict[str, float]:
        return {"loss": rate * cellspan.rank() / cellspan.world_size() + cellspan.local_rank()}


    @cellspan.distributed(n=2)
    def decorated(x: int) -> str:
        return str(x)


    one: dict[str, float] = cellspan.run(train, 0.1, n=2, epochs=3, timeout="1.5m", env={"A": "b"})
    every: list[dict[str, float]] = cellspan.run(train, 0.1, n="gpu", gather=True, ranks=[0, 1])
    cellspan.run("train.py", "--rate", 0.1, n=2)
    called: list[float] = cellspan.call(square, (3,), gather=True)
    halves: list[float] = cellspan.map(square, range(4), n=2)
    sums: list[str] = cellspan.map(lambda a, b: a + b, ["a"], ["b"])
    tried: list[float] = cellspan.map(square, range(4), retries=1)
    kept: list[Union[float, Exception]] = cellspan.map(square, range(4), return_exceptions=True, retries=1)
    ranks: cellspan.Group = cellspan.group(on="ssh:host1")
    ranks.push(a=1)
    table: list[dict[str, object]] = ranks.ranks()
    loss: float = ranks.run(square, 3)
    texts: list[str] = decorated.distributed(3)
    view: px.DirectView = px.Client(n=2)[:]
    result: px.AsyncResult = view.apply_async(square, 3)
    loss = TorchDistributor(num_processes=2, use_gpu=False).run(square, 3)
    loss = cellspan.torch.TorchDistributor(num_processes=2).run(square, 3)
    loss = HorovodRunner(np=2).run(square, x=3)
    loss = MirroredStrategyRunner(num_slots=2).run(square, x=3)
    found = experiment.lagom(train, TorchDistributedConfig(module=dict), n=2)
    hvd.init()
    try:
        cellspan.run(square, 1)
    except cellspan.RemoteError as error:
        print(error.traceback, hvd.rank() + 1, cellspan.__version__)
"""
WRONG = """
    import cellspan
    import torch
    from cellspan.torch import TorchDistributor
    from torch.nn.modules import batchnorm


    def square(x: int) -> float:
        return x * 0.5


    cellspan.rnu(square, 1)
    cellspan.run(square, 1, n=2.5)
    text: str = cellspan.run(square, 1)
    cellspan.run(3)
    cellspan.run(square, 1, merge="fould")
    cellspan.call(square, 1)
    cellspan.call(square, (1,), x=2)
    cellspan.map(square, ["a"])
    cellspan.map(square, range(3), chunk=2)
    cellspan.map(square, range(3), retries="2")
    surely: list[float] = cellspan.map(square, range(3), return_exceptions=True)
    cellspan.rank(1)
    cellspan.distributed(n=2)(square).distributed("a")
    cellspan.group().size()
    TorchDistributor(processes=2)
    torch.Tensr
    torch.optim.Optimzer
    batchnorm._BatchNrm
"""
# Of torch, mypy reads what has the names that the stubs use, as the last lines of WRONG prove: all of torch takes it 13 s more.
READ = "torch torch._C torch._tensor torch.optim torch.optim.optimizer torch.nn torch.nn.modules torch.nn.modules.*"


def checked(folder, *command, **environment):
    """What a type checker says, for a Python that has the package in its path."""
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(FOLDER), MYPY_CACHE_DIR=os.devnull, **environment)
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True)


def modules():
    stems = {name.partition(".")[0] for name in os.listdir(STUBS)} - {"__init__", "_worker", "py"}
    names = ["cellspan." + stem for stem in sorted(stems)]  # with a package stubtest takes those in it
    assert len(names) >= 9, names
    return names


def test_mypy_finds_wrong_calls_and_no_others(tmp_path):
    (tmp_path / "right.py").write_text("import %s\n" % ", ".join(modules()) + textwrap.dedent(RIGHT))
    (tmp_path / "wrong.py").write_text(textwrap.dedent(WRONG))
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs" / "cellspan").symlink_to(STUBS)  # it names the errors of what is in MYPYPATH, but not of what is installed
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n[mypy-%s]\nfollow_imports = normal\n" % READ.replace(" ", ","))
    said = checked(tmp_path, "mypy", "--strict", "right.py", "wrong.py", MYPYPATH=str(tmp_path / "stubs")).stdout
    assert ".pyi:" not in said, said
    found = {(name, int(line)) for name, line in re.findall(r"^(\w+)\.py:(\d+): error", said, re.M)}
    lines = textwrap.dedent(WRONG).split("\n")
    first = next(at for at, line in enumerate(lines, 1) if line.startswith("cellspan."))
    assert found == {("wrong", at) for at in range(first, len(lines))}, said


def test_the_stubs_are_as_the_functions(tmp_path):
    """Without the types of torch, whose reading takes most of a minute: whether it has those that stubs name, mypy says above."""
    (tmp_path / "allowed").write_text(ALLOWED + "\n")
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")
    done = checked(tmp_path, "mypy.stubtest", "--concise", "--ignore-missing-stub", "--mypy-config-file", "mypy.ini", "--allowlist", "allowed",
                   *modules())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stub, function, known", [
    ("_api", "run", _call_options.OF_CALLS), ("_api", "call", _call_options.OF_CALLS), ("_map", "map", _map._OPTIONS)])
def test_the_stubs_have_the_options_of_the_table(stub, function, known):
    """Each overload, and of map() as well, whose stubs stubtest does not compare."""
    with open(os.path.join(STUBS, stub + ".pyi"), encoding="utf-8") as file:
        overloads = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef) and node.name == function]
    own = {"chunksize", "retries", "return_exceptions"} if function == "map" else set()
    assert len(overloads) >= 3
    for node in overloads:
        types = {one.arg: ast.unparse(one.annotation) for one in node.args.kwonlyargs}
        assert set(types) == {*known, *own}, (function, node.lineno)
        for row in known.values():
            wanted = ("bool", "Literal[True]", "Literal[False]") if row.is_flag else (types[row.argument].replace(" | None", "") + " | None",)
            assert types[row.argument] in wanted, (function, node.lineno, row.argument)


@pytest.mark.parametrize("alias, option", [("_Merge", "merge"), ("_Init", "init")])
def test_the_stubs_have_the_words_of_the_table(alias, option):
    with open(os.path.join(STUBS, "_api.pyi"), encoding="utf-8") as file:
        (words,) = re.findall(rf"(?m)^{alias} = .*Literal\[([^]]*)\]", file.read())
    assert tuple(ast.literal_eval(f"({words},)")) == _call_options.OF_CALLS[option].words


def test_each_module_that_users_import_is_a_folder_of_the_stubs():
    """Pyright warns of other stubs: it finds no source beside them. The sources are below _dropin/."""
    stubs = [os.path.relpath(path, STUBS)[: -len(".pyi")].split(os.sep) for path in glob.glob(os.path.join(STUBS, "**", "*.pyi"), recursive=True)]
    public = [names for names in stubs if not any(name.startswith("_") and name != "__init__" for name in names)]
    assert ["horovod", "torch", "__init__"] in public
    assert [names for names in public if names[-1] != "__init__"] == []
