# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.px in a Python program that is no notebook."""

from __future__ import annotations

import signal

from test_plain_python import LIMIT, said, start  # noqa: F401 - fixtures

HEAD = """\
import os, time
import numpy as np
import cellspan.px as ipp
k = 5
class Point:
    def __init__(self, x): self.x = x
def times(x): return k * x
def nap(x):
    time.sleep(x)
    return x
rc = ipp.Client(n=3)
dv, view = rc[:], rc.load_balanced_view()
"""


def test_views_and_results(said):  # noqa: F811
    out, err = said(
        HEAD + "print(rc.ids, dv.apply_sync(times, 2), dv.map_sync(times, range(7)), view.map_sync(lambda x: x + k, [1, 2]))\n"
        "dv['p'] = Point(3); print(rc[1]['p'].x, dv.push({'a': 1}).get(), dv['a'], dv.pull('a').get())\n"
        "dv.scatter('xs', np.arange(7)); print([len(part) for part in dv['xs']], dv.gather('xs', block=True).tolist())\n"
        "rc[[0, 2]].scatter('xs', [1, 2, 3]); print(rc[0]['xs'], rc[2]['xs'])\n"
        "ar = dv.execute('print(\"hi\")\\nlen(xs)'); print(ar.get(), ar.stdout); ar.display_outputs()\n"
        "@dv.remote(block=True)\ndef rank(): return os.environ['RANK']\n"
        "@view.parallel(block=True)\ndef fives(xs): return [x * k for x in xs]\n"
        "print(rank(), fives(range(4)), fives.map([[1], [2]]))\n"
    )
    assert out == [
        "[0, 1, 2] [10, 10, 10] [0, 5, 10, 15, 20, 25, 30] [6, 7]", "3 [None, None, None] [1, 1, 1] [1, 1, 1]",
        "[3, 2, 2] [0, 1, 2, 3, 4, 5, 6]", "[1, 2] [3]", "['2', '2', '1'] ['hi\\n', 'hi\\n', 'hi\\n']",
        *(f"[stdout:{rank}] hi" for rank in range(3)), "Out[0]: 2", "Out[1]: 2", "Out[2]: 1", "['0', '1', '2'] [0, 5, 10, 15] [[5], [10]]"], err


def test_tasks_run_while_the_program_goes_on(said, tmp_path):  # noqa: F811
    out, err = said(
        HEAD + "tasks = [view.apply_async(nap, 0.5) for _ in range(6)]\nprint(tasks[5].ready(), rc.ids)\n"
        f"tasks += [view.apply_async(lambda k: open({str(tmp_path)!r} + '/%d' % k, 'w').close(), k) for k in range(6)]\n"
        f"while len(os.listdir({str(tmp_path)!r})) < 6: time.sleep(0.05)\nprint([task.get() for task in tasks[:6]])\n"
        "later = dv.apply_async(nap, 4)\n"
        "try: later.get(0.1)\nexcept ipp.TimeoutError as error: print(error)\n"
        "print(later.get_dict(), later)\n"
        "mapped = view.map_async(nap, [1.5] * 4)\nprint(mapped.wait(0), mapped.ready(), mapped.wait(), mapped.get())\n"
        "failed = view.apply_async(lambda: 1 / 0)\n"
        "try: failed.get()\nexcept ZeroDivisionError as error: print(isinstance(error, ipp.RemoteError), failed.successful())\n"
        "print(rc[0].apply_sync(lambda: print('of a rank') or 1))\nview.apply_async(time.sleep, 100)\nprint('ended')\n"
    )
    assert out == ["False [0, 1, 2]", "[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]", "nap: no result after 0.1 s; the ranks still run it",
                   "{0: 4, 1: 4, 2: 4} <AsyncResult(nap): finished>", "False False True [1.5, 1.5, 1.5, 1.5]", "True False", "of a rank", "1", "ended"], err


def test_what_is_wrong_is_named(said):  # noqa: F811
    out, err = said(
        HEAD + "def tell(f):\n    try: print('no error', f())\n    except Exception as error: print(type(error).__name__, error)\n"
        "items = (x for x in [])\n"
        "tell(lambda: dv.apply_async(abs, items))\ntell(lambda: view.apply_async(abs, items))\ntell(lambda: view.map_async(abs, [1, items]))\n"
        "tell(lambda: view.map_sync(abs, [1, items]))\ntell(rc.activate)\ntell(lambda: rc[7])\ntell(lambda: dv.scatter('xs', 5))\n"
        "tell(lambda: dv.execute('1 / 0', block=True))\nrc.shutdown()\ntell(lambda: rc[0])\nprint(dv.apply_sync(abs, -1))\n"
    )
    cannot = "can't be sent to the ranks: cannot pickle 'generator' object"
    assert out[:2] == [f"TypeError abs(): it {cannot}"] * 2, err
    assert all(line.startswith("TypeError map(): item 1, (<generator") and line.endswith(cannot) for line in out[2:4]), out
    assert out[4].startswith("NotAtHomeError %px works only in a notebook on the kernel") and "view.execute(" in out[4]
    assert out[5:] == ["IndexError there is no rank 7: ranks are 0-2",
                       "TypeError scatter() can't divide an int: it takes a list, a tuple, a range, an array, a tensor or a DataFrame",
                       "ZeroDivisionError division by zero", "IndexError there is no rank 0: all were stopped; Client(n=4) starts four", "[1, 1, 1]"]


def test_ctrl_c_ends_a_wait_and_the_program_goes_on(start):  # noqa: F811
    program = start.text(
        HEAD + "later = dv.apply_async(nap, 10)\n"
        "try:\n    print('waits', flush=True)\n    later.get()\nexcept KeyboardInterrupt: print('interrupted')\nprint(later.get())\n"
    )
    assert program.stdout.readline() == "waits\n"
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=LIMIT)
    assert (out, program.returncode) == ("interrupted\n[10, 10, 10]\n", 0), err
