# SPDX-License-Identifier: BSD-3-Clause
"""Tables for TorchDistributor._train_on_dataframe: a part of the rows for each rank, and the DataLoader that reads it.

A part is a list of columns. On a rank it is kept in memory and, where pyarrow is installed, also written to the files that pyspark
names in the environment, so that pyspark's own loader finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile

from .._dropin_api import caller, is_far, pack_bytes, reason, serving
from .._dropin_api import launch as launch_job
from . import _partitions

SPARK_PARTITION_ARROW_DATA_FILE = "SPARK_PARTITION_ARROW_DATA_FILE"  # pyspark's variables: the rows as a stream of Arrow,
SPARK_DATAFRAME_SCHEMA_FILE = "SPARK_DATAFRAME_SCHEMA_FILE"  # and Spark's description of the columns as JSON
PLAIN = ("float", "double", "int", "bigint", "smallint")  # Spark's types that a loader can give, also in arrays
WHOLE = ("int", "bigint", "smallint")  # those of them that are whole numbers
KINDS = {"float32": "float", "float64": "double", "int16": "smallint", "int32": "int", "int64": "bigint",
         "halffloat": "float", "float": "float", "double": "double"}  # by the names of numpy and of Arrow
DATASET = "SparkPartitionTorchDataset"
PARTS = "TorchDistributor._train_on_dataframe requires setting num_processes equal to input spark dataframe partition number."
SAMPLE = 100  # rows that decide the type of a column of lists
EMPTY = "Empty Spark partition is not allowed in TorchDistributor.train_on_dataframe."

_part = None  # the Part of this process, while its function runs


class Part:
    """Some rows of a table. columns: [(name, Spark's name of the type, list or array of the values)]."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0][2]) if self.columns else 0


class OnPart:
    """A function, to be called on a rank with that rank's part."""

    def __init__(self, fn, of):
        """of: the number of home's server of the parts."""
        self.fn, self.of = fn, of
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        from .._dropin_api import receive_part

        with _given(receive_part(self.of)):
            return self.fn(*args, **kwargs)


class OnPartition(OnPart):
    """The same with a partition that an executor of Spark has written."""

    def __init__(self, fn, of, paths, columns):
        super().__init__(fn, of)
        self.paths, self.columns = paths, columns

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        values = _partitions.received(self.of, self.paths)
        with _given(Part([(name, kind, column) for (name, kind), column in zip(self.columns, values)])):
            return self.fn(*args, **kwargs)


@contextlib.contextmanager
def _given(part):
    global _part
    folder = _written(part) if sys.modules.get("pyarrow") or _has_arrow() else None
    _part = part
    try:
        yield
    finally:
        _part = None
        if folder is not None:
            os.environ.pop(SPARK_PARTITION_ARROW_DATA_FILE, None)
            os.environ.pop(SPARK_DATAFRAME_SCHEMA_FILE, None)
            shutil.rmtree(folder, ignore_errors=True)


def _has_arrow():
    import importlib.util

    return importlib.util.find_spec("pyarrow") is not None


def _written(part):
    """Writes pyspark's files to a new folder, and names them in the environment. Returns the folder."""
    import pyarrow

    folder = tempfile.mkdtemp(prefix="cellspan-part-")
    table = pyarrow.table({name: pyarrow.array(values) for name, _, values in part.columns})
    data, schema = os.path.join(folder, "data.arrow"), os.path.join(folder, "schema.json")
    with pyarrow.OSFile(data, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    fields = [{"name": name, "type": _json_type(kind), "nullable": True, "metadata": {}} for name, kind, _ in part.columns]
    with open(schema, "w", encoding="utf-8") as file:
        json.dump({"type": "struct", "fields": fields}, file)
    os.environ[SPARK_PARTITION_ARROW_DATA_FILE], os.environ[SPARK_DATAFRAME_SCHEMA_FILE] = data, schema
    return folder


def _json_type(kind):
    """Spark's description of a type, as its JSON has it."""
    if kind.startswith("array<"):
        return {"type": "array", "elementType": _json_type(kind[6:-1]), "containsNull": True}
    return {"int": "integer", "bigint": "long", "smallint": "short"}.get(kind, kind)


# ---- at home: a table into parts ------------------------------------------------------------------------------------


def divided(table, n, place=None):
    """A list of n Parts, or of Partitions if the ranks are on the executors of the table's session. place: the option `on`.

    ValueError: a part would be empty, or Spark's partitions are not n. TypeError: it is no table.
    """
    __tracebackhide__ = True
    module = type(table).__module__.partition(".")[0]
    made = {"pyspark": _of_spark, "pandas": _of_pandas, "pyarrow": _of_arrow}.get(module)
    if made is None or not hasattr(table, "columns"):
        raise TypeError(f"_train_on_dataframe() needs a DataFrame of Spark or pandas, or an Arrow table, not {type(table).__name__}")
    _check_names([str(name) for name in (table.column_names if module == "pyarrow" else table.columns)])
    parts = _written_by_spark(table) if _partitions.applies(table, place) else made(table, n)
    if len(parts) != n:
        raise ValueError(f"{PARTS} ({len(parts)} partitions, num_processes={n}: use repartition({n}))")
    for number, part in enumerate(parts):
        if not len(part):
            raise ValueError(f"{EMPTY} (of {n} parts, number {number} has no rows: take fewer processes, or repartition the table)")
    return parts


def launch(fn, parts, args, kwargs, options):
    """Calls a function with these options of launch_job(), on as many ranks as there are parts. Each rank is sent its own alone."""
    __tracebackhide__ = True
    if isinstance(parts[0], _partitions.Partition):
        return _partitions.launch(lambda of, paths: OnPartition(fn, of, paths, parts[0].columns), parts, args, kwargs, options)
    home = caller()
    if is_far(home):
        return home.do("torch._dataframes", "launch", fn, parts, args, kwargs, options)
    with serving(home, _Server(home, parts)) as of:
        return launch_job(OnPart(fn, of), args, kwargs, **options)


class _Server:
    """Hands each rank its part."""

    def __init__(self, home, parts):
        self.home, self.parts = home, parts

    def take(self, cell, rank, head, data):
        from .._dropin_api import send_load

        try:
            data = pack_bytes(self.parts[rank], self.home.shell.user_ns)
        except Exception as error:  # noqa: BLE001 - a user's class may raise anything
            send_load(self.home, cell, rank, {"failed": f"the rows of rank {rank} can't be sent: {reason(error)}"})
        else:
            send_load(self.home, cell, rank, {}, data)

    def stop(self, error):
        """take() was interrupted; so are the ranks."""


def _check_names(names):
    __tracebackhide__ = True
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"two columns of the table have the name {name!r}: give one of them another name")


def _check_values(name, kind, values, where=""):
    """ValueError: a number is missing, since no tensor can hold that. NaN is a number."""
    __tracebackhide__ = True
    row = _missing(values)
    if row is not None:
        _refuse("value", name, row, where)
    if kind.startswith("array<"):
        for row, value in enumerate(values):
            if _missing(value) is not None:
                _refuse("list", name, row, where)


def _refuse(what, name, row, where):
    __tracebackhide__ = True
    if what == "value":
        raise ValueError(f"column {name!r} has no value in row {row}{where}: fill it, as table.fillna(0) does, or drop the row, as table.dropna() does")
    raise ValueError(f"column {name!r} has None in the list of row {row}{where}: put a number there, or drop the row")


def _missing(values):
    """The number of the first value that is missing, or None."""
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":  # an array of numbers
        return None
    return next((at for at, value in enumerate(values) if value is None or type(value).__name__ == "NAType"), None)  # pandas' own None


def _cut(columns, rows, n):
    """n Parts, whose lengths differ by one at most."""
    __tracebackhide__ = True
    for column in columns:
        _check_values(*column)
    bounds = [(rows * k // n, rows * (k + 1) // n) for k in range(n)]
    return [Part([(name, kind, values[a:b]) for name, kind, values in columns]) for a, b in bounds]


def _of_pandas(frame, n):
    columns = []
    for name in frame.columns:
        column = frame[name]
        kind = _kind_of(column)
        whole = kind in PLAIN and not (kind in WHOLE and column.isna().any())  # to_numpy() would make floats of these
        columns.append((str(name), kind, column.to_numpy() if whole else column.tolist()))
    return _cut(columns, len(frame), n)


def _kind_of(column):
    """Spark's name of the type of a column of pandas."""
    import numpy

    kind = str(column.dtype)
    if kind == "object" and len(column) and isinstance(column.iloc[0], (list, tuple, numpy.ndarray)):
        inner = numpy.result_type(*map(numpy.asarray, column.iloc[:SAMPLE])).name
        return f"array<{KINDS.get(inner, inner)}>"
    return KINDS.get(kind.lower(), kind)


def _of_arrow(table, n):
    columns = []
    for number, field in enumerate(table.schema):
        kind, column = _arrow_kind(field.type), table.column(number)
        flat = column.combine_chunks() if hasattr(column, "combine_chunks") else column  # a record batch has none
        columns.append((field.name, kind, flat.to_numpy(zero_copy_only=False) if kind in PLAIN and not flat.null_count else flat.to_pylist()))
    return _cut(columns, table.num_rows, n)


def _arrow_kind(kind):
    import pyarrow

    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return f"array<{_arrow_kind(kind.value_type)}>"
    return KINDS.get(str(kind), str(kind))


def _types_of_spark(frame):
    return [(field.name, field.dataType.simpleString()) for field in frame.schema]


def _written_by_spark(frame):
    """The same, written by the executors."""
    __tracebackhide__ = True
    kinds = _types_of_spark(frame)
    parts = _partitions.written(frame, [kind for _, kind in kinds])
    for part in parts:
        if part.missing:
            what, column, row = part.missing
            _refuse(what, kinds[column][0], row, f" of partition {part.number}")
        part.columns = [(name, "array<double>" if kind == "vector" else kind) for name, kind in kinds]
    return parts


def _of_spark(frame, n):
    """One part for each of Spark's partitions, in their order."""
    __tracebackhide__ = True
    kinds = _types_of_spark(frame)
    if frame.rdd.getNumPartitions() != n:
        raise ValueError(f"{PARTS} ({frame.rdd.getNumPartitions()} partitions, num_processes={n}: use repartition({n}))")
    rows = frame.rdd.glom().collect()
    parts = [Part([(name, "array<double>" if kind == "vector" else kind, [_plain(row[k]) for row in part])
                   for k, (name, kind) in enumerate(kinds)]) for part in rows]
    for number, part in enumerate(parts):
        for column in part.columns:
            _check_values(*column, f" of partition {number}")
    return parts


def _plain(value):
    """A vector of Spark's ML as a list of numbers; other values as they are."""
    array = getattr(value, "toArray", None)
    return array().tolist() if array is not None else value


# ---- on a rank: the loader ------------------------------------------------------------------------------------------


def _get_spark_partition_data_loader(num_samples, batch_size, num_workers=1, prefetch_factor=2):
    """A DataLoader over this rank's part of the table, for use in the function of TorchDistributor._train_on_dataframe().

    num_samples: rows of an epoch; after the last row of the part, the first one follows. batch_size, num_workers, prefetch_factor:
    as in torch's DataLoader, with one worker process at most. The interface is that of pyspark's function of this name.
    """
    from torch.utils.data import DataLoader

    if _part is None:
        raise RuntimeError("_get_spark_partition_data_loader() works in the function that TorchDistributor._train_on_dataframe() calls")
    dataset = (globals().get(DATASET) or __getattr__(DATASET))(_part, num_samples)
    if num_workers > 0:
        return DataLoader(dataset, batch_size, num_workers=num_workers, prefetch_factor=prefetch_factor)
    return DataLoader(dataset, batch_size, num_workers=num_workers)


def __getattr__(name):
    """Makes the class of the dataset, which needs torch, when it is first used."""
    if name != DATASET:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torch.utils.data import IterableDataset

    made = type(name, (IterableDataset,), {"__init__": _hold, "__iter__": _rows, "__module__": __name__})
    globals()[name] = made
    return made


def _hold(self, part, num_samples):
    self.part, self.num_samples = part, num_samples


def _rows(self):
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    if worker is not None and worker.num_workers > 1:
        raise RuntimeError(f"`{DATASET}` does not support multiple worker processes.")
    columns = [(_reader(kind), values) for _, kind, values in self.part.columns]
    for number in range(self.num_samples):
        row = number % len(self.part)
        yield [read(values[row]) for read, values in columns]


def _reader(kind):
    """A function that makes of a value of this type what a loader can give."""
    inner = kind[6:-1] if kind.startswith("array<") else kind
    if inner not in PLAIN:
        raise ValueError(f"{DATASET} does not support loading data from field of type {kind}.")
    if inner == kind:
        return _number
    import numpy

    dtype = {"float": "float32", "double": "float64", "int": "int32", "bigint": "int64", "smallint": "int16"}[inner]
    return lambda value: numpy.asarray(value, dtype=dtype)


def _number(value):
    return value.item() if hasattr(value, "item") else value
