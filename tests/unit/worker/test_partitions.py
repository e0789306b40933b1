# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of a table of Spark that executors write and ranks read: what they write, and which rank reads which."""

import os
import pickle
import stat
import subprocess
import sys
import threading
import types
from unittest import mock

import cloudpickle
import pytest
from cellspan._worker import spark_session
from cellspan.torch import _dataframes, _partitions

KINDS = ["double", "array<bigint>", "vector"]


class Vector:
    def __init__(self, *values):
        self.values = list(values)

    def toArray(self):
        return types.SimpleNamespace(tolist=lambda: self.values)


def written(rows, monkeypatch, tmp_path, kinds=KINDS):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "%s,/other" % tmp_path)
    (told,) = _partitions._of_rows(kinds)(3, iter(rows))
    return _partitions.Partition(*pickle.loads(told))


def test_an_executor_writes_columns_where_spark_empties_the_folder(monkeypatch, tmp_path):
    part = written([(0.5, [1, 2], Vector(1.0, 2.0)), (1.5, [3], Vector(3.0))], monkeypatch, tmp_path)
    assert (part.number, len(part), part.missing) == (3, 2, None) and os.path.dirname(part.path) == str(tmp_path)
    assert stat.S_IMODE(os.stat(part.path).st_mode) == 0o600
    assert pickle.loads(_partitions._taken(part.path)) == [[0.5, 1.5], [[1, 2], [3]], [[1.0, 2.0], [3.0]]]
    assert os.listdir(tmp_path) == []


def test_files_of_a_call_that_failed_go_with_the_next_one(monkeypatch, tmp_path):
    """No rank has read them. Those of another notebook, and of a call that another thread makes now, stay."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    others = tmp_path / "cellspan-part-0123456789ab-0123456789ab-x"
    others.touch()
    first = written([(0.5,)], monkeypatch, tmp_path, ["double"])
    wrote, goes_on, parts = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: (parts.append(written([(1.5,)], monkeypatch, tmp_path, ["double"])), wrote.set(), goes_on.wait()))
    thread.start()
    try:
        assert wrote.wait(60) and os.path.exists(first.path) and os.path.exists(parts[0].path)
        of_two = _partitions._of_rows(["double"])
        parts += [_partitions.Partition(*pickle.loads(told)) for number in (0, 1) for told in of_two(number, iter([(2.5,)]))]
        assert {str(path) for path in tmp_path.iterdir()} == {str(others), *(part.path for part in parts)}
    finally:
        goes_on.set()
        thread.join()
    last = written([(3.5,)], monkeypatch, tmp_path, ["double"])
    assert {str(path) for path in tmp_path.iterdir()} == {str(others), last.path}


@pytest.mark.parametrize(("row", "missing"), [((None, [1], Vector(0.0)), ("value", 0, 1)), ((0.5, [1, None], Vector(0.0)), ("list", 1, 1)),
                                             ((0.5, None, Vector(0.0)), ("value", 1, 1))])
def test_what_no_tensor_can_hold_is_found_there(monkeypatch, tmp_path, row, missing):
    part = written([(0.5, [1], Vector(0.0)), row], monkeypatch, tmp_path)
    assert part.missing == missing
    frame = types.SimpleNamespace(schema=[types.SimpleNamespace(name=name, dataType=types.SimpleNamespace(simpleString=lambda kind=kind: kind))
                                          for name, kind in zip("xnv", KINDS)])
    monkeypatch.setattr(_partitions, "written", lambda frame, kinds: [part])
    with pytest.raises(ValueError, match=r"column '%s' has .* row 1 of partition 3: " % "xnv"[missing[1]]):
        _dataframes._written_by_spark(frame)


def test_vectors_of_arrow_are_lists(monkeypatch, tmp_path):
    dense, sparse = {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0]}, {"type": 0, "size": 3, "indices": [1], "values": [4.0]}
    part = written([(dense,), (sparse,)], monkeypatch, tmp_path, ["vector"])
    assert pickle.loads(_partitions._taken(part.path)) == [[[1.0, 2.0], [0.0, 4.0, 0.0]]]


def test_an_executor_needs_no_cellspan(monkeypatch, tmp_path):
    (tmp_path / "job").write_bytes(cloudpickle.dumps(_partitions._of_rows(["double"])))
    code = ("import pickle, sys; sys.path.append(%r); sys.modules['cellspan'] = None\n"
            "print(pickle.loads(pickle.load(open('job', 'rb'))(0, [(1.0,)])[0])[:2])" % os.path.dirname(os.path.dirname(cloudpickle.__file__)))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "(0, 1)\n", done.stderr


@pytest.mark.parametrize(("here", "reads"), [
    ({0: [0, 1], 1: [0, 1]}, {0: 0, 1: 1}),
    ({0: [1], 1: [0]}, {0: 1, 1: 0}),
    ({0: [0, 1], 1: [0], 2: [1, 2]}, {0: 1, 1: 0, 2: 2}),
    ({0: [0, 1], 1: []}, {0: 0}),
])
def test_a_rank_reads_what_it_sees(here, reads):
    assert _partitions.matched(here) == reads


def test_what_a_rank_does_not_see_is_passed_on(monkeypatch):
    sent = []
    monkeypatch.setattr(_partitions, "send_load", lambda home, cell, to, head, data=b"": sent.append((to, head, data)))
    server = _partitions.Server(None, [_partitions.Partition(number, 1, "", "h%d" % number, None) for number in range(3)])
    for rank, here in ((2, [2]), (0, [0, 1]), (1, [])):
        assert sent == []
        server.take(7, rank, {"here": here}, b"")
    assert sent == [(2, {"read": 2}, b""), (0, {"read": 0, "give": [1]}, b"")]
    server.take(7, 0, {"gives": 1}, b"rows")
    assert sent[-1] == (1, {"given": 1}, b"rows")


def test_a_partition_that_nobody_sees_is_named():
    server = _partitions.Server(None, [_partitions.Partition(number, 1, "", "h%d" % number, None) for number in range(2)])
    server.here = {0: [0], 1: []}
    assert set(server.shared()) == {0, 1}
    assert "partition 1 of the table is on h1, where no rank is" in server.shared()[0]["failed"]


def test_ranks_that_hold_all_slots_are_named_before_a_job_waits_for_them(monkeypatch):
    monkeypatch.setattr(_partitions, "slots_free", lambda: 0, raising=False)
    with pytest.raises(RuntimeError, match="%ranks stop"):
        _partitions.written(None, [])


@pytest.mark.parametrize("ranks", [[], [{"rank": 0}]])
def test_where_free_slots_can_not_be_seen_a_line_says_what_a_job_may_wait_for(monkeypatch, capsys, ranks):
    class Frame:
        __module__ = "pyspark.sql.connect.dataframe"
        sparkSession = None

        def mapInArrow(self, function, schema):
            return types.SimpleNamespace(collect=list)

    kinds = types.SimpleNamespace(BinaryType=mock.Mock(), StructField=mock.Mock(), StructType=mock.Mock())
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.types"):
        monkeypatch.setitem(sys.modules, name, kinds)
    monkeypatch.setattr(_partitions, "slots_free", lambda: None, raising=False)
    monkeypatch.setattr(_partitions, "group", lambda: types.SimpleNamespace(ranks=lambda: ranks), raising=False)
    assert _partitions.written(Frame(), []) == []
    assert ("`%ranks stop` frees those of the ranks" in capsys.readouterr().err) == bool(ranks)


@pytest.mark.parametrize(("place", "group", "applies"), [
    ("spark", None, True), (None, "spark", True), (None, "spark:--conf spark.task.cpus=1", True), ("spark:spark://h:1", None, False), (None, "local", False),
    (None, None, False),
])
def test_only_the_tables_own_session_reads_it(monkeypatch, place, group, applies):
    monkeypatch.setattr(_partitions, "caller", lambda: None, raising=False)
    monkeypatch.setattr(_partitions, "is_far", lambda home: False, raising=False)
    monkeypatch.setattr(_partitions, "group", lambda: types.SimpleNamespace(on=group), raising=False)
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    assert _partitions.applies(frame, place) == applies
    assert not _partitions.applies([], place)


@pytest.mark.parametrize(("slots", "busy", "free"), [(4, [1, 2], 1), (4, [], 4), (2, [2, 1], 0), (0, [], None)])
def test_home_counts_free_slots_of_its_session(monkeypatch, slots, busy, free):
    busy = list(busy)
    values = types.SimpleNamespace(hasNext=lambda: bool(busy), next=busy.pop)
    scala = types.SimpleNamespace(
        maxNumConcurrentTasks=lambda profile: slots, resourceProfileManager=lambda: types.SimpleNamespace(defaultResourceProfile=lambda: None),
        taskScheduler=lambda: types.SimpleNamespace(runningTasksByExecutors=lambda: types.SimpleNamespace(valuesIterator=lambda: values)))
    context = types.SimpleNamespace(_jsc=types.SimpleNamespace(sc=lambda: scala))
    module = types.SimpleNamespace(SparkContext=types.SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", module)
    assert spark_session.slots_free() == free
    monkeypatch.delitem(sys.modules, "pyspark")
    assert spark_session.slots_free() is None
