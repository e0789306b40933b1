# SPDX-License-Identifier: BSD-3-Clause
"""@cellspan.distributed: the decorator that databricks-sdk-air has."""

from __future__ import annotations

from client import values


def test_it_returns_the_values_by_rank(nb):
    nb.ok("import cellspan, os\noffset = 10\n@cellspan.distributed(n=2)\ndef f(x, y=0):\n    'A sum.'\n"
          "    return offset + x + y + cellspan.rank(), os.environ['WORLD_SIZE'], os.getpid()")
    first, second = values(nb.ok("f.distributed(1, y=2)"))
    assert first[:2] == (13, "2") and second[:2] == (14, "2")
    assert values(nb.ok("[v[2] for v in f.distributed(1)]")) != [first[2], second[2]]  # fresh processes
    assert values(nb.ok("f.__name__, f.__doc__, f.func(1)[0] if os.environ.setdefault('WORLD_SIZE', '1') else 0")) == ("f", "A sum.", 11)
    assert values(nb.ok("[len(f.with_overrides(n=1).distributed(1)), len(f.distributed(1))]")) == [1, 2]


def test_reuse_runs_on_the_ranks_that_stay(nb):
    nb.ok("import cellspan, os\npids = cellspan.run(os.getpid, n=2, gather=True)\nkept = cellspan.distributed(n=2, reuse=True)(os.getpid)")
    assert values(nb.ok("kept.distributed() == pids")) is True


REFUSED = [
    ("f(1)", "RuntimeError", "Function `f` is decorated with `@distributed` and cannot be called directly. Use `f.distributed(...)`"),
    ("f.distributed()", "TypeError", "f(): missing a required argument: 'x'"),
    ("f.distributed(0)", "ZeroDivisionError", "division by zero"),
    ("f.with_overrides(timeout=1).distributed(60)", "TimeoutError", "still ran after 1 s"),
    ("cellspan.distributed(abs)", "TypeError", "needs its parentheses"),
    ("cellspan.distributed(n=0)", "ValueError", "n=0: it is a number of processes, 1 or more"),
    ("cellspan.distributed(2, gpus=2)", "ValueError", "num_accelerators and gpus are the same number"),
    ("cellspan.distributed(remote=True)", "ValueError", "on='ssh:host1,host2'"),
    ("cellspan.distributed(timeout=-1)", "ValueError", "timeout=-1"),
    ("cellspan.distributed(accelerator_type='H100')", "ValueError", "'GPU_8xH100'"),
    ("cellspan.distributed(n=2)(3)", "TypeError", "is for a function, not int"),
]


def test_what_is_wrong_is_named(nb):
    nb.ok("import cellspan, time\n@cellspan.distributed(n=2)\ndef f(x):\n    time.sleep(x)\n    return 1 / x")
    for code, ename, text in REFUSED:
        assert text in nb.run(code).assert_error(ename).reply["evalue"], code


def test_processes_by_accelerators_get_a_gpu_each(nb):
    """A machine without GPUs is told as the other names tell it."""
    nb.ok("import cellspan\ndef f(): return 1")
    for given in ("2", "gpus=2", "accelerator_type='GPU_2xH100'"):
        cell = nb.run("cellspan.distributed(%s)(f).distributed()" % given)
        cell.assert_error("RuntimeError")
        assert "GPUs were unable to be found on this machine" in cell.reply["evalue"], cell.shown
        assert "use @cellspan.distributed(n=2) to run on processors" in cell.reply["evalue"], cell.shown
