# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers of ranks: each process has its own, as under torchrun, unless a seed is given."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess

import pytest
from client import values

pytestmark = pytest.mark.usefixtures("torch")
# drawn(): a number of each generator that programs use without making it.
DRAWN = """
import random, numpy, torch

def drawn():
    return [random.random(), float(numpy.random.rand()), torch.rand(()).item(), torch.initial_seed(), list(torch.utils.data.RandomSampler(range(999)))[:9]]
"""
# worked(): what the workers of a loader draw.
WORKED = """
class Draws(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, k):
        return random.random(), float(numpy.random.rand()), torch.rand(()).item()

def worked():
    loader = torch.utils.data.DataLoader(Draws(), num_workers=2, batch_size=None, multiprocessing_context="fork")
    return [number for item in loader for number in item]
"""
SCRIPT = DRAWN + """
print("=", drawn(), flush=True)
torch.manual_seed(0)
print("#", torch.rand(3).tolist(), flush=True)
"""


def all_differ(processes):
    """Each of the things that were drawn differs from process to process."""
    for column in zip(*processes):
        assert len({json.dumps(value) for value in column}) == len(column), processes


def printed(text, mark="="):
    return [ast.literal_eval(found) for found in re.findall(r"%s (\[.*\])$" % mark, text, re.M)]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("seeds") / "draws.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def book(nb):
    nb.ok(DRAWN + WORKED, limit=120)
    return nb


def cell(nb, options="", body="drawn()"):
    return values(nb.ok("%%%%distribute --gather %s\n%s" % (options, body), limit=120))


@pytest.mark.limit(600)
def test_each_process_has_random_numbers_of_its_own(book, script):
    book.ok("import cellspan, sys\nfrom cellspan.torch import TorchDistributor\nfrom cellspan.horovod import HorovodRunner")
    found = cell(book, "-n 2 --fresh") + cell(book)  # the second goes on where the first has stopped
    book.ok("%ranks restart")
    found += cell(book)
    book.ok("%ranks restart -r 1")
    found += cell(book, "-r 1")
    book.run("%%distribute -r 1\n__import__('os')._exit(3)").assert_error("RankDied")
    found += cell(book, "-r 1")
    found += cell(book, "-n 2 --beside") + cell(book, "-n 2 --beside")
    found += values(book.ok("cellspan.run(drawn, n=2, gather=True)"))
    found.append(values(book.ok("TorchDistributor(num_processes=2, use_gpu=False, reuse=True).run(drawn)")))
    for _ in range(2):
        found += values(book.ok("cellspan.distributed(n=2)(drawn).distributed()"))
        cells = [book.ok("%%distribute -n 2 --merge raw %s" % script), book.ok("cellspan.run(%r, n=2)" % str(script))]
        found += [one for shown in cells for one in printed(shown.stdout)]
        for call in ("TorchDistributor(num_processes=2, use_gpu=False).run(drawn)", "HorovodRunner(np=2).run(drawn)"):
            found.append(values(book.ok(call)))
    # The seed of torch, fourth, stays while a process does; so what one process drew is compared without it.
    assert len(found) == 2 * 6 + 3 + 2 * (3 * 2 + 2)
    all_differ([one[:3] + one[4:] for one in found])
    seeds = [one[3] for one in found]
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == len(seeds) - 5, seeds


def test_what_workers_of_loaders_draw_differs(book):
    found = cell(book, "-n 3", "worked()")
    flat = [number for rank in found for number in rank]
    assert len(flat) == 3 * 6 and len(set(flat)) == len(flat), found


def test_a_resize_and_other_cells_leave_the_numbers_of_ranks_that_stay(book):
    body = "[random.random(), float(numpy.random.rand()), torch.rand(()).item()]"
    seeding = "random.seed(5); numpy.random.seed(5); torch.manual_seed(5)\n"
    want = [values(book.ok(seeding + body)), values(book.ok(body))]
    assert cell(book, "-n 2 --fresh", seeding + body) == [want[0]] * 2
    cell(book, "-n 2", "1")
    after = cell(book, "-n 3", body)
    assert after[:2] == [want[1]] * 2
    all_differ(after[1:])


def test_homes_own_numbers_are_left_alone(book):
    book.ok("random.seed(3); numpy.random.seed(3); torch.manual_seed(3); a = drawn()\nrandom.seed(3); numpy.random.seed(3); _ = torch.manual_seed(3)")
    cell(book, "-n 2 --fresh")
    assert book.ok("a == drawn()").value == "True"


def test_whatever_was_imported_beforehand(fresh, tmp_path):
    (tmp_path / "seeds_all.py").write_text(
        "import random, numpy, torch\nrandom.seed(1); numpy.random.seed(1); torch.manual_seed(1); torch.cuda.manual_seed(1); torch.rand(3)\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    nb = fresh(env={"CELLSPAN_PRELOAD": "seeds_all", "PYTHONPATH": path})
    nb.ok(DRAWN, limit=120)
    assert cell(nb, "-n 2", "import sys; 'seeds_all' in sys.modules") == [True] * 2
    all_differ(cell(nb) + cell(nb, "-n 2 --fresh"))


# ---- beside torchrun --------------------------------------------------------------------------------------------------


@pytest.mark.clients
@pytest.mark.limit(400)
def test_the_numbers_of_processes_are_as_torchruns(script, jupyter_env):
    """Two programs run the script, each twice: the same must be equal, and the same must differ."""
    if shutil.which("torchrun") is None:
        pytest.skip("torchrun is not on PATH")
    equal = []
    for program in (["torchrun", "--standalone", "--nproc-per-node=2"], ["cellspan", "run", "-n", "2", "--merge", "raw"]):
        drew = []
        for _ in range(2):
            run = subprocess.run([*program, str(script)], env=jupyter_env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170)
            assert run.returncode == 0, run.stdout + run.stderr
            drew += printed(run.stdout)
            equal += printed(run.stdout, "#")
        assert len(drew) == 4
        all_differ(drew)
    assert len(equal) == 8 and all(one == equal[0] for one in equal), equal


# ---- seeds ------------------------------------------------------------------------------------------------------------


def test_an_option_seeds_before_its_cell_each_time(book, script):
    first = cell(book, "-n 2 --fresh --seed 5")
    all_differ(first)
    on = cell(book)
    assert cell(book, "--seed 5") == first and cell(book) == on
    assert cell(book, "-n 3 --seed 5")[:2] == first == cell(book, "-n 3 --fresh --seed 5")[:2]
    assert cell(book, "-r 1 --seed 5") == first[1:]
    assert cell(book, "-n 2 --beside --seed 5") == first
    all_differ(first + cell(book, "-n 2 --seed 6"))
    book.ok("import cellspan")
    for call in ("cellspan.run(drawn, n=2, gather=True, seed=5)", "cellspan.call(drawn, n=2, gather=True, seed=numpy.int64(5))"):
        assert values(book.ok(call)) == first
    for call in ("%distribute -n 2 --merge raw --seed 5 " + str(script), "cellspan.run(%r, n=2, merge='raw', seed=5)" % str(script)):
        assert sorted(printed(book.ok(call).stdout)) == sorted(first)
    assert cell(book, "-n 2 --seed 5", "worked()") == cell(book, "-n 2 --seed 5", "worked()")


HIDES = """
import sys
class Hides:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "torch"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hides())
"""
IMPORTS = "import sys\nsys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != 'Hides']\n"


def test_a_seed_counts_for_what_is_imported_later(book, fresh, tmp_path):
    """The ranks are forked from a process that has not imported numpy and torch."""
    (tmp_path / "sitecustomize.py").write_text(HIDES)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    nb = fresh(env={"PYTHONPATH": path})
    body = "import numpy, torch\n[float(numpy.random.rand()), torch.rand(()).item(), torch.initial_seed()]"
    assert cell(nb, "-n 2", "import sys\n[name for name in ('numpy', 'torch') if name in sys.modules]") == [[]] * 2
    found = cell(nb, "--seed 9", IMPORTS + body)
    assert found == cell(book, "-n 2 --seed 9", body)
    all_differ(cell(nb, "-n 1 --fresh", IMPORTS + body) + found)


def test_each_item_of_a_map_has_its_own(book):
    book.ok("import cellspan, time\ndef slow(k):\n    time.sleep(k % 3 / 100)\n    return [k, cellspan.rank(), random.random(), float(numpy.random.rand()), torch.rand(()).item()]")
    cell(book, "-n 3 --fresh --seed 1")
    on = cell(book)
    cell(book, "--seed 1")
    runs = [values(book.ok("cellspan.map(slow, range(12), chunksize=1, seed=4, n=%d)" % n)) for n in (3, 2, 1)]
    by_item = [[one[:1] + one[2:] for one in run] for run in runs]
    assert by_item[0] == by_item[1] == by_item[2]
    all_differ(by_item[0])
    assert cell(book, "-n 3") == on  # the ranks' own numbers go on
    all_differ([one[2:] for one in values(book.ok("cellspan.map(slow, range(6), chunksize=1)"))])
    assert "seed='x': a seed is a whole number" in book.run("cellspan.map(slow, [1], seed='x')").assert_error("ValueError").reply["evalue"]


@pytest.mark.limit(600)
def test_a_setting_counts_when_a_rank_starts(fresh, jupyter_env, tmp_path):
    nb = fresh(env={"CELLSPAN_SEED": "5"})
    nb.ok(DRAWN + WORKED + "import cellspan\nfrom cellspan.torch import TorchDistributor", limit=120)
    first = cell(nb, "-n 2")
    all_differ(first)
    on = cell(nb)
    all_differ([one[:3] + one[4:] for one in first + on])
    grown = cell(nb, "-n 3")  # ranks that stay are left alone
    assert grown[:2] != first and grown[2] == cell(nb, "-n 3 --fresh")[2]
    assert cell(nb, "-n 2 --fresh") == first == cell(nb, "-n 2 --beside")
    assert cell(nb, "-n 2") == on
    nb.ok("%ranks restart -r 1")
    assert cell(nb, "-r 1") == first[1:]
    assert values(nb.ok("TorchDistributor(num_processes=2, use_gpu=False).run(drawn)")) == first[0]
    nb.ok("def pick(k):\n    return random.random(), torch.rand(()).item()")
    assert nb.ok("cellspan.map(pick, range(5), n=2) == cellspan.map(pick, range(5), n=1)").value == "True"
    all_differ(values(nb.ok("[drawn(), drawn()]"))[:1] + first)  # home has numbers of its own
    assert cell(nb, "-n 2 --seed 5") == first and cell(nb, "-n 2 --seed 6") != first
    script = tmp_path / "draws.py"  # without torch, which three more kernels and their ranks would import
    script.write_text("import random\nprint('=', [random.random()], flush=True)\n")
    drew = sorted(one[:1] for one in first)
    for options, seed, want in ([], "5", True), ([], "6", False), (["--seed=5"], "6", True):
        run = subprocess.run(["cellspan", "run", "-n", "2", "--merge", "raw", *options, str(script)],
                             env=dict(jupyter_env, CELLSPAN_SEED=seed, CELLSPAN_PRELOAD="-torch,-numpy"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170)
        assert run.returncode == 0 and (sorted(printed(run.stdout)) == drew) == want, run.stdout + run.stderr


@pytest.mark.parametrize("seed", ["ten", "-1", "18446744073709551616"])
def test_a_wrong_seed_is_named_with_what_is_possible(nb, fresh, seed):
    told = "a seed is a whole number from 0 to 18446744073709551615"
    assert nb.run("%%%%distribute --seed %s\npass" % seed).assert_error("UsageError").reply["evalue"] == "--seed %s: %s" % (seed, told)
    nb.ok("import cellspan")
    assert "seed=%r: %s" % (seed, told) in nb.run("cellspan.run(print, seed=%r)" % seed).assert_error("ValueError").reply["evalue"]
    if seed == "ten":
        book = fresh(env={"CELLSPAN_SEED": seed, "CELLSPAN_PRELOAD": "-torch,-numpy"})
        assert "CELLSPAN_SEED=ten: a whole number is wanted, from 0 to 18446744073709551615, or none; none is used" in book.ok("1").stderr
        all_differ([[one] for one in values(book.ok("%%distribute -n 2 --gather --fresh\n__import__('random').random()"))])


def test_a_seed_that_is_set_too_late_is_named_with_what_to_do(fresh):
    nb = fresh(env={"CELLSPAN_PRELOAD": "-torch,-numpy"})
    nb.ok("%env CELLSPAN_SEED=7\nimport random")
    draw = "%%%%distribute -n 2 --gather --fresh %s\n__import__('random').random()"
    late = nb.ok(draw % "")
    assert "CELLSPAN_SEED=7 has no effect now: settings are read when the kernel starts; write --seed 7 behind %%distribute" in late.stderr, late.stderr
    again = nb.ok(draw % "")
    assert "CELLSPAN_SEED" not in again.stderr and values(again) != values(late)
    assert values(nb.ok(draw % "--seed 7")) == values(nb.ok(draw % "--seed 7"))
    given = nb.ok(draw % "--env CELLSPAN_SEED=8")
    assert "--env CELLSPAN_SEED=8 has no effect on these ranks: settings are read when the kernel starts; the option --seed is for a cell" in given.stderr, given.stderr
    nb.ok("import cellspan, os\nos.environ['CELLSPAN_SEED'] = '9'")
    assert "CELLSPAN_SEED=9 has no effect now" in nb.ok("cellspan.run(random.random, n=2)").stderr


def test_with_a_wrong_seed_a_world_that_grows_has_new_numbers(fresh):
    nb = fresh(env={"CELLSPAN_SEED": "3.5", "CELLSPAN_PRELOAD": "-torch,-numpy"})
    first = nb.ok("%%distribute -n 2 --gather\n__import__('random').random()")
    assert "CELLSPAN_SEED=3.5: a whole number is wanted" in first.stderr, first.stderr
    grown = nb.ok("%%distribute -n 4 --gather\n__import__('random').random()")
    small = nb.ok("%%distribute -n 1 --gather\n__import__('random').random()")
    assert "CELLSPAN_SEED" not in grown.stderr + small.stderr
    all_differ([[one] for one in values(first) + values(grown) + values(small)])
