"""cellspan.px: ipyparallel's magics and views, and a notebook of the shape of its examples."""

from __future__ import annotations

import nbclient
import nbformat
import pytest
from client import KERNEL, by_rank, values


@pytest.fixture
def four(nb):
    nb.ok("%reload_ext cellspan.px\nimport os, time\nimport cellspan.px as ipp\nrc = ipp.Client(n=4)\ndv = rc[:]\nrc.activate()")
    return nb


def shown(cell):
    """{rank: text} of what the last expressions were."""
    texts = [data["text/plain"] for data in cell.displays if data.get("text/plain", "").startswith("Out[")]
    return {int(text[4 : text.index("]")]): text.partition(": ")[2] for text in texts}


def test_px_runs_a_line_and_shows_every_ranks_value(four):
    assert values(four.ok("rc.ids, len(dv)")) == ([0, 1, 2, 3], 4)
    assert four.ok("%px a = 5").shown == ""
    assert by_rank(four.ok("%px print(a)").stdout) == {k: ["5"] for k in range(4)}
    four.ok("%px import cellspan")
    assert shown(four.ok("%px a + cellspan.rank()")) == {k: str(5 + k) for k in range(4)}
    four.run("%px home_only", limit=20).assert_error("NameError")


def test_ranks_see_their_own_variables_alone(four):
    four.ok("only_here = 1")
    assert "not defined" in four.run("%px only_here").assert_error("NameError").reply["evalue"]


@pytest.mark.parametrize("targets, ranks", [("::2", [0, 2]), ("1", [1]), ("0,3", [0, 3]), ("rc.ids[-1]", [3]), ("all", [0, 1, 2, 3]), ("'[0, 2]'", [0, 2])])
def test_targets(four, targets, ranks):
    said = four.ok("%%%%px --targets %s\nprint('me')" % targets).stdout  # of one rank without a label
    assert sorted(by_rank(said)) == ranks if len(ranks) > 1 else said == "me\n"
    four.ok("%px import cellspan")
    assert list(shown(four.ok("%%%%px -t %s\ncellspan.rank()" % targets))) == ranks


def test_new_ranks_load_nothing(four):
    four.ok("%ranks restart -r 1")
    assert "cellspan.px" not in four.ok("%px 1").shown


def test_local_runs_it_at_home_too(four):
    four.ok("%%px --local\nimport os\ndef pid(): return os.getpid()\nhere = 1")
    assert len(set(shown(four.ok("%px pid()")).values()) | {four.ok("pid()").value}) == 5


def test_noblock_lets_home_go_on(four):
    """The ranks wait for a file that a later cell of home makes."""
    four.ok("import tempfile; place = tempfile.mkdtemp(); dv['place'] = place")
    cell = four.ok("%%px --noblock -o later\nimport os, time\nwhile not os.path.exists(place + '/go'): time.sleep(0.01)\n"
                   "print('went')\nimport cellspan\ncellspan.rank()")
    assert cell.shown == ""
    assert four.ok("later.ready()").value == "False"
    assert "no result after 0.05 s" in four.run("later.get(0.05)").assert_error("TimeoutError").reply["evalue"]
    four.ok("open(place + '/go', 'w').close()")
    cell = four.ok("%pxresult")
    assert "[stdout:2] went\n" in cell.stdout and shown(cell) == {k: str(k) for k in range(4)}
    assert values(four.ok("later.get(), later.successful()")) == (["0", "1", "2", "3"], True)


def test_an_interrupt_of_home_leaves_what_runs_aside(four):
    four.ok("%%px --noblock\nimport os, time\nwhile not os.path.exists(place + '/stop'): time.sleep(0.01)\n'ended'")
    cell = four.start("print('waits', flush=True)\n%pxresult")
    four.wait_shown(cell, "waits")
    four.control("interrupt_request")
    four.wait(cell).assert_error("KeyboardInterrupt")
    four.ok("open(place + '/stop', 'w').close()")
    assert set(shown(four.ok("%pxresult")).values()) == {"'ended'"}


def test_a_cell_on_ranks_waits_for_what_runs_aside(four):
    four.ok("%px order = []\n")
    four.ok("%%px --noblock\nimport time; time.sleep(0.5); order.append('first')")
    four.ok("%%px\norder.append('second')")
    assert values(four.ok("dv['order']")) == [["first", "second"]] * 4


def test_outputs_are_grouped_as_asked(four):
    code = "\nfrom IPython.display import HTML, display\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay(HTML('<b>b</b>'))\n7"
    cell = four.ok("%%px --group-outputs=engine --targets 0,1" + code)
    assert cell.stdout.split("\n")[:4] == ["[stdout:0] out", "[output:0]", "[stdout:1] out", "[output:1]"], cell.shown
    assert cell.stderr == "[stderr:0] err\n[stderr:1] err\n"
    assert [data.get("text/html") for data in cell.displays][::2] == ["<b>b</b>"] * 2 and shown(cell) == {0: "7", 1: "7"}
    cell = four.ok("%pxresult -r")
    assert cell.stdout.split("\n")[:2] == ["[stdout:0] out", "[stdout:1] out"] and shown(cell) == {0: "7", 1: "7"}


def test_errors_and_cell_magics_of_ranks(four):
    assert "invalid" in four.run("%%px\nint('invalid')").assert_error("ValueError").traceback
    four.ok("%%px --noblock\n1 / 0")
    four.run("%pxresult").assert_error("ZeroDivisionError")
    assert "loop" in four.ok("%%px\n%%timeit -n1 -r1\nsum(range(10))").stdout


def test_autopx_sends_every_cell_to_the_ranks(four):
    home = four.ok("os.getpid()").value
    assert "enabled" in four.ok("%autopx").stdout
    pids = shown(four.ok("import os\nos.getpid()"))
    assert len(pids) == 4 and home not in pids.values()
    four.run("1 / 0").assert_error("ZeroDivisionError")
    assert by_rank(four.ok("%%distribute -n 4\nprint('mine')\n").stdout) == {k: ["mine"] for k in range(4)}
    assert "disabled" in four.ok("%autopx").stdout
    assert four.ok("os.getpid()").value == home


def test_pxconfig_and_suffixes(four):
    four.ok("%pxconfig --targets 1,2")
    assert sorted(by_rank(four.ok("%px print('x')").stdout)) == [1, 2]
    four.ok("%pxconfig --targets all\nrc[0].activate('0')")
    assert list(shown(four.ok("%px0 'x'"))) == [0]
    assert sorted(by_rank(four.ok("%px print('x')").stdout)) == [0, 1, 2, 3]
    four.ok("%pxconfig --targets 0\nrc[::2].activate()")
    assert sorted(by_rank(four.ok("%px print('x')").stdout)) == [0, 2]
    assert "%ranks where" in four.run("ipp.bind_kernel").assert_error("AttributeError").reply["evalue"]


REFUSED = [
    ("%px --targets 9 print()", "--targets 9: there is no rank 9: ranks are 0-3"),
    ("%px --targets 7: print()", "means no rank"),
    ("%px --targets ::x print()", "--targets ::x: SyntaxError"),
    ("%px --target 1 print()", "--target: unknown option; did you mean --targets?"),
    ("%px --signal-on-interrupt 9 print()", "an interrupt sends SIGINT"),
    ("%px --group-outputs rank print()", "--group-outputs rank: use type, engine, order"),
    ("%px", "%px: there is no code"),
    ("%%px --block now\nprint()", "%%px: now: unexpected"),
    ("%pxresult 3", "%pxresult: 3: unexpected"),
]


def test_what_is_wrong_is_named(four):
    for code, text in REFUSED:
        assert text in four.run(code).shown, code
    assert "--noblock" in four.ok("%px --help").stdout


def test_views(four):
    assert values(four.ok("dv.push({'b': 3}); dv['b'], rc[1]['b'], rc[::2].pull('b')")) == ([3] * 4, 3, [3, 3])
    assert values(four.ok("dv.scatter('part', [9, 8, 7, 6, 5]); dv['part'], dv.gather('part', block=True), dv.gather('part').get()")) == (
        [[9, 8], [7], [6], [5]], [9, 8, 7, 6, 5], [9, 8, 7, 6, 5])
    assert values(four.ok("dv.scatter('me', rc.ids, flatten=True); dv['me'], rc[-1].apply_sync(pow, 2, 5), dv.apply_sync(pow, 2, 3)")) == (
        [0, 1, 2, 3], 32, [8] * 4)
    assert values(four.ok("rc[1].apply_async(os.getpid).get() in dv.apply(os.getpid).get_dict().values()")) is True
    assert values(four.ok("@dv.remote(block=True)\ndef twice(x): return 2 * x\n"
                          "@dv.parallel(block=True)\ndef squares(xs): return [x * x for x in xs]\n"
                          "twice(4), squares(range(5)), dv.map_sync(abs, [-1, 2])")) == ([8] * 4, [0, 1, 4, 9, 16], [1, 2])
    four.ok("dv.block = True\nwith dv.sync_imports(): import colorsys")
    assert set(shown(four.ok("%px colorsys.__name__")).values()) == {"'colorsys'"}
    four.run("dv.apply_sync(int, 'x')").assert_error("ValueError")
    four.run("rc[9]").assert_error("IndexError")


def test_values_stand_in_the_order_of_the_views_ranks(four):
    four.ok("%px import cellspan\nturned, own = rc[::-1], lambda: cellspan.rank()\nturned.push({'b': 1})\ndv.execute('mine = cellspan.rank()', block=True)")
    assert values(four.ok("turned.apply_sync(own), rc[[2, 0]].apply_async(own).get_dict(), turned['mine'], rc[[3, 1]].gather('mine', block=True)")) == (
        [3, 2, 1, 0], {2: 2, 0: 0}, [3, 2, 1, 0], [3, 1])
    assert shown(four.ok("%%px --targets ::-1\ncellspan.rank()")) == shown(four.ok("%%px -t [2,0,1,3] -e\ncellspan.rank()")) == {k: str(k) for k in range(4)}
    assert values(four.ok("turned.scatter('part', [9, 8, 7, 6, 5]); dv['part'], turned.gather('part', block=True)")) == (
        [[5], [6], [7], [9, 8]], [9, 8, 7, 6, 5])


def test_tasks(four):
    four.ok("view = rc.load_balanced_view()\ntasks = [view.apply_async(lambda x, y=0: 1 / x + y, x, y=1) for x in (1, 2, 0)]")
    assert values(four.ok("rc.wait(tasks), [task.get() for task in tasks[:2]], tasks[2].successful()")) == (True, [2.0, 1.5], False)
    assert "division" in four.run("tasks[2].get()").assert_error("ZeroDivisionError").traceback
    assert values(four.ok("list(view.map(lambda x: 2 * x, range(5))), view.map_async(abs, [-1]).get(), view.apply_sync(pow, 2, 3)")) == (
        [0, 2, 4, 6, 8], [1], 8)


def test_a_view_outlives_its_ranks(nb):
    nb.ok("%ranks stop")
    nb.ok("import cellspan.px as ipp\nrc = ipp.Client(n=3)\ndv = rc[:]\n%ranks stop")
    assert values(nb.ok("dv.apply_sync(abs, -1), len(rc)")) == ([1, 1, 1], 3)
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 2\n1")
    gone = nb.run("dv.apply_sync(abs, -1)").assert_error("NoEnginesRegistered")
    assert "there is no rank 2: ranks are 0-1 (Client(n=3)" in gone.reply["evalue"]
    assert values(nb.ok("rc[:].apply_sync(abs, -1)")) == [1, 1]


NOTEBOOK = [  # the shape of ipyparallel's "Monte Carlo Options" and "Parallel Magics"; only the first line differs
    "import cellspan.px as ipp\nrc = ipp.Cluster(n=3).start_and_connect_sync()\ndv = rc[:]",
    "import numpy as np\ndef price(S, sigma, paths=2000):\n    import numpy as np\n    rng = np.random.default_rng(0)\n"
    "    return float(np.maximum(S * np.exp(sigma * rng.standard_normal(paths) - sigma**2 / 2) - 100, 0).mean())",
    "view = rc.load_balanced_view()\nresults = []\nfor S in np.linspace(90, 110, 4):\n    for sigma in (0.1, 0.4):\n"
    "        results.append(view.apply_async(price, S, sigma))\nrc.wait(results)",
    "prices = np.array([ar.get() for ar in results]).reshape(4, 2)\nassert np.allclose(prices[-1], [price(110, 0.1), price(110, 0.4)])",
    "dv.scatter('rank', rc.ids, flatten=True)\ndv['stride'] = len(dv)",
    "%%px\nmine = list(range(rank, 12, stride))\nmine",
    "%%time\n%%px --noblock\nimport time; time.sleep(0.1)\nrank, time.time()",
    "%time %pxresult",
    "assert sorted(sum(dv['mine'], [])) == list(range(12))\nprint('done')",
]


def test_a_notebook_of_theirs_runs_headless():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in NOTEBOOK])
    nbclient.NotebookClient(notebook, kernel_name=KERNEL, timeout=120).execute()
    assert notebook.cells[-1].outputs[0]["text"] == "done\n"
    assert "Out[0]: [0, 3, 6, 9]" in str(notebook.cells[5].outputs)
