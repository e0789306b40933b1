# SPDX-License-Identifier: BSD-3-Clause
"""What is asked for by name: %push, --capture, %pull and --into, beside what goes along by itself."""

from __future__ import annotations

import pytest
from client import rank_values


@pytest.fixture(scope="module", autouse=True)
def started(shared_notebook):
    shared_notebook.get().ok("%%distribute -n 2\nimport os\nrank = int(os.environ['RANK'])", limit=120)


def test_push_and_capture_send_what_ranks_have_changed(nb):
    nb.ok("import cellspan\nasked = 1")
    nb.ok("%%distribute -n 2\nasked += 1")
    nb.ok("%push asked")
    assert rank_values(nb, "asked", 2) == [1, 1]
    nb.ok("%%distribute -r 1\nasked = 9")
    cell = nb.ok("%%distribute --capture asked --gather\nasked")
    assert cell.value == "[1, 1]" and "rank 1" in cell.stderr and "--capture" in cell.stderr
    assert "capture" not in nb.ok("%%distribute --capture asked --gather\nasked").stderr
    nb.ok("cellspan.group().push(asked=0)")
    assert rank_values(nb, "asked", 2) == [0, 0] and nb.ok("asked").value == "1"


def test_what_was_pulled_stays_at_home(nb):
    nb.ok("%%distribute -n 2\nlosses = [rank]")
    nb.ok("%pull losses")
    nb.ok("losses.append('home')")
    nb.ok("%%distribute\nlosses.append(1)")
    assert rank_values(nb, "losses", 2) == [[0, 1], [1, 1]]
    nb.ok("%%distribute -n 2 --into score\n10 + rank")
    nb.ok("%%distribute -r 1\nscore = 'mine'")
    nb.ok("%%distribute -n 2 --into score\n20")
    assert rank_values(nb, "score", 2) == [20, "mine"]
    nb.ok("losses = 'new'")
    assert rank_values(nb, "losses", 2) == ["new", "new"]


@pytest.mark.parametrize("make", ["%%distribute -n 2 --gather --into every\nrank", "%pull each --into every"])
def test_a_rank_that_lacks_a_list_that_home_has_from_ranks_says_what_to_do(nb, make):
    nb.ok("%%distribute -n 2\neach = rank\nglobals().pop('every', None)")
    nb.ok(make)
    nb.ok("def show():\n    return every")
    told = "home has every, but %pull and --gather make a list, which is not sent by itself: %push every"
    for code in ("show()", "every"):
        cell = nb.run("%%distribute -n 2\n" + code).assert_error("NameError")
        assert cell.reply["traceback"][-1] == told and cell.reply["evalue"] == "name 'every' is not defined", cell.shown
    nb.ok("%push every")
    assert nb.ok("%%distribute -n 2\nshow()").value == "[0, 1]"
    assert told not in nb.run("%%distribute -n 2\nnobodys").assert_error("NameError").traceback


def test_a_rank_that_lacks_its_number_says_how_to_get_it(fresh):
    own = fresh()
    for name, call in (("rank", "rank"), ("LOCAL_RANK", "local_rank"), ("world_size", "world_size")):
        told = f"import cellspan; {name} = cellspan.{call}(), or int(os.environ['{call.upper()}'])"
        cell = own.run(f"%%distribute -n 2\n{name}").assert_error("NameError")
        assert cell.reply["traceback"][-1] == told, cell.shown
        assert own.ok(f"%%distribute -n 2\nimport os; {told.replace(', or ', '; also = ')}\n{name} == also").value == "True"
        assert "cellspan" not in own.run(name).assert_error("NameError").traceback, "home has no number"
    assert "import cellspan" not in own.run("%%distribute -n 2\nranks").assert_error("NameError").traceback


def test_a_pull_of_what_some_ranks_lack_names_those_that_have_it(nb):
    nb.ok("%%distribute -n 3\npass")
    nb.ok("%%distribute -n 2\nsome = 4")
    cell = nb.run("%pull some --into got").assert_error("NameError")
    assert cell.reply["traceback"][-1] == "ranks 0-1 have some: %pull -r 0-1 some --into got", cell.shown
    nb.ok("%pull -r 0-1 some --into got")
    assert nb.ok("got").value == "[4, 4]"
    assert "have some" not in nb.run("%pull nobodys").assert_error("NameError").traceback
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 2\nimport os\nrank = int(os.environ['RANK'])", limit=120)


def test_what_home_deletes_after_it_pulled_from_two_ranks_stays_there(nb):
    nb.ok("own = [1]")
    nb.ok("%%distribute -n 2\nown.append(rank)")
    nb.ok("%pull own -r 0")
    nb.ok("%pull own -r 1")
    nb.ok("del own")
    assert rank_values(nb, "own", 2) == [[1, 0], [1, 1]], "home has no copy of rank 0's"


def test_pull_of_a_range_is_a_list_whatever_its_length(nb):
    nb.ok("%%distribute -n 2\nlength = rank + 7")
    nb.ok("%pull length -r 0-0")
    assert nb.ok("length").value == "[7]"
    nb.ok("%pull length -r 0")
    assert nb.ok("length").value == "7"
    nb.ok("%pull length -r -1")
    assert nb.ok("length").value == "8"


@pytest.mark.parametrize("send", ["%push q", "%%distribute --capture q\nNone", "cellspan.group().push(q=q)"])
@pytest.mark.parametrize("pull", ["%pull q -r 0", "%%distribute --into q\nq"])
def test_what_was_pulled_is_sent_when_it_is_asked_for_also_after_a_cell_has_read_it(nb, pull, send):
    nb.ok("import cellspan\nq = [0]")
    nb.ok("%%distribute -n 2\nq")
    nb.ok("%%distribute -n 2 -r 0\nq.append('trained')")
    nb.ok(pull)
    for _ in range(2):
        assert rank_values(nb, "q", 2) == [[0, "trained"], [0]], "it is not sent by itself"
    nb.ok(send)
    assert rank_values(nb, "q", 2, "--no-capture") == [[0, "trained"]] * 2


def test_a_rank_that_lacks_what_home_had_assigned_before_it_pulled_gets_homes_value(nb):
    nb.ok("q = 'old'")
    assert rank_values(nb, "q", 2) == ["old"] * 2
    nb.ok("q = 'new'")
    nb.ok("%%distribute -n 2 -r 0\nq = q + '+r0'")
    nb.ok("%pull q -r 0")
    assert rank_values(nb, "q", 2) == ["new+r0"] * 2
    nb.ok("q = [1]")
    nb.ok("%%distribute -n 2\nq")
    nb.ok("q = [2]")
    nb.ok("%%distribute -n 2 -r 0\nq.append('r0')")
    nb.ok("%%distribute -n 2 -r 1 --no-capture\nq.append('r1')")
    nb.ok("%pull q -r 0")
    assert rank_values(nb, "q", 2) == [[2, "r0"], [1, "r1"]], "what rank 1 has changed stays"


def test_pull_in_a_world_of_one_is_a_list(fresh):
    alone = fresh()
    alone.ok("%%distribute -n 1\nx = 5", limit=120)
    alone.ok("%pull x")
    assert alone.ok("x").value == "[5]"
    assert alone.ok("import cellspan; cellspan.group().pull('x'), cellspan.group().pull('x', ranks=0), cellspan.group().pull('x', ranks=[0])").value == "([5], 5, [5])"


def test_a_module_that_only_ranks_have_imported_is_imported_and_not_pulled(nb):
    nb.ok("%%distribute -n 2\nimport wave, xml.dom as dom")
    for name, line in (("wave", "import wave"), ("dom", "import xml.dom as dom")):
        cell = nb.run(name).assert_error("NameError")
        assert line in cell.traceback and "%pull" not in cell.traceback, cell.shown


def test_a_name_that_home_has_not_got_is_named_with_a_near_one(nb):
    nb.ok("samples = [1, 2]")
    cell = nb.run("%scatter sample").assert_error("NameError")
    assert cell.error["evalue"] == "name 'sample' is not defined. Did you mean: 'samples'?"
    for code in ("%push sample", "%%distribute --capture sample\n1"):
        assert nb.run(code).assert_error("CaptureError").error["evalue"] == "home has no variable sample; did you mean samples?"
    nb.ok("globals()[5] = 1  # a key that is no name")
    assert nb.run("%push quagga").assert_error("CaptureError").error["evalue"] == "home has no variable quagga"
    nb.ok("del globals()[5]")


@pytest.mark.parametrize("code", ["%pull weight", "%gather weight", "import cellspan\ncellspan.group().pull('weight')",
                                  "import cellspan.px as ipp\nipp.Client()[:].pull('weight').get()"])
def test_a_name_that_ranks_have_not_got_is_named_with_a_near_one(nb, code):
    nb.ok("%%distribute -n 2\nweights = 1\nglobals()[5] = 1  # a key that is no name")
    assert "name 'weight' is not defined. Did you mean: 'weights'?" in nb.run(code).shown


def test_ranks_that_have_a_name_are_told_also_where_others_have_a_near_one(nb):
    nb.ok("%%distribute -n 2\nparts = 1\nif rank: part = 2")
    cell = nb.run("%pull part").assert_error("NameError")
    assert cell.error["evalue"].startswith("name 'part' is not defined. Did you mean: 'parts'?"), cell.shown
    assert cell.reply["traceback"][-1] == "rank 1 has part: %pull -r 1 part", cell.shown


@pytest.mark.parametrize("text", ["__main__.limit", "xx", "sys.modules['__main__'].limit", "globals()['limit']",
                                  "get_ipython().user_ns['limit']", "globals().get('limit')", "vars()['limit']", "locals()['limit']",
                                  "import __main__ as m; m.limit", "m = sys.modules['__main__']; m.limit", "globals()['li' + 'mit']",
                                  "ip = get_ipython(); ip.user_ns.get('limit')", "(lambda names: names['li' 'mit'])(globals())",
                                  "eval('limit + 0')", "get_ipython().ev('lim' + 'it')", "getattr(__main__, 'limit')"])
def test_a_name_of_the_notebooks_module_travels_as_a_plain_one(nb, text):
    nb.ok("limit = 1")
    nb.ok("%%distribute -n 2\nlimit")
    nb.ok("limit = 2")
    cell = nb.ok(f"%%distribute\nimport sys, __main__\nfrom __main__ import limit as xx\n{text}" if text == "xx"
                 else f"%%distribute\nimport sys, __main__\n{text}")
    assert cell.value == "2", cell.shown


@pytest.mark.parametrize("body", ["import __main__; return __main__.limit", "from __main__ import limit as xx; return xx", "return globals()['limit']",
                                  "return globals().get('limit')", "import sys; return sys.modules['__main__'].limit",
                                  "return get_ipython().user_ns['limit']", "return (lambda: vars(__main__)['limit'])()"])
def test_what_a_function_reads_by_the_notebooks_module_travels_too(nb, body):
    nb.ok(f"import __main__\nlimit = 1\ndef reads():\n    {body}")
    assert rank_values(nb, "reads()", 2) == [1, 1]
    nb.ok("limit = 2")
    assert rank_values(nb, "reads()", 2) == [2, 2]
    assert nb.ok("import cellspan\nlimit = 3\ncellspan.run(reads, n=2)").value == "3"


def test_what_an_earlier_cell_took_of_the_namespace_gives_todays_values(nb):
    nb.ok("limit, more = 1, [1]")
    nb.ok("%%distribute -n 2\nimport __main__ as where\nnames = globals()\nlimit, more")
    nb.ok("limit = 2; more.append(2)")
    assert nb.ok("%%distribute\nwhere.limit, names['more']").value == "(2, [1, 2])"
    nb.ok("import __main__ as here\nlimit = 3")
    assert nb.ok("%%distribute\nhere.limit").value == "3"
    nb.ok("def reads():\n    return here.limit\nlimit = 4")
    assert nb.ok("%%distribute\nreads()").value == "4"


def test_a_computed_name_takes_nothing_from_ranks_that_they_have_changed(nb):
    nb.ok("counts, unread, other = [0], object(), [0]\ndef of(name):\n    return globals().get(name)")
    nb.ok("%%distribute -n 2\ncounts.append(rank)\nother")
    nb.ok("counts.append('home'); other.append('home')")
    assert nb.ok("%%distribute\nof('coun' + 'ts'), of('oth' + 'er'), of('unr' + 'ead')").value == "([0, 0], [0, 'home'], None)"
    assert nb.ok("%%distribute\nglobals()['oth' + 'er']").value == "[0, 'home']"


def test_a_text_of_pandas_reads_the_names_that_it_has(nb):
    nb.ok("import pandas as pd\nlimit = 1\ndf = pd.DataFrame({'a': [1, 2, 3]})")
    assert nb.ok("%%distribute -n 2\nlen(df.query('a > @limit'))").value == "2"
    nb.ok("limit = 2")
    assert nb.ok("%%distribute\nlen(df.query('a > @limit'))").value == "1"
    nb.ok("limit = 3")
    assert nb.ok("%%distribute\nq = '(a >= 1) & (a < @limit)'\nlen(df.query(q)), len(df.query('(a >= 1) & (a < @limit)'))").value == "(2, 2)"
