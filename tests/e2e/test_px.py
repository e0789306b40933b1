# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.px: ipyparallel's magics and views, and a notebook of the shape of its examples."""
from __future__ import annotations

import pytest
from client import KERNEL, by_rank, values


@pytest.fixture
def four(nb):
    nb.ok("%reload_ext cellspan.px\nimport os, time\nimport cellspan.px as ipp\nrc = ipp.Client(n=4)\ndv = rc[:]\nrc.activate()")
    return nb


def shown(cell):
    """{rank: text} of what the last expressions were."""
    texts = [data["text/plain"] for data in cell.displays_of_code if data.get("text/plain", "").startswith("Out[")]
    return {int(text[4 : text.index("]")]): text.partition(": ")[2] for text in texts}


def test_px_runs_a_line_and_shows_every_ranks_value(four):
    assert values(four.ok("rc.ids, len(dv)")) == ([0, 1, 2, 3], 4)
    cell = four.ok("%px a = 5")
    assert cell.stdout == cell.stderr == "" and not cell.displays_of_code and cell.value is None, cell.shown
    assert by_rank(four.ok("%px print(a)").stdout) == {k: ["5"] for k in range(4)}
    four.ok("%px import cellspan")
    assert shown(four.ok("%px a + cellspan.rank()")) == {k: str(5 + k) for k in range(4)}
    four.run("%px home_only").assert_error("NameError")


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
    assert cell.value == "<AsyncResult(%px): pending>" and cell.stdout == cell.stderr == "", cell.shown
    assert four.ok("later.ready()").value == "False"
    assert "no result after 0.05 s" in four.run("later.get(0.05)").assert_error("TimeoutError").reply["evalue"]
    four.ok("open(place + '/go', 'w').close()")
    cell = four.ok("%pxresult")
    assert "[stdout:2] went\n" in cell.stdout and shown(cell) == {k: str(k) for k in range(4)}
    assert values(four.ok("later.get(), later.successful()")) == (["0", "1", "2", "3"], True)
    # The ranks may have ended before home shows the value.
    assert four.ok("%px --noblock 2").value in ("<AsyncResult(%px): pending>", "<AsyncResult(%px): finished>")
    assert values(four.ok("found = get_ipython().run_cell_magic('px', '--noblock --targets 1', '2')\nfound.get()")) == ["2"]


def test_what_functions_print_stands_under_the_cell_that_began_them(four):
    four.ok("def says(x): print('said', x); return x\nview = rc.load_balanced_view()")
    assert by_rank(four.ok("dv.apply_sync(says, 1)").stdout) == {k: ["said 1"] for k in range(4)}
    assert "said 2" in four.ok("view.apply_sync(says, 2)").stdout and "said 3" in four.ok("view.map_async(says, [3]).get()").stdout


def test_an_interrupt_of_home_leaves_an_asynchronous_call(four):
    four.ok("import tempfile; place = tempfile.mkdtemp(); dv['place'] = place")
    four.ok("%%px --noblock\nimport os, time\nwhile not os.path.exists(place + '/stop'): time.sleep(0.01)\n'ended'")
    cell = four.start("print('waits', flush=True)\n%pxresult")
    four.wait_shown(cell, "waits")
    four.control("interrupt_request")
    four.wait(cell).assert_error("KeyboardInterrupt")
    four.ok("open(place + '/stop', 'w').close()")
    assert set(shown(four.ok("%pxresult")).values()) == {"'ended'"}


@pytest.mark.parametrize(
    "who, line",
    [("all", "%ranks stop"), ("all", "# a comment\n%ranks restart"), ("1", "%ranks restart -r 1"), ("all", "print(1)\n%ranks stop"), ("all", "rc.shutdown()")],
)
def test_stop_and_restart_interrupt_an_asynchronous_call(four, who, line):
    four.ok(f"%%px --noblock --targets {who} -o endless\nimport time\nwhile True: time.sleep(0.01)")
    four.run(line, limit=60).assert_ok()
    four.run("endless.get()").assert_error("KeyboardInterrupt")
    assert four.ok("endless").value == "<AsyncResult(%px): failed>" and four.ok("endless.successful()").value == "False"
    four.ok("%px import cellspan")
    assert shown(four.ok("%px cellspan.rank()")) == {k: str(k) for k in range(4)}


def test_an_interrupt_of_a_cell_that_waits_leaves_what_it_waits_for(four, tmp_path):
    four.ok(f"place = {str(tmp_path)!r}; dv['place'] = place")
    four.ok("%%px --noblock -o later\nimport os, time\nwhile not os.path.exists(place + '/go'): time.sleep(0.01)\n'whole'")
    cell = four.start("%%distribute\n1")
    assert not four.until(lambda: cell.ended, 1)
    four.control("interrupt_request")
    four.wait(cell, 60).assert_error("KeyboardInterrupt")
    (tmp_path / "go").touch()
    assert set(values(four.ok("later.get()"))) == {"'whole'"}


def test_a_restart_of_one_rank_waits_for_what_others_run_too(four, tmp_path):
    four.ok(f"place = {str(tmp_path)!r}; dv['place'] = place")
    four.ok("%%px --noblock -o later\nimport os, time\nwhile not os.path.exists(place + '/go'): time.sleep(0.01)\n'whole'")
    cell = four.start("%ranks restart -r 1")
    assert not four.until(lambda: cell.ended, 1)
    (tmp_path / "go").touch()
    four.wait(cell, 60).assert_ok()
    assert set(values(four.ok("later.get()"))) == {"'whole'"}


def test_a_cell_on_ranks_waits_for_an_asynchronous_call(four):
    four.ok("%px order = []\n")
    four.ok("%%px --noblock\nimport time; time.sleep(0.5); order.append('first')")
    four.ok("%%px\norder.append('second')")
    assert values(four.ok("dv['order']")) == [["first", "second"]] * 4


def test_outputs_are_grouped_as_asked(four):
    code = "\nfrom IPython.display import HTML, display\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay(HTML('<b>b</b>'))\n7"
    cell = four.ok("%%px --group-outputs=engine --targets 0,1" + code)
    assert cell.stdout.split("\n")[:4] == ["[stdout:0] out", "[output:0]", "[stdout:1] out", "[output:1]"], cell.shown
    assert cell.stderr == "[stderr:0] err\n[stderr:1] err\n"
    assert [data.get("text/html") for data in cell.displays_of_code][::2] == ["<b>b</b>"] * 2 and shown(cell) == {0: "7", 1: "7"}
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
    four.ok("%pxconfig --targets all\nrc.activate(0, '0')")
    assert list(shown(four.ok("%px0 'x'"))) == [0]
    assert sorted(by_rank(four.ok("%px print('x')").stdout)) == [0, 1, 2, 3]
    four.ok("%pxconfig --targets 0\nrc.activate([0, 2])")
    assert sorted(by_rank(four.ok("%px print('x')").stdout)) == [0, 2]
    for code in ("ipp.bind_kernel()", "%qtconsole", "%connect_info"):  # the notebook goes on
        assert "a rank has no clients of its own: %%distribute -r 0" in four.ok("%%px\nimport cellspan.px as ipp\n" + code).stderr


def test_px_waits_while_its_view_blocks(four):
    def later(code):
        return four.ok(code).value.startswith("<AsyncResult(%px): ")

    four.ok("even = rc[::2]\neven.activate()")
    assert later("%px 'x'") and list(shown(four.ok("%pxresult"))) == [0, 2]
    four.ok("even.block = True")
    assert list(shown(four.ok("%px 'x'"))) == [0, 2]
    four.ok("%pxconfig --noblock")
    assert four.ok("even.block").value == "False" and later("%px 'x'")
    assert list(shown(four.ok("%%px --block\n'x'"))) == [0, 2]
    four.ok("even.block = True")
    assert list(shown(four.ok("%px 'x'"))) == [0, 2]
    four.ok("rc.activate()")
    assert list(shown(four.ok("%px 'x'"))) == [0, 1, 2, 3]


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


@pytest.mark.parametrize(
    "call", ["dv.map_async(fails, [1])", "view.map_async(fails, [1])", "view.apply_async(fails, 1)", "dv.apply_async(fails, 1)", "rc[0].apply_async(fails, 1)"]
)
def test_a_traceback_has_the_users_lines_alone(four, call):
    four.ok("view = rc.load_balanced_view()\ndef fails(x):\n    return 1 // (x - 1)\ndef endless():\n    yield 1\n    raise ValueError('no more')")
    for code, name in [(f"{call}.get()", "ZeroDivisionError"), ("dv.map_async(abs, endless()).get()", "ValueError")]:
        lines = "\n".join(four.run(code).assert_error(name).error["traceback"])
        assert "cellspan" not in lines.replace("cellspan.map: item 0", "") and name in lines, lines
        assert name == "ValueError" or "hidden" not in lines, lines


def test_what_is_wrong_is_named(four):
    for code, text in REFUSED:
        assert text in four.run(code).shown, code
    assert "--noblock" in four.ok("%px --help").stdout


def test_views(four):
    assert values(four.ok("dv.push({'b': 3}); dv['b'], rc[1]['b'], rc[::2].pull('b').get()")) == ([3] * 4, 3, [3, 3])
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


def test_tasks_and_maps_run_while_home_goes_on(four):
    """They wait for a file that a later cell makes: so nothing but the ranks' own work can end them."""
    four.ok("import tempfile; place = tempfile.mkdtemp()\nview = rc.load_balanced_view()\n"
            "def waits(place, x):\n    import os, time\n    while not os.path.exists(place + '/go'): time.sleep(0.01)\n    return 2 * x")
    for begin, values_ in (("view.map_async(waits, [place] * 6, range(6))", [0, 2, 4, 6, 8, 10]), ("view.apply_async(waits, place, 4)", 8),
                           ("dv.map_async(waits, [place] * 2, [1, 2])", [2, 4])):
        four.ok("later = " + begin)
        assert values(four.ok("rc.ids, later.ready(), later.done(), later.wait(0), later.wait(0.1), rc.wait([later], 0.05)")) == ([0, 1, 2, 3], *[False] * 5)
        assert "no result after 0.05 s" in four.run("later.get(0.05)").assert_error("TimeoutError").reply["evalue"]
        assert "if not done" in four.run("later.successful()").assert_error("RuntimeError").reply["evalue"]
        assert "pending" in four.ok("later").value
        four.ok("told = []; later.add_done_callback(lambda result: told.append(result.get()))\nopen(place + '/go', 'w').close()")
        assert values(four.ok("later.wait(), later.ready(), later.get(), told")) == (True, True, values_, [values_])
        assert "finished" in four.ok("later").value
        four.ok("os.unlink(place + '/go')")


def test_ranks_get_their_next_tasks_while_home_computes(four):
    """The cell that begins them asks nothing of cellspan until all are done: it looks at the files that they make."""
    four.ok("import tempfile\nview = rc.load_balanced_view()\n"
            "def makes(place, x):\n    import time\n    time.sleep(0.05)\n    open('%s/%d' % (place, x), 'w').close()\n    return x\n"
            "def alone(place, wanted):\n    until = time.monotonic() + 60\n"
            "    while len(os.listdir(place)) < wanted and time.monotonic() < until:\n        time.sleep(0.01)\n    return len(os.listdir(place))")
    for begin, results in (("[view.apply_async(makes, place, x) for x in range(40)]", "[task.get() for task in later]"),
                           ("view.map_async(makes, [place] * 40, range(40))", "later.get()"),
                           ("view.map_async(makes, [place] * 40, range(40), chunksize=3)", "later.get()")):
        assert values(four.ok("place = tempfile.mkdtemp()\nlater = " + begin + "\nalone(place, 40)")) == 40, begin
        assert values(four.ok(results)) == list(range(40))


def test_calls_on_single_ranks_run_at_the_same_time(four):
    """Each waits for the file of the next one, and rank 3 for none: so they end only if all run at once."""
    four.ok("import tempfile; place = tempfile.mkdtemp()\n"
            "def meet(place, rank):\n    import os, time\n    until = time.monotonic() + 60\n"
            "    while rank < 3 and not os.path.exists('%s/%d' % (place, rank + 1)) and time.monotonic() < until: time.sleep(0.01)\n"
            "    open('%s/%d' % (place, rank), 'w').close()\n    return int(os.environ['RANK']), time.monotonic() < until\n"
            "later = [rc[rank].apply_async(meet, place, rank) for rank in range(4)]")
    assert values(four.ok("[one.get() for one in later]")) == [(rank, True) for rank in range(4)]
    four.ok("later = [rc[1].apply_async(lambda k=k: (k, __import__('os').environ['RANK'])) for k in range(5)]\n"
            "bad, one = rc[2].apply_async(divmod, 1, 0), rc[[0]].apply_async(abs, -7)\nview = rc.load_balanced_view(); task = view.apply_async(abs, -8)")
    assert values(four.ok("[one.get() for one in later], one.get(), task.get()")) == ([(k, "1") for k in range(5)], [7], 8)
    assert "zero" in four.run("bad.get()").assert_error("ZeroDivisionError").reply["evalue"]
    four.ok("import numpy; large = numpy.ones(2 << 20)\nlater = [rc[rank].apply_async(lambda x: float(x.sum()), large) for rank in (0, 3)]")
    assert values(four.ok("[one.get() for one in later], rc[3].apply_sync(abs, -1), rc[3].apply(abs, -2).get()")) == ([float(2 << 20)] * 2, 1, 2)


def test_the_error_of_a_rank_is_the_maps_though_home_computes(four):
    four.ok("view = rc.load_balanced_view()\nlater = view.map_async(lambda x: 1 // (x - 5), range(40))\ntime.sleep(1)")
    assert "zero" in four.run("later.get()").assert_error("ZeroDivisionError").reply["evalue"]


def test_an_interrupt_of_homes_cell_loses_nothing_of_a_map(four):
    for _ in range(4):
        cell = four.start("m = dv.map_async(abs, range(20000), chunksize=40)\nprint('go', flush=True)\nwhile True: m.ready()")
        four.wait_shown(cell, "go")
        four.control("interrupt_request")
        lines = "\n".join(four.wait(cell).assert_error("KeyboardInterrupt").error["traceback"])
        assert "home_calls.py" not in lines and "_async_call.py" not in lines, lines
        assert four.ok("m.get() == list(range(20000))", limit=60).value == "True"


def test_an_interrupt_between_tasks_loses_none(four):
    four.ok("view, big = rc.load_balanced_view(), b'x' * (2 << 20)")
    cell = four.start("out = [view.apply_async(len, big)]\nprint('go', flush=True)\nwhile True: out.append(view.apply_async(len, big + bytes(len(out))))")
    four.wait_shown(cell, "go")
    four.control("interrupt_request")
    four.wait(cell, 30).assert_error("KeyboardInterrupt")
    assert four.ok("[r.get() - (2 << 20) for r in out] == list(range(len(out))) and len(out) > 0", limit=60).value == "True"


@pytest.mark.parametrize("call", ["rc.load_balanced_view().apply_async(reads, 1)", "dv.map_async(reads, range(1000))", "dv.apply_async(reads, 1)"])
def test_an_interrupt_before_the_ranks_begin_leaves_them_free(four, tmp_path, call):
    """The ranks load a variable meanwhile."""
    four.ok(f"place = {str(tmp_path)!r}\nclass Slow:\n    def __init__(self, place): self.place = place\n"
            "    def __setstate__(self, state):\n        import time\n        open(state['place'] + '/begun', 'w').close()\n        time.sleep(600)\n"
            "slow = Slow(place)\ndef reads(x): return x if slow else None")
    cell = four.start(call)
    assert four.until((tmp_path / "begun").exists)
    four.control("interrupt_request")
    four.wait(cell, 30).assert_error("KeyboardInterrupt")
    four.ok("%px 1", limit=60)


def test_a_map_has_the_items_that_a_list_had(four):
    cell = four.ok("xs = list(range(4000)); m = dv.map_async(abs, xs, chunksize=1); xs.clear(); len(m.get())", limit=60)
    assert cell.value == "4000"


def test_a_change_of_a_large_variable_reaches_the_next_task(four):
    """Also while the tasks before it run, and beside a large array."""
    four.ok("import numpy, time; view = rc.load_balanced_view()\ndef rate():\n    time.sleep(0.2)\n    return cfg['lr']")
    for table in "list(range(100000))", "numpy.zeros(1000000)":
        four.ok(f"cfg = {{'table': {table}, 'lr': 0.1}}; a = view.apply_async(rate); cfg['lr'] = 0.2; b = view.apply_async(rate)")
        assert values(four.ok("a.get(), b.get()")) == (0.1, 0.2)


def test_the_interrupt_of_a_cell_that_awaits_ends_the_cell_alone(four, tmp_path):
    four.ok("import asyncio, time\nclass Slow:\n    def __setstate__(self, state): time.sleep(0.02)\n    def __init__(self): self.a = 1\n"
            "def slow(x):\n    time.sleep(0.02)\n    return x, Slow()")
    cell = four.start("m = dv.map_async(slow, range(300), chunksize=1)\nprint('go', flush=True)\nawait asyncio.sleep(100)")
    four.wait_shown(cell, "go")
    four.control("interrupt_request")
    four.wait(cell, 30).assert_error("KeyboardInterrupt")
    assert four.ok("[x for x, _ in m.get()] == list(range(300))", limit=60).value == "True"


def test_values_that_load_without_end_leave_the_cell_to_an_interrupt(four):
    four.ok("import time\nclass Endless:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state):\n"
            "        print('loads', flush=True)\n        while hang: time.sleep(0.01)\nhang = True\ndef makes(x=0): return Endless()\nview = rc.load_balanced_view()")
    for call in "view.apply_async(makes)", "dv.map_async(makes, [1])", "rc[1].apply_async(makes)":
        four.ok(f"hang = True; r = {call}")
        cell = four.start("r.get()")
        four.wait_shown(cell, "loads")
        four.control("interrupt_request")
        four.wait(cell, 60).assert_error("KeyboardInterrupt")
        assert "Endless" in four.ok("hang = False; repr(r.get())").value


def test_a_value_is_there_after_an_interrupt_while_it_loads(four, tmp_path):
    four.ok(f"import os, time\ngo = {str(tmp_path)!r} + '/go'\nclass Slow:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state):\n"
            "        print('loads', flush=True)\n        time.sleep(1)\n"
            "def makes():\n    while not os.path.exists(go): time.sleep(0.01)\n    return Slow()\nr = dv.apply_async(makes)")
    cell = four.start("print('asks', flush=True); r.get()")
    four.wait_shown(cell, "asks")
    (tmp_path / "go").touch()
    four.wait_shown(cell, "loads")
    four.control("interrupt_request")
    four.wait(cell, 30).assert_error("KeyboardInterrupt")
    assert four.ok("len(r.get())", limit=30).value == "4"


def test_a_call_on_one_rank_begins_while_home_computes(four, tmp_path):
    four.ok("import os, time\ndef touches(at): open(at, 'w').close()\n")
    for k in range(4):
        four.ok(f"r = [rc[k].apply_async(touches, {str(tmp_path)!r} + '/{k}-%d' % k) for k in range(4)]\n"
                f"while len([x for x in os.listdir({str(tmp_path)!r}) if x.startswith('{k}-')]) < 4: time.sleep(0.01)", limit=30)


def test_an_error_that_takes_no_notes_keeps_its_class(four):
    four.ok("import cellspan, dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Bad(Exception):\n    code: int\n"
            "def fails(x):\n    if x == 3: raise Bad(x)")
    for call in "cellspan.map(fails, range(6))", "dv.map_async(fails, range(6)).get()":
        four.run(call, limit=30).assert_error("Bad")


def test_a_thread_may_ask_an_asynchronous_call(four):
    four.ok("import threading\nm = dv.map_async(abs, range(4000), chunksize=1)\n"
            "def asks():\n    while not m.ready(): pass\nthread = threading.Thread(target=asks); thread.start()")
    four.ok("while not m.ready(): pass\nthread.join()", limit=60)
    cell = four.start("print('go', flush=True)\nwhile True: pass")
    four.wait_shown(cell, "go")
    four.control("interrupt_request")
    four.wait(cell, 60).assert_error("KeyboardInterrupt")


def test_the_item_of_an_error_is_that_of_its_exception(four):
    four.ok("def fails(x):\n    if x in (3, 4): raise ValueError(x)\n")
    for way in ["cellspan.map(fails, range(8), chunksize=1)", "dv.map_async(fails, range(8), chunksize=1).get()"] * 4:
        code = f"import cellspan\ntry: {way}\nexcept ValueError as error: found = error.item, int(str(error))\nfound[0] == found[1], found"
        assert four.ok(code, limit=30).value.startswith("(True"), code


def test_what_is_done_is_kept_when_a_rank_dies_while_home_computes(four, tmp_path):
    """The rank dies a second after the tasks before have ended, so that their values have left their ranks."""
    four.ok(f"view, place = rc.load_balanced_view(), {str(tmp_path)!r}\ndef works(x):\n    open(f'{{place}}/{{x}}', 'w').close()\n"
            "    if x == 20:\n        while not all(os.path.exists(f'{place}/{k}') for k in range(16)): time.sleep(0.01)\n"
            "        time.sleep(1)\n        os._exit(9)\n    time.sleep(0.02)\n    return x\n"
            "later = [view.apply_async(works, x) for x in range(40)]\nwhile not os.path.exists(place + '/20'): time.sleep(0.01)\ntime.sleep(2)\n"
            "def what(one):\n    try:\n        return one.get()\n    except Exception as error:\n        return type(error).__name__")
    found = values(four.ok("[what(one) for one in later]"))
    assert found[:16] == list(range(16)) and found[20] == "RankDied", found


def test_a_task_goes_to_a_rank_that_is_free(four):
    """Ranks 0 to 2 wait for a file that the last task makes, so that one must not wait behind them. A sequence that makes its items late is not
    taken at once."""
    four.ok("import tempfile; place = tempfile.mkdtemp()\nview = rc.load_balanced_view()\n"
            "def waits(path):\n    import os, time\n    until = time.monotonic() + 60\n    while not os.path.exists(path) and time.monotonic() < until: time.sleep(0.01)\n"
            "    return time.monotonic() < until\n"
            "quick = [view.apply_async(abs, -k) for k in range(40)]\n"
            "later = [rc[rank].apply_async(waits, place + '/go') for rank in range(3)]\n"
            "last = view.apply_async(lambda path: open(path, 'w').close(), place + '/go')")
    assert values(four.ok("last.get(), [one.get() for one in later], [one.get() for one in quick][-1]")) == (None, [True] * 3, 39)
    four.ok("class Late:\n    made = 0\n    def __len__(self): return 400\n    def __getitem__(self, at):\n        if at >= 400: raise IndexError\n"
            "        Late.made += 1\n        return at\nlater = view.map_async(lambda x: __import__('time').sleep(0.005) or x, Late()); made = Late.made")
    assert values(four.ok("made < 100, later.get() == list(range(400))")) == (True, True)


def test_how_far_a_map_is(four, tmp_path):
    four.ok(f"view, go = rc.load_balanced_view(), {str(tmp_path)!r} + '/go'\ndef waits(x):\n    while x and not os.path.exists(go): time.sleep(0.01)\n"
            "    return x\nmapped = view.map_async(waits, [0] * 20 + [1.5], chunksize=1)")
    four.ok("while mapped.progress < 20: time.sleep(0.01)")
    assert values(four.ok("mapped.wait(0.7), mapped.progress, len(mapped), 0.5 < mapped.elapsed < 300")) == (False, 20, 21, True)
    (tmp_path / "go").touch()
    assert values(four.ok("mapped.get()[-1], mapped.progress, mapped.elapsed == mapped.wall_time")) == (1.5, 21, True)
    assert values(four.ok("task = view.apply_async(abs, -1); task.wait(), task.progress, len(task), len(dv.apply_async(abs, 1))")) == (True, 1, 1, 4)


def test_many_tasks_share_a_run_of_the_ranks(four):
    four.ok("view = rc.load_balanced_view()\nbegan = time.monotonic(); tasks = [view.apply_async(pow, x, 2) for x in range(500)]")
    assert values(four.ok("sum(task.get() for task in tasks), view.apply_async(abs, -1).get()")) == (sum(x * x for x in range(500)), 1)
    four.ok("bad, good = view.apply_async(lambda: (x for x in [])), view.apply_async(abs, -2)")
    assert "the value of <lambda>(), a generator, can't be sent home" in four.run("bad.get()").assert_error("TypeError").reply["evalue"]
    assert values(four.ok("good.get(), repr(bad)[-7:]")) == (2, "failed>")
    four.ok("import sys; bad, good = view.apply_async(sys.exit, 3), [view.apply_async(abs, -k) for k in range(20)]")
    assert values(four.ok("[task.get() for task in good], bad.wait(), bad.successful()")) == (list(range(20)), True, False)
    assert "abs(): it can't be sent to the ranks" in four.run("view.apply_async(abs, (x for x in []))").assert_error("TypeError").reply["evalue"]


def test_tasks_find_the_variables_of_home_that_they_read(four):
    four.ok("import colorsys\nk, big = 5, list(range(3))\ndef inner(x): return k * x + len(big)\ndef outer(x): return inner(x), colorsys.__name__\n"
            "view = rc.load_balanced_view()")
    assert values(four.ok("[task.get() for task in [view.apply_async(outer, x) for x in range(3)]]")) == [(3, "colorsys"), (8, "colorsys"), (13, "colorsys")]
    four.ok("tasks = []\nfor k in range(4):\n    tasks.append(view.apply_async(lambda: (time.sleep(0.1), k)[1]))")
    assert values(four.ok("[task.get() for task in tasks]")) == [0, 1, 2, 3]
    assert values(four.ok("big.append(3); view.apply_sync(outer, 1)[0], view.apply_sync(lambda f: f(1), inner)")) == (7, 7)


@pytest.mark.parametrize("call", ["dv.apply_async(abs, -1)", "view.apply_async(abs, -1)", "view.map_async(abs, [1])", "dv.execute('1')"])
def test_what_does_not_block_is_begun_in_the_notebooks_own_cells(four, call):
    four.ok("import concurrent.futures\nview = rc.load_balanced_view()")
    cell = four.run("with concurrent.futures.ThreadPoolExecutor() as pool: pool.submit(lambda: %s).result()" % call)
    assert "must be begun in the notebook's own cells, not in a thread" in cell.assert_error("RuntimeError").reply["evalue"]


def test_what_a_task_raises_comes_home_whatever_it_is(four):
    four.ok("def odd():\n    class Odd(Exception):\n        def __init__(self, a, b): self.lock = __import__('threading').Lock(); super().__init__(a, b)\n"
            "        def __str__(self): return 'odd \\ud800'\n    raise Odd(b'\\xff', object())")
    assert "Odd" in four.ok("error = rc.load_balanced_view().apply_async(odd).exception(); type(error).__name__").value
    assert values(four.ok("isinstance(error, ipp.RemoteError), rc.load_balanced_view().apply_sync(abs, -1)")) == (True, 1)


def test_a_rank_that_dies_ends_its_tasks(four):
    four.ok("view = rc.load_balanced_view()\ntasks = [view.apply_async(os._exit, 3), view.apply_async(time.sleep, 0.1)]")
    four.ok("rc.wait(tasks)")
    four.run("tasks[0].get()", limit=30).assert_error("RankDied")
    assert values(four.ok("view.apply_sync(abs, -1)")) == 1


def test_an_interrupt_while_home_rests_ends_the_tasks(four):
    four.ok("task = rc.load_balanced_view().apply_async(time.sleep, 100)")
    four.control("interrupt_request")
    four.run("task.get()").assert_error("KeyboardInterrupt")
    assert values(four.ok("rc.load_balanced_view().apply_sync(abs, -1)")) == 1


def test_what_does_not_block_gives_a_result(four):
    assert values(four.ok("dv.push({'b': 1}).get(), dv.pull('b').get(), dv.pull(['b', 'b'], block=True), dv.get('b'), rc[0].pull('b', block=True), "
                          "dv.pull('b', targets=1, block=True), rc[0].pull('b', targets=[0, 1], block=True)")) == (
        [None] * 4, [1] * 4, [[1, 1]] * 4, [1] * 4, 1, 1, [1, 1])
    assert values(four.ok("dv.scatter('b', [1, 2]).wait(), dv['b']")) == (True, [[1], [2], [], []])


def test_a_rank_that_is_in_a_view_twice_has_its_last_part(four):
    assert values(four.ok("twice = rc[[0, 0, 2]]; twice.scatter('part', list(range(6))); rc[0]['part'], twice['part'], twice.gather('part', block=True)")) == (
        [2, 3], [[2, 3], [2, 3], [4, 5]], [2, 3, 2, 3, 4, 5])


@pytest.mark.parametrize("call", ["dv.pull('none', block=True)", "dv.gather('none', block=True)", "dv['none']"])
def test_after_stop_the_ranks_come_again_without_their_variables(four, call):
    four.ok("dv['none'] = 1\n%ranks stop")
    assert "'none' is not defined" in four.run(call).assert_error("NameError").reply["evalue"]
    four.ok("%ranks stop")
    assert values(four.ok("rc.load_balanced_view().apply_sync(abs, -1), len(rc)")) == (1, 4)
    four.ok("%ranks stop")
    assert values(four.ok("rc.load_balanced_view().map_sync(abs, [-1]), len(rc)")) == ([1], 4)


def test_a_view_outlives_its_ranks(nb):
    nb.ok("%ranks stop")
    nb.ok("import cellspan.px as ipp\nrc = ipp.Client(n=3)\ndv = rc[:]\n%ranks stop")
    assert values(nb.ok("dv.apply_sync(abs, -1), len(rc)")) == ([1, 1, 1], 3)
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 2\n1")
    gone = nb.run("dv.apply_sync(abs, -1)").assert_error("NoEnginesRegistered")
    assert "there is no rank 2: ranks are 0-1 (Client(n=3)" in gone.reply["evalue"]
    assert values(nb.ok("rc[:].apply_sync(abs, -1)")) == [1, 1]


NOTEBOOK_CELLS = [  # the shape of ipyparallel's "Monte Carlo Options" and "Parallel Magics"; only the first line differs
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
    "@view.parallel(block=True)\ndef double(x):\n    return 2 * x\nmapped = view.map_async(lambda x: 2 * x, range(5))\n"
    "assert list(view.map(lambda x: 2 * x, range(5))) == mapped.get() == double.map(range(5)) == [0, 2, 4, 6, 8] and mapped.msg_ids",
    "assert sorted(sum(dv['mine'], [])) == list(range(12))\nprint('done')",
]


MPI_LIKE = [  # the shape of "Using MPI with IPython Parallel", for torch.distributed
    "import cellspan.px as ipp\nrc = ipp.Client(n=3)\nview = rc[:]",
    "@view.remote(block=True)\ndef own_rank():\n    import cellspan\n    return cellspan.rank()",
    "assert own_rank() == [0, 1, 2]\nown_rank.block = False\nassert own_rank().get_dict() == {0: 0, 1: 1, 2: 2}",
    "%%px\nimport torch.distributed as dist\ndist.init_process_group('gloo')\nrank, size = dist.get_rank(), dist.get_world_size()\nmine = [None]\n"
    "dist.scatter_object_list(mine, [(k + 1) ** 2 for k in range(size)] if rank == 0 else None, src=0)\n"
    "assert mine == [(rank + 1) ** 2], mine\n{'data': mine[0], 'rank': rank}",
    "cluster = ipp.Cluster(n=3, engines='MPI')\nawait cluster.start_cluster()\nclient = await cluster.connect_client()\n"
    "async with ipp.Cluster(n=3) as other:\n    print(other.ids)\nprint(client.ids)",
]


def executed(cells):
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(notebook, kernel_name=KERNEL, timeout=120).execute()
    return notebook


def test_a_notebook_that_uses_mpi_runs_with_torch_distributed():
    notebook = executed(MPI_LIKE)
    assert "Out[2]: {'data': 9, 'rank': 2}" in str(notebook.cells[3].outputs)
    said = str(notebook.cells[4].outputs)
    assert "[0, 1, 2]" in said and "[]" in said


def test_a_notebook_of_theirs_runs_headless():
    notebook = executed(NOTEBOOK_CELLS)
    assert notebook.cells[-1].outputs[-1]["text"] == "done\n"
    assert "Out[0]: [0, 3, 6, 9]" in str(notebook.cells[5].outputs)
