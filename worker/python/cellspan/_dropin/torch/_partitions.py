# SPDX-License-Identifier: BSD-3-Clause
"""A table of Spark for TorchDistributor._train_on_dataframe, if the ranks are on the executors of its session: no row passes through the
notebook. A Spark job writes each partition to a file where the executor is, and a rank of the same machine reads it. Only what no rank of
that machine can take goes another way: a rank there reads it, and home passes it on as it is.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading

from .._dropin_api import Exchange, caller, group, is_far, send_load, serving, slots_free, this_rank
from .._dropin_api import launch as launch_job

_own = "cellspan-part-%s-" % os.urandom(6).hex()  # begins the names of this notebook's files
_calls = {}  # by thread, its last call, by the name that the call's files begin with


def applies(table, place):
    """Are the ranks on executors of the table's own session? place: the option `on` of the call."""
    if type(table).__module__.partition(".")[0] != "pyspark" or is_far(caller()):
        return False
    on = place or group().on or ""
    return on == "spark" or on.startswith("spark:-")  # spark:MASTER is another application


class Partition:
    """Where an executor has written it. missing: (kind, column, row), or None. columns: their (name, type)s."""

    columns = ()

    def __init__(self, number, rows, path, host, missing):
        self.number, self.rows, self.path, self.host, self.missing = number, rows, path, host, missing

    def __len__(self):
        return self.rows


def _names():
    """With what the names of the files of a new call begin, and those of all files that ranks may still read: others are left of calls that
    have failed. A thread has one call at a time."""
    threads = {thread.ident for thread in threading.enumerate()}
    for thread in set(_calls) - threads:
        _calls.pop(thread, None)
    name = _calls[threading.get_ident()] = "%s%s-" % (_own, os.urandom(6).hex())
    return name, list(_calls.values())


def written(frame, kinds):
    """A Partition for each of Spark's, in their order. kinds: the types of the columns, as Spark's words. RuntimeError: no slot is free,
    so the job would wait for the ranks to end."""
    __tracebackhide__ = True
    if slots_free() == 0:
        raise RuntimeError("all slots of the notebook's Spark session are taken by its ranks or other tasks, so no job can read the table: "
                           "`%ranks stop` frees those of the ranks")
    if hasattr(frame, "sparkSession") and type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.types import BinaryType, StructField, StructType

        if group().ranks():  # nobody can see there whether a slot is free
            print("cellspan: a job of the Spark session reads the table; if it waits for a slot, interrupt the cell: `%ranks stop` frees "
                  "those of the ranks", file=sys.stderr)
        stored = [row[0] for row in frame.mapInArrow(_of_batches(kinds), StructType([StructField("stored", BinaryType())])).collect()]
    else:
        stored = frame.rdd.mapPartitionsWithIndex(_of_rows(kinds)).collect()
    return sorted((Partition(*pickle.loads(bytes(each))) for each in stored), key=lambda part: part.number)


def _of_rows(kinds):
    """The job's function for rows. It and those below refer to nothing of cellspan, which executors may lack."""
    store = _store(kinds, *_names())

    def write(number, rows):
        columns = [[] for _ in kinds]
        for row in rows:
            for column, value in zip(columns, row):
                column.append(value)
        return [store(number, columns)]

    return write


def _of_batches(kinds):
    """The same for batches of Arrow."""
    store = _store(kinds, *_names())

    def write(batches):
        import pyarrow
        from pyspark import TaskContext

        columns = [[] for _ in kinds]
        for batch in batches:
            for column, values in zip(columns, batch.columns):
                column.extend(values.to_pylist())
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([store(TaskContext.get().partitionId(), columns)], pyarrow.binary())], ["stored"])

    return write


def _store(kinds, name, wanted):
    """A function that writes columns to a file whose name begins with `name`, and gives what Partition() takes, pickled. It removes the
    notebook's files there that are not wanted: their names begin with none of these."""
    own = _own

    def remove_unwanted(folder):
        import contextlib
        import os

        with contextlib.suppress(OSError):
            for found in os.listdir(folder):
                if found.startswith(own) and not found.startswith(tuple(wanted)):
                    os.unlink(os.path.join(folder, found))

    def plain(value):
        """A vector of Spark's ML as a list of numbers."""
        if isinstance(value, dict):  # as Arrow has it
            if value["type"]:
                return list(value["values"])
            held = dict(zip(value["indices"], value["values"]))
            return [held.get(at, 0.0) for at in range(value["size"])]
        return value.toArray().tolist()

    def lacks(columns):
        for at, (kind, column) in enumerate(zip(kinds, columns)):
            for row, value in enumerate(column):
                if value is None:
                    return "value", at, row
                if kind.startswith("array<") and any(inner is None for inner in value):
                    return "list", at, row
        return None

    def store(number, columns):
        import os
        import pickle
        import socket
        import tempfile

        missing = lacks(columns)
        if missing is None:
            columns = [[plain(value) for value in column] if kind == "vector" else column for kind, column in zip(kinds, columns)]
        folders = [(os.environ.get(name) or "").split(",")[0] for name in ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")] + [os.getcwd()]
        folder = next((each for each in folders if each and os.access(each, os.W_OK | os.X_OK)), None)  # Spark empties it with the application
        remove_unwanted(folder or tempfile.gettempdir())
        handle, path = tempfile.mkstemp(prefix=name, dir=folder)
        with os.fdopen(handle, "wb") as file:
            pickle.dump(columns, file, 4)
        return pickle.dumps((number, len(columns[0]) if columns else 0, path, socket.gethostname(), missing), 4)

    return store


def launch(call, parts, args, kwargs, options):
    """Calls call(rows of a partition) on as many ranks as there are of them. call: makes of the columns' values a function."""
    __tracebackhide__ = True
    home = caller()
    server = Server(home, parts)
    with serving(home, server) as of:
        return launch_job(call(of, [part.path for part in parts]), args, kwargs, **options)


class Server:
    """Says which rank reads which partition."""

    def __init__(self, home, parts):
        self.home, self.parts = home, parts
        self.here, self.to = {}, {}  # by rank, the partitions that it sees; by partition, the rank that it is passed on to

    def take(self, cell, rank, head, data):
        if "gives" in head:
            send_load(self.home, cell, self.to[head["gives"]], {"given": head["gives"]}, data)
            return
        self.here[rank] = head["here"]
        if len(self.here) == len(self.parts):
            for to, said in self.shared().items():
                send_load(self.home, cell, to, said)

    def shared(self):
        """{rank: what it is to do}."""
        reads = matched(self.here)
        orders = {rank: {} for rank in self.here}
        for rank, number in reads.items():
            orders[rank]["read"] = number
        idle = [rank for rank in sorted(self.here) if rank not in reads]
        for number in sorted(set(range(len(self.parts))) - set(reads.values())):
            gives = next((rank for rank in sorted(self.here) if number in self.here[rank]), None)
            if gives is None:
                text = "partition %d of the table is on %s, where no rank is: use as many ranks as the session has executors" % (
                    number, self.parts[number].host)
                return {rank: {"failed": text} for rank in self.here}
            orders[gives].setdefault("give", []).append(number)
            self.to[number] = idle.pop(0)
        return {rank: said for rank, said in orders.items() if said}

    def stop(self, error):
        """take() was interrupted; so are the ranks."""


def matched(here):
    """{rank: partition}: as many pairs as there can be of ranks and partitions that they see, its own number first."""
    owner = {rank: rank for rank in here if rank in here[rank]}  # of a partition

    def place(rank, tried):
        for number in here[rank]:
            if number not in tried:
                tried.add(number)
                if number not in owner or place(owner[number], tried):
                    owner[number] = rank
                    return True
        return False

    for rank in sorted(here):
        if rank not in owner.values():
            place(rank, set())
    return {rank: number for number, rank in owner.items()}


# ---- on a rank ------------------------------------------------------------------------------------------------------


def received(of, paths):
    """The columns' values of this rank's partition. Its file is deleted."""
    __tracebackhide__ = True
    with Exchange(this_rank(), of) as exchange:
        exchange.send(here=[number for number, path in enumerate(paths) if os.access(path, os.R_OK)])
        while True:
            head, data = exchange.receive()
            if "failed" in head:
                raise RuntimeError(head["failed"])
            for number in head.get("give", ()):
                exchange.send(_taken(paths[number]), gives=number)
            if "read" in head:
                return pickle.loads(_taken(paths[head["read"]]))
            if "given" in head:
                return pickle.loads(bytes(data))


def _taken(path):
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return data
