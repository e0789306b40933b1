# SPDX-License-Identifier: BSD-3-Clause
"""The configurations of Maggy. TorchDistributedConfig works here; the others say what to use instead."""

from __future__ import annotations

from .._dropin_api import directory

__all__ = [
    "AblationConfig",
    "BaseConfig",
    "HyperparameterOptConfig",
    "LagomConfig",
    "Searchspace",
    "TfDistributedConfig",
    "TorchDistributedConfig",
]
__dir__ = directory(globals())

ZERO_LEVELS = (0, 1, 2, 3)
NOT_A_CLASS = "Passed module should be a class or a factory callable"  # Maggy's text


class LagomConfig:
    """What all configurations have: a name and a description of the experiment. hb_interval: accepted; nothing reads it."""

    def __init__(self, name, description="", hb_interval=1):
        self.name = name
        self.description = description
        self.hb_interval = hb_interval


class TorchDistributedConfig(LagomConfig):
    """How a PyTorch training is distributed.

    module: the class of a torch.nn.Module, a function that returns one, or a list of these. dataset: what train_fn gets as
    `dataset`, for example [train_set, test_set]. train_set, test_set: the same, in the form of Maggy 1.0. hparams: a dict for
    train_fn. backend: "torch" or "deepspeed". mixed_precision: modules compute in bfloat16 where that is safe (torch.autocast).
    zero_lvl: the level of ZeRO, from 0 to 3. deepspeed_config: DeepSpeed's configuration, a dict. find_unused_parameters: as in
    torch's DistributedDataParallel; needed if a step does not use all parameters of a module. The order of the positional
    arguments is that of Maggy 1.1.2.

    TypeError: module is not such a thing, or both forms of datasets are given. ValueError: backend, zero_lvl or deepspeed_config.
    """

    BACKENDS = ["torch", "deepspeed"]

    def __init__(
        self,
        module,
        dataset=None,
        hparams=None,
        backend="torch",
        mixed_precision=False,
        zero_lvl=0,
        deepspeed_config=None,
        name="torchDist",
        hb_interval=1,
        description="",
        *,
        train_set=None,
        test_set=None,
        find_unused_parameters=False,
    ):
        __tracebackhide__ = True
        super().__init__(name, description, hb_interval)
        self.module = module
        self.dataset = dataset
        self.train_set = train_set
        self.test_set = test_set
        self.hparams = hparams or {}
        self.backend = backend
        self.mixed_precision = mixed_precision
        self.zero_lvl = zero_lvl
        self.ds_config = deepspeed_config
        self.find_unused_parameters = find_unused_parameters
        self.check()

    def check(self):
        """Raises the errors of the class. lagom() calls it again, since attributes may have been set meanwhile."""
        __tracebackhide__ = True
        modules = self.module if isinstance(self.module, (list, tuple)) else [self.module]
        if not modules:
            raise TypeError(f"{NOT_A_CLASS}: module is an empty list: put the classes into it")
        for module in modules:
            _check_module(module)
        if self.dataset is not None and (self.train_set is not None or self.test_set is not None):
            raise TypeError("give either dataset or train_set and test_set, not both")
        if self.backend not in self.BACKENDS:
            raise ValueError(f"Backend {self.backend} is not supported; backends are {' and '.join(map(repr, self.BACKENDS))}")
        if isinstance(self.zero_lvl, bool) or self.zero_lvl not in ZERO_LEVELS:
            raise ValueError(f"zero_lvl has to be in [0,1,2,3], is {self.zero_lvl!r}")
        if self.backend == "deepspeed":
            _check_deepspeed(self.ds_config)


class _Refused(LagomConfig):
    INSTEAD = ""

    def __init__(self, *_, **__):
        __tracebackhide__ = True
        raise NotImplementedError(f"{type(self).__name__} does not work here: {self.INSTEAD}")


class HyperparameterOptConfig(_Refused):
    """Not available: raises NotImplementedError."""

    INSTEAD = "use a library such as Optuna, and call lagom() with a TorchDistributedConfig for each trial"


class AblationConfig(_Refused):
    """Not available: raises NotImplementedError."""

    INSTEAD = "call lagom() with a TorchDistributedConfig for each variant of the module"


class TfDistributedConfig(_Refused):
    """Not available: raises NotImplementedError."""

    INSTEAD = "use cellspan.tensorflow.MirroredStrategyRunner for TensorFlow"


class BaseConfig(_Refused):
    """Not available: raises NotImplementedError."""

    INSTEAD = "a function that needs no configuration is run by cellspan.run(train_fn, n=4)"


class Searchspace(_Refused):
    """Not available: raises NotImplementedError."""

    INSTEAD = "use a library such as Optuna, and call lagom() with a TorchDistributedConfig for each trial"


def _check_module(module):
    __tracebackhide__ = True
    kind = type(module)
    if any(base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module" for base in kind.__mro__):
        raise TypeError(f"{NOT_A_CLASS}: this is an instance of {kind.__name__}; pass module={kind.__name__}, or "
                        f"a function that makes it: module=lambda: {kind.__name__}(...)")
    if not callable(module):
        raise TypeError(f"{NOT_A_CLASS}, not {module!r:.80}")
    if isinstance(module, type) and not any(base.__module__.startswith("torch.nn.") for base in module.__mro__):
        raise TypeError(f"{NOT_A_CLASS}: {module.__name__} is no torch.nn.Module: derive it from that")


def _check_deepspeed(config):
    __tracebackhide__ = True
    if not config:
        raise ValueError("backend='deepspeed' requires a deepspeed_config; see https://www.deepspeed.ai/docs/config-json/")
    if not isinstance(config, dict):
        raise TypeError(f"deepspeed_config must be a dict, not {type(config).__name__}")
    kind = (config.get("optimizer") or {}).get("type")
    if kind != "Adam":
        raise ValueError(f"deepspeed_config: the optimizer's type has to be 'Adam', is {kind!r}; for others call "
                         "deepspeed.initialize() yourself, in cellspan.run()")
