# SPDX-License-Identifier: BSD-3-Clause
"""cellspan in a Python program that is no notebook: `python train.py`, and Python's prompt."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import processes
import pytest
from client import KERNEL, all_print, by_rank
from jupyter_client.kernelspec import get_kernel_spec

LIMIT = 100  # seconds of one program


@pytest.fixture
def start(jupyter_env, tmp_path):
    """Starts `python WORDS` in tmp_path; start.text(code) writes the program first. None of its processes may be left at the end."""
    prefix = pathlib.Path(get_kernel_spec(KERNEL).argv[0]).parents[1]
    env = dict(jupyter_env, PYTHONPATH=str(prefix / "lib" / "cellspan" / "python"), PYTHONUNBUFFERED="1")
    made = []

    def start(*words, **options):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        made.append(subprocess.Popen([sys.executable, *words], cwd=tmp_path, env=env, text=True, start_new_session=True, **{**pipes, **options}))
        return made[-1]

    def text(code):
        (tmp_path / "program.py").write_text(code)
        return start("program.py")

    start.text = text
    start.marker = jupyter_env[processes.MARKER]
    yield start
    for program in made:
        if program.poll() is None:
            program.kill()
        program.communicate()


@pytest.fixture
def said(start):
    """The output of a program, by line, and what it wrote to stderr; it has to end with `code`."""

    def said(code, status=0):
        program = start.text(code)
        out, err = program.communicate(timeout=LIMIT)
        assert program.returncode == status, out + err
        return out.splitlines(), err

    return said


def test_functions_classes_and_large_values_of_a_program(said, tmp_path):
    (tmp_path / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    out, _ = said(
        "import os, time\nimport cellspan\nimport helper\nk = 5\n"
        "class Point:\n    def __init__(self, x):\n        self.x = x\n"
        "def make(x):\n    print('rank', os.environ['RANK'], os.environ['MINE'], os.getcwd() == here)\n    return Point(helper.twice(x.x) + k)\n"
        "here, os.environ['MINE'] = os.getcwd(), 'mine'\n"
        "point = cellspan.run(make, Point(1), n=2)\nprint(type(point) is Point, point.x)\n"
        "pids = cellspan.run(os.getpid, gather=True)\n"
        "k = 6\nprint(cellspan.run(lambda: (k, make(Point(1)).x))[0], cellspan.run(os.getpid, gather=True) == pids)\n"
        "took = [9]\nwhile min(took) > 1 and len(took) < 20:\n"  # on a busy machine one may be slow
        "    began = time.monotonic()\n    cellspan.run(os.getpid)\n    took.append(time.monotonic() - began)\n"
        "print('quickly' if min(took) <= 1 else took)\n"
        "print(len(cellspan.run(lambda: b'x' * (20 << 20))), cellspan.call(len, (b'x' * (20 << 20),)))\n"
    )
    assert sorted(out[:2]) == ["[0] rank 0 mine True", "[1] rank 1 mine True"]
    assert out[2] == "True 7" and "6 True" in out and "quickly" in out and out[-1] == f"{20 << 20} {20 << 20}", out


def test_groups_maps_and_threads(said):
    out, _ = said(
        "import threading\nimport cellspan\ngroup = cellspan.group()\n"
        "print(cellspan.map(lambda x: x * x, range(5), n=2), group.size)\n"
        "group.push(a=[1], method=2)\nprint(group.pull('a', 'method'))\n"
        "group.scatter('part', list(range(5)))\nprint(group.gather('part'))\n"
        "found = []\nthreads = [threading.Thread(target=lambda i=i: found.append(cellspan.run(lambda: i))) for i in range(3)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\nprint(sorted(found))\n"
        "group.stop()\nprint(group.size)\n"
    )
    assert out == ["[0, 1, 4, 9, 16] 2", "{'a': [[1], [1]], 'method': [2, 2]}", "[0, 1, 2, 3, 4]", "[0, 1, 2]", "0"]


def test_an_error_of_a_map_has_its_item_in_a_program(said):
    out, _ = said(
        "import os, sys\nimport cellspan\ndef ends(k, how):\n    if k:\n        how(k)\n"
        "for how, n in ((sys.exit, 1), (os._exit, 1), (os._exit, 2)):\n"
        "    try:\n        cellspan.map(ends, [0, 7], [how] * 2, n=n, retries=1)\n"
        "    except Exception as error:\n        print(type(error).__name__, error.item, 'item 1, (7, ' in str(error))\n"
    )
    assert out == ["SystemExit 1 False", "RankDied 1 True", "RankDied 1 True"], out


def test_torch_distributor_in_a_program(said, tmp_path):
    (tmp_path / "other.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
    out, err = said(
        "import os, time\nfrom cellspan.torch import TorchDistributor\n"
        "def train(x):\n    print('training')\n    if x < 0:\n        raise ValueError('below 0')\n    return x, os.environ['WORLD_SIZE']\n"
        "d = TorchDistributor(num_processes=2, use_gpu=False)\nprint(d.run(train, 0.1))\n"
        "d.run('other.py', 0)\n"
        "try:\n    d.run('other.py', 3)\nexcept RuntimeError as error:\n    print(error)\n"
        "d.run(train, -1)\n",
        status=1,
    )
    at = out.index("(0.1, '2')")
    assert by_rank("\n".join(out[:at])) == {rank: ["training"] for rank in range(2)}, out + [err]
    assert {rank: lines[0] for rank, lines in by_rank("\n".join(out[at:])).items()} == {rank: "['0']" for rank in range(2)}, out
    assert any("failed with return code 3" in line for line in out), out
    assert "Started local training with 2 processes" in err
    assert "ValueError: below 0" in err and "in train(x)" in err and "TorchDistributor failed during training" in err


PROGRAMS = {
    "horovod": (
        "from cellspan.horovod import HorovodRunner, log_to_driver\n"
        "def train(k):\n    print('hidden')\n    if os.environ['RANK'] == '0': log_to_driver('told')\n    return k + 1\n"
        "print(HorovodRunner(np=2).run(train, k=1), HorovodRunner(np=-2, driver_log_verbosity='all').run(int))\n",
        ["[0] told", "2 0"], ["what the ranks printed is in", "the ranks are on this one"]),
    "maggy": (
        "import torch\nfrom cellspan.maggy import experiment\nfrom cellspan.maggy.config import TorchDistributedConfig\n"
        "def train(module, reporter):\n    reporter.broadcast(3, 0)\n    return 1 + int(os.environ['RANK'])\n"
        "print(experiment.lagom(train, TorchDistributedConfig(torch.nn.Linear), n=2))\n",
        ["Final average test loss: 1.500", "{'test result': 1.5, 'results': [1, 2], 'broadcast': [[(0, 3)], [(0, 3)]]}"], []),
    "distributed": (
        "@cellspan.distributed(n=2)\ndef train(x): return x + int(os.environ['RANK'])\nprint(train.distributed(1), train.func.__name__)\n",
        ["[1, 2] train"], []),
    "tensorflow": (
        "import json\nfrom cellspan.tensorflow import MirroredStrategyRunner\n"
        "def train(): return len(set(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']))\n"
        "print(MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True).run(train))\n",
        ["2"], ["Training with 2 slots is complete!"]),
    "dataframe": (
        "import pandas  # the loader imports torch on each rank\nfrom cellspan.torch import TorchDistributor, _get_spark_partition_data_loader\n"
        "def train(): return [x.tolist() for x, in _get_spark_partition_data_loader(2, 2, 0)]\n"
        "table = pandas.DataFrame({'x': [1., 2., 3., 4.]})\n"
        "print(TorchDistributor(2, local_mode=False, use_gpu=False)._train_on_dataframe(train, table))\n",
        ["[[1.0, 2.0]]"], ["Started distributed training with 2 executor processes"]),
    "deepspeed": (
        "import json, sys\nfrom cellspan.torch import DeepspeedTorchDistributor\ndef train(): return json.load(open(sys.argv[-1]))\n"
        "print(DeepspeedTorchDistributor(2, useGpu=False, deepspeedConfig={'train_batch_size': 8}).run(train))\n",
        ["{'train_batch_size': 8}"], ["Finished local training with 2 processes"]),
}


@pytest.mark.parametrize("code, printed, told", PROGRAMS.values(), ids=PROGRAMS)
def test_the_names_people_know_in_a_program(said, code, printed, told):
    out, err = said("import os\nimport cellspan\n" + code)
    assert [line for line in printed if line not in out] == [], out + [err]
    assert [line for line in told if line not in err] == [], err
    assert "hidden" not in "".join(out) + err


def test_exceptions_and_exit_codes(said):
    out, err = said(
        "import glob, os, sys, time\nimport cellspan\n"
        "class Mine(ValueError):\n    pass\n"
        "def fail():\n    print('soon', file=sys.stderr)\n    open('rank' + os.environ['RANK'], 'w').close()\n"
        "    while len(glob.glob('rank?')) < 2:\n        time.sleep(0.01)\n    raise Mine('seven')\n"  # the other one may be interrupted now
        "def inner():\n    import cellspan\n    try:\n        cellspan.run(abs, 1)\n    except RuntimeError as error:\n        return type(error).__name__\n"
        "try:\n    cellspan.run(fail, n=2)\nexcept Mine as error:\n    print(isinstance(error, cellspan.RemoteError), error, error.__cause__)\n"
        "for call in (lambda: cellspan.run(abs), lambda: cellspan.run(print, open(os.devnull)), lambda: cellspan.run(print, n=-2)):\n"
        "    try:\n        call()\n    except Exception as error:\n        print(type(error).__name__, error)\n"
        "print(cellspan.run(inner))\n"
        "sys.stdout.flush()\npid = os.fork()\nif not pid:\n    print(inner(), flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)\n"
        "cellspan.run(sys.exit, 7)\n",
        status=7,
    )
    shown = "\n".join(out)
    assert all_print(err, "soon", 2) and "True seven" in shown and 'raise Mine("seven")' in shown.replace("'", '"'), shown
    assert "TypeError print(): argument 1 can't be sent to the ranks: cannot pickle an open file" in shown
    assert "ValueError n=-2: a world needs at least one rank" in shown
    assert out[-2:] == ["NotAtHomeError"] * 2, shown


@pytest.mark.parametrize(
    "call",
    [
        "cellspan.run(dies, n=2)",
        "__import__('cellspan.horovod').horovod.HorovodRunner(np=-2).run(dies)",
        "cellspan.map(lambda x: dies(), range(9), n=2)",
    ],
)
def test_a_program_whose_rank_dies_ends_with_exit_code_1(said, call):
    out, err = said(
        "import os, time\nimport cellspan\n"
        "def dies():\n    if os.environ['RANK'] == '1':\n        os._exit(5)\n    time.sleep(300)\n" + call + "\nprint('not here')\n",
        status=1,
    )
    assert out == [] and err.splitlines()[-1].startswith("RankDied: rank 1 ended with exit status 5 (host "), err
    assert err.count("RankDied") == 1 and "program.py" in err and "dies" in err, err


SLEEP = "import cellspan, time\ndef f():\n    print('begun')\n    time.sleep(300)\n"


def wait_for(program, text):
    for line in program.stdout:
        if text in line:
            return
    raise AssertionError(program.stderr.read())


def test_ctrl_c_as_a_call_is_sent_ends_it_and_the_next_one_works(said):
    out, err = said(
        "import cellspan, os, signal, time\nfrom cellspan._client import Far\nsend, armed = Far._send, [1]\n"
        "def sends(self, channel, kind, content):\n    sent = send(self, channel, kind, content)\n"
        "    if kind == 'execute_request' and armed:\n        armed.clear(); os.kill(os.getpid(), signal.SIGINT)\n    return sent\n"
        "cellspan.run(abs, -1, n=2)\nFar._send = sends\n"
        "try: cellspan.run(time.sleep, 300)\nexcept KeyboardInterrupt: print('interrupted')\nprint(cellspan.run(abs, -2))\n")
    assert out == ["interrupted", "2"], err


def test_what_a_program_writes_into_a_log_has_no_colours(said):
    last = []

    def alike():
        """Others have a moment to fail alike; on a busy machine one may be later, and is interrupted."""
        last[:] = said(
            "import os\nfrom cellspan.torch import TorchDistributor\n"
            "def dies(): os._exit(3)\ndef fails(): 1 / 0\n"
            "for f in (fails, dies):\n"
            "    try: last = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(f)\n"
            "    except RuntimeError as error: last = error\n"
            "raise last", 1)
        return "ZeroDivisionError on ranks 0-1 of 2" in last[0][0]

    assert processes.wait_until(alike, LIMIT), last
    out, err = last
    assert any(line.startswith("RankDied: rank") for line in out), out
    assert "\x1b" not in "".join(out) + err and "RankTraceback" not in err, err
    assert "RankDied: rank" in err and err.endswith("TorchDistributor failed during training.View stdout logs for detailed error message.\n"), err


def test_ctrl_c_interrupts_the_ranks_and_the_program_goes_on(start):
    program = start.text(SLEEP + "try:\n    cellspan.run(f, n=2)\nexcept KeyboardInterrupt:\n    print('stopped', cellspan.run(abs, -1))\ncellspan.run(f)\n")
    wait_for(program, "begun")
    program.send_signal(signal.SIGINT)
    wait_for(program, "stopped 1")
    wait_for(program, "begun")
    program.send_signal(signal.SIGINT)
    assert program.wait(LIMIT) == -signal.SIGINT


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_of_a_program_that_is_killed(start, signo):
    program = start.text(SLEEP + "cellspan.run(f, n=2)\n")
    wait_for(program, "begun")
    program.send_signal(signo)
    assert program.wait(LIMIT) == -signo
    assert not processes.gone(start.marker, 20)


def test_after_its_kernel_was_killed_the_program_gets_another(start):
    program = start.text(SLEEP + "try:\n    cellspan.run(f, n=2)\nexcept RuntimeError as error:\n    print(error)\nprint(cellspan.run(abs, -4, n=1))\n")
    wait_for(program, "begun")
    (kernel,) = processes.named(start.marker, "cellspan-kernel")
    os.kill(kernel, signal.SIGKILL)
    wait_for(program, "kernel ended by itself (exit status -9)")
    wait_for(program, "4")
    assert program.wait(LIMIT) == 0


def test_pythons_prompt(start):
    program = start("-i", "-c", "import cellspan", stdin=subprocess.PIPE)
    out, err = program.communicate("def f(x):\n    return x * 2\n\nprint(cellspan.run(f, 4, n=2))\n", LIMIT)
    assert program.returncode == 0 and out.splitlines() == ["8"], out + err


def test_ranks_can_ask_the_programs_user(start, tmp_path):
    (tmp_path / "program.py").write_text("import cellspan\ndef ask():\n    return input('name? ')\nprint(cellspan.run(ask, n=1))\n")
    out, err = start("program.py", stdin=subprocess.PIPE).communicate("Ada\n", LIMIT)
    assert out == "name? Ada\n", out + err


def test_processes_of_multiprocessing_are_told_to_leave_it_to_the_program(said):
    out, _ = said(
        "import multiprocessing\nimport cellspan\n"
        "def inner():\n    try:\n        cellspan.run(abs, 1)\n    except RuntimeError as error:\n        print(type(error).__name__, flush=True)\n"
        "if __name__ == '__main__':\n    child = multiprocessing.get_context('spawn').Process(target=inner)\n    child.start()\n    child.join()\n"
    )
    assert out == ["NotAtHomeError"]
