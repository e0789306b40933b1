# SPDX-License-Identifier: BSD-3-Clause
"""TorchDistributor and DeepspeedTorchDistributor, with the interface of pyspark (pyspark.ml.torch.distributor and
pyspark.ml.deepspeed.deepspeed_distributor, 3.4 to 4.0), on cellspan's ranks. docs/names.md says what differs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import operator
import os
import re
import sys
import tempfile

from .. import RemoteError
from .._dropin_api import (
    OwnNames,
    caller,
    check_call,
    directory,
    exit_code,
    gpus_here,
    gpus_of_place,
    is_far,
    is_of_rank,
    launch,
    launch_script,
    place_and_gpus,
    place_of,
)
from . import _dataframes
from ._dataframes import SPARK_DATAFRAME_SCHEMA_FILE, SPARK_PARTITION_ARROW_DATA_FILE, _get_spark_partition_data_loader

__all__ = ["DeepspeedTorchDistributor", "TorchDistributor"]
__dir__ = directory(globals())

FAILED = "TorchDistributor failed during training.View stdout logs for detailed error message."  # pyspark's words
MISSING = "ModuleNotFoundError: No module named 'deepspeed'"
DEEPSPEED = " (deepspeed must be installed where the ranks are: pip install deepspeed)"
TAIL = 100  # lines of a traceback in the error of a script, as pyspark has them


class Distributor:
    """What the distributors have in common; it is not for use by itself."""

    _own_names = OwnNames("num_processes", "use_gpu=True", "use_gpu=False")

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, ssl_conf=None, *, on=None, reuse=False):
        __tracebackhide__ = True
        self.spark = _spark_session()
        self.logger = _logger(type(self).__name__)
        self.num_processes = num_processes
        self.local_mode = local_mode and on in (None, "local")  # on= names other machines: pyspark has no such argument
        self.use_gpu = use_gpu
        self.on = on
        self.reuse = reuse
        self.ssl_conf = ssl_conf
        self.num_tasks = self._get_num_tasks()

    def _get_num_tasks(self):
        """The number of processes. RuntimeError: there is no GPU where they run. Warns if this machine has fewer than num_processes."""
        __tracebackhide__ = True
        if not self.use_gpu:
            return self.num_processes
        if not self.local_mode:
            gpus_of_place(place_of(self.on), self._own_names.without_gpus)
            return self.num_processes
        available = gpus_here()
        if not available:
            raise RuntimeError(f"GPUs were unable to be found on the driver. ({self._own_names.without_gpus})")
        if self.num_processes > available:
            self.logger.warning(
                "'num_processes' cannot be set to a value greater than the number of available GPUs on the driver, which is %d. "
                "'num_processes' was reset to be equal to the number of available GPUs.", available)
            self.num_processes = available
        return self.num_processes

    def _validate_input_params(self):
        __tracebackhide__ = True
        try:
            self.num_processes = operator.index(self.num_processes)
        except TypeError:
            raise ValueError(f"num_processes has to be a positive integer, not {self.num_processes!r}") from None
        if self.num_processes <= 0:
            raise ValueError(f"num_processes has to be a positive integer, not {self.num_processes}")


class TorchDistributor(Distributor):
    """Trains with torch.distributed on several processes, as pyspark's class of this name.

    num_processes: how many. local_mode: on this machine, else where the notebook's ranks are. use_gpu: each process gets a GPU.
    on: where, as in cellspan.run(); other machines mean local_mode=False. reuse: on the notebook's ranks, which stay; else in fresh processes.

    RuntimeError: use_gpu without GPUs. ValueError: num_processes is not a positive integer.
    """

    _TORCH_SSL_CONF = "pytorch.spark.distributor.ignoreSsl"

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, _ssl_conf=_TORCH_SSL_CONF, *, on=None, reuse=False):
        __tracebackhide__ = True
        super().__init__(num_processes, local_mode, use_gpu, _ssl_conf, on=on, reuse=reuse)
        self._validate_input_params()
        self.num_tasks = self.num_processes
        self.input_params = {name: getattr(self, name) for name in ("num_processes", "local_mode", "use_gpu", "num_tasks")}

    def run(self, train_object, *args, **kwargs):
        """Calls train_object(*args, **kwargs) in each process, and returns the value of rank 0. Or runs a script: train_object is
        its path, and args are its arguments; then it returns None.

        RuntimeError: a process failed. Its `__cause__` is the exception of the first rank that did.
        """
        __tracebackhide__ = True
        if isinstance(train_object, (str, os.PathLike)):
            return self._logged(self._run_file, os.fspath(train_object), args, kwargs)
        return self._logged(self._run_function, train_object, args, kwargs)

    def _train_on_dataframe(self, train_function, spark_dataframe, *args, **kwargs):
        """As run(), with a part of a table in each process: _get_spark_partition_data_loader() reads it there.

        spark_dataframe: of Spark, with num_processes partitions; of pandas, or an Arrow table, whose rows are divided evenly.
        """
        __tracebackhide__ = True
        if self.local_mode:
            raise ValueError("TorchDistributor.train_on_dataframe requires setting TorchDistributor.local_mode to False.")
        parts = _dataframes.divided(spark_dataframe, self.num_processes, place_of(self.on))
        return self._logged(self._run_function, train_function, args, kwargs, parts)

    def _logged(self, run, *what):
        __tracebackhide__ = True
        where = "local training with %d processes" if self.local_mode else "distributed training with %d executor processes"
        self.logger.info("Started " + where, self.num_processes)
        value = run(*what)
        self.logger.info("Finished " + where, self.num_processes)
        return value

    def _place(self):
        """{option: value} for launch(): where, and on which processors."""
        __tracebackhide__ = True
        on, gpus = ("local", None) if self.local_mode else place_and_gpus(self.on, self.use_gpu, self._own_names.without_gpus)
        return {"n": self.num_processes, "on": on, "gpus": gpus, "no_gpu": not self.use_gpu, "reuse": self.reuse}

    def _run_function(self, fn, args, kwargs, parts=None):
        __tracebackhide__ = True
        try:
            check_call(fn, args, kwargs)
        except TypeError as error:
            print(f"TypeError: {error}", flush=True)
            raise RuntimeError(FAILED) from error.with_traceback(None)
        try:
            with self._own_names:
                if parts is not None:
                    return _dataframes.launch(self._wrapped(fn), parts, args, kwargs, self._place())
                return launch(self._wrapped(fn), args, kwargs, **self._place())
        except RemoteError as error:
            if not is_of_rank(error):
                raise
            _show(error)
            raise RuntimeError(FAILED + self._advice(_plain(error))) from error.with_traceback(None)

    def _wrapped(self, fn):
        return fn

    def _advice(self, lines):
        """What to do about an error with this traceback, as the end of a sentence."""
        return ""

    def _run_file(self, path, args, kwargs):
        __tracebackhide__ = True
        if kwargs:
            raise ValueError(f"Running pytorch file does not support key-word type arguments. ({', '.join(kwargs)})")
        with self._words(args) as words:
            words = [str(word) for word in words]
            try:
                with self._own_names:
                    launch_script(path, words, **self._place())
            except RemoteError as error:
                if not is_of_rank(error):
                    raise
                text = "\n".join(_plain(error)[-TAIL:])
                code = exit_code(error)
                text += self._advice(text.splitlines())
                raise RuntimeError(f"Command {[sys.executable, path, *words]} failed with return code {code}. {text}") from error.with_traceback(None)

    @contextlib.contextmanager
    def _words(self, args):
        yield args


class DeepspeedTorchDistributor(TorchDistributor):
    """As pyspark's class of this name: TorchDistributor for code that uses DeepSpeed.

    numGpus: processes on each machine; nnodes: machines; localMode, useGpu: as local_mode and use_gpu of TorchDistributor.
    deepspeedConfig: DeepSpeed's configuration, as a dict or the path of a JSON file. Scripts and functions find it in sys.argv
    as --deepspeed_config: a path, or for scripts elsewhere the JSON as base64, which DeepSpeed decodes.
    """

    _own_names = OwnNames("numGpus * nnodes", "useGpu=True", "useGpu=False")
    _DEEPSPEED_SSL_CONF = "deepspeed.spark.distributor.ignoreSsl"

    def __init__(self, numGpus=1, nnodes=1, localMode=True, useGpu=True, deepspeedConfig=None, *, on=None, reuse=False):
        __tracebackhide__ = True
        self.deepspeed_config = deepspeedConfig
        super().__init__(numGpus * nnodes, localMode, useGpu, self._DEEPSPEED_SSL_CONF, on=on, reuse=reuse)
        self.input_params["deepspeed_config"] = deepspeedConfig
        self.cleanup_deepspeed_conf = False

    def _wrapped(self, fn):
        return _WithConfig(fn, self.deepspeed_config)

    def _advice(self, lines):
        return DEEPSPEED if any(line.startswith(MISSING) for line in lines) else ""

    @contextlib.contextmanager
    def _words(self, args):
        config = self.deepspeed_config
        if isinstance(config, dict) and not self.local_mode:  # a file of this machine is not there; DeepSpeed reads this as well
            config = base64.urlsafe_b64encode(json.dumps(config).encode()).decode()
        with _config_words(config) as words:
            yield [*args, *words]


class _WithConfig:
    """Calls a function on a rank, with DeepSpeed's options in sys.argv."""

    def __init__(self, fn, config):
        self.fn, self.config = fn, config
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        with _config_words(self.config) as words:
            sys.argv = [sys.argv[0], *words]
            return self.fn(*args, **kwargs)


@contextlib.contextmanager
def _config_words(config):
    """DeepSpeed's words on the command line. A dict is in a file meanwhile."""
    made = None
    if isinstance(config, dict):
        with tempfile.NamedTemporaryFile("w", prefix="deepspeed-", suffix=".json", delete=False) as file:
            json.dump(config, file)
        config = made = file.name
    try:
        yield ["--deepspeed", "--deepspeed_config", os.fspath(config)] if config else ["--deepspeed"]
    finally:
        if made is not None:
            os.unlink(made)


# ---- errors ---------------------------------------------------------------------------------------------------------


def _plain(error):
    """The lines of a rank's traceback, without colours."""
    lines = "\n".join(getattr(error, "traceback", ()) or [str(error)])
    return re.sub(r"\x1b\[[0-9;]*m", "", lines).splitlines()


def _show(error):
    """Prints the rank's traceback: those of causes are not shown with their own. A page shows colours, a program's log does not."""
    lines = error.traceback or [f"{type(error).__name__}: {error}"]
    if is_far(caller()) and not sys.stdout.isatty():
        lines = _plain(error)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _logger(name):
    """The logger of this name. As pyspark's, it writes to stderr unless the program has set up logging."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    if not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(logging.StreamHandler(sys.stderr))
    return logger


def _spark_session():
    """The active session, if the program uses Spark; None otherwise."""
    sql = sys.modules.get("pyspark.sql")
    return sql.SparkSession.getActiveSession() if sql is not None else None
