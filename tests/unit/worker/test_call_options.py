# SPDX-License-Identifier: BSD-3-Clause
"""The options of run(), call(), map() and launch() are those of %%distribute, from the kernel's table."""

import importlib
import inspect
import pathlib
import re

import pytest

import cellspan
from cellspan import _api, _call_options, _jobs, _link, _map, _option_errors


def keywords(function):
    return [one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]


@pytest.fixture
def with_one_more(monkeypatch):
    """The modules, as they are if the kernel's table has one option more."""
    magics = _link.magics()
    options = next(magic["options"] for magic in magics if magic["name"] == "distribute")
    options += [{**options[0], "name": "new-one", "argument": None, "value": None, "words": []},
                {**options[0], "name": "speed", "argument": None, "value": "HOW", "words": ["fast", "slow"]}]
    monkeypatch.setattr(_link, "magics", lambda: magics)
    modules = (_call_options, _option_errors, _api, _map, _jobs)
    for module in modules:
        importlib.reload(module)
    yield
    monkeypatch.undo()
    for module in modules:
        importlib.reload(module)


def test_the_table_is_the_kernels():
    rows = {row.name: row for row in _call_options.ALL}
    assert rows["nproc"] == ("nproc", "n", False, ("gpu",)) and rows["no-gpu"] == ("no-gpu", "no_gpu", True, ())
    assert rows["merge"].words[0] == "fold" and "help" not in rows


def test_calls_have_its_options_but_for_those_of_cells():
    options = list(_call_options.OF_CALLS)
    assert options[0] == "n" and {"no_gpu", "seed", "timeout"} < set(options) and "into" not in options
    assert keywords(cellspan.run) == options == keywords(cellspan.call)
    assert [name for name in keywords(cellspan.map) if name in options] == [name for name in options if name not in ("init", "gather")]


def test_options_are_set_apart_from_the_functions_arguments():
    assert _call_options.split({"x": 1, "no_gpu": True, "n": 2}) == ({"nproc": 2, "no-gpu": True}, {"x": 1})
    with pytest.raises(TypeError, match=r"map\(\) has no option 'chunk': help\(cellspan.map\) lists them"):
        cellspan.map(abs, [1], chunk=2)
    with pytest.raises(TypeError, match=r"map\(\) has no option 'gather'"):
        cellspan.map(abs, [1], gather=True)
    with pytest.raises(TypeError, match=r"call\(\) has no option 'x'"):
        cellspan.call(abs, (1,), x=2)


def test_files_that_go_along():
    assert _api.magic_line("%distribute", {"with": "a b", "no-code": False}) == "%%distribute --with='a b'"
    assert _api.magic_line("%distribute", {"with": ["a", pathlib.Path("b")]}) == "%%distribute --with='a' --with='b'"
    assert _call_options.split({"with_files": "a", "no_code": True})[0] == {"with": "a", "no-code": True}


def test_an_option_that_the_kernel_gets_is_one_of_each_call(with_one_more, monkeypatch):
    lines = []
    monkeypatch.setattr(_api, "_run", lambda home, fn, args, kw, options: lines.append((_api.magic_line("%distribute", options), kw)))
    monkeypatch.setattr(_api, "caller", lambda: None)
    _api.run(abs, new_one=True, speed="fast", x=1)
    _api.call(abs, new_one=True, speed="slow")
    _jobs.launch(abs, speed="fast", n=2)
    assert lines == [("%%distribute --new-one --speed='fast'", {"x": 1}), ("%%distribute --new-one --speed='slow'", {}),
                     ("%%distribute --nproc='2' --speed='fast' --beside", {})]
    assert {"new_one", "speed"} < set(keywords(_api.run)) & set(keywords(_map.map))
    error = type("UsageError", (Exception,), {})("--speed slow and --new-one can't be used together")
    assert _option_errors.in_python(error, {}) == "speed='slow' and new_one=True can't be used together"


def test_the_size_of_the_world_is_told_in_python():
    error = type("UsageError", (Exception,), {})("-n gpu: there is no GPU on h1 (give a number, as in -n 4)")
    assert _option_errors.in_python(error, {"nproc": "gpu"}) == "n='gpu': there is no GPU on h1 (give a number, as in n=4)"
    error = type("UsageError", (Exception,), {})("-n 9: there is room for 2 ranks (h1); give -n 2, or end the ranks by %ranks stop and ask for more in --on")
    assert _option_errors.in_python(error, {"nproc": 9}) == "n=9: there is room for 2 ranks (h1); give n=2, or end the ranks by %ranks stop and ask for more in on="


def test_options_that_contradict_each_other_are_all_named():
    error = type("UsageError", (Exception,), {})("--nproc 2 --ranks 5: there is no rank 5 in a world of 2 (ranks 0-1)")
    assert _option_errors.in_python(error, {"nproc": 2, "ranks": [5]}) == "n=2, ranks=[5]: there is no rank 5 in a world of 2 (ranks 0-1)"
    error = type("EngineError", (Exception,), {})("--on slurm:--nodes=2 --ranks=1: no such thing")
    assert _option_errors.in_python(error, {"on": "slurm:--nodes=2 --ranks=1"}) == "on='slurm:--nodes=2 --ranks=1': no such thing"


@pytest.mark.parametrize(("said", "told"), [
    ("--on spark: the notebook has no Spark session", "on='spark': the notebook has no Spark session"),
    ("--on spark:yarnx: that is no master; use yarn", "on='spark:yarnx': that is no master; use yarn"),
    ("x did not come up: write --on again (--on local uses this machine)", "x did not come up: write on= again (on='local' uses this machine)"),
    ("run a cell with `%%distribute --on spark`", "run a cell with `%%distribute --on spark`"),
])
def test_a_place_that_the_call_has_not_named_is_written_as_an_argument(said, told):
    """It came from the notebook's session, or from the cell before."""
    error = type("EngineError", (Exception,), {})("n=2 " + said)
    assert (_option_errors.in_python(error, {}) or str(error)) == "n=2 " + told


def test_what_an_option_may_be_is_said_in_python():
    """SPEC, T and K=V are words of the magics' help."""
    for row in _call_options.OF_CALLS.values():
        text = "takes no value" if row.is_flag else "needs a value (--%s SPEC)" % row.name
        error = type("UsageError", (Exception,), {})("--%s: %s" % (row.name, text))
        told = _option_errors.in_python(error, {row.name: True})
        if row.name != "seed":  # --seed and --init may stand alone, --init also in a call
            assert re.fullmatch(r"%s=True: \w.* is wanted" % row.argument, told) and "SPEC" not in told and "one of  " not in told, told


@pytest.mark.parametrize("files", [1.5, ["a", 5], object])
def test_files_that_are_no_paths_are_named(files):
    with pytest.raises(TypeError, match=re.escape("with_files=%r: a path, or a list of paths, is wanted" % (files,))):
        _api.magic_line("%distribute", {"with": files})


@pytest.mark.parametrize(("said", "kind", "told"), [
    ("gpus=1: there is no GPU on h1, h2 (leave gpus= out to run without); h1: why", RuntimeError,
     "use_gpu=True: there is no GPU on h1, h2 (use_gpu=False trains on processors); h1: why"),
    ("gpus='1,own': there is no GPU on h1 (leave gpus= out to run without)", RuntimeError,
     "use_gpu=True: there is no GPU on h1 (use_gpu=False trains on processors)"),
    ("n=4: there are 2 GPUs (h1: 2) for 4 ranks; no_gpu=True runs without GPUs, share=True lets several processes use one GPU", ValueError,
     "num_processes=4: there are 2 GPUs (h1: 2) for 4 ranks; use_gpu=False trains on processors"),
    ("n=4: there is room for 2 ranks (h1); give n=2", ValueError, "num_processes=4: there is room for 2 ranks (h1); give num_processes=2"),
    ("no_gpu=True: ranks 0-1 were started with GPUs (fresh=True ends them and starts new ones)", ValueError,
     "use_gpu=False: ranks 0-1 were started with GPUs (without reuse=True, new ones start)"),
    ("on='x': no such engine", ValueError, "on='x': no such engine"),
])
def test_an_error_names_the_arguments_of_a_drop_in(said, kind, told):
    with pytest.raises(kind) as caught, _option_errors.OwnNames("num_processes", "use_gpu=True", "use_gpu=False"):
        raise ValueError(said)
    assert type(caught.value) is kind and str(caught.value) == told


def test_an_exception_of_a_rank_stays_as_it_is():
    class OfRank(ValueError):
        pass

    with pytest.raises(OfRank, match="^gpus=1: there is no GPU on mine$"), _option_errors.OwnNames("np"):
        raise OfRank("gpus=1: there is no GPU on mine")
    with pytest.raises(ValueError, match="^gpus=1: mine$"), _option_errors.OwnNames("np"):
        raise ValueError("gpus=1: mine")  # such a drop-in has no argument for GPUs
