# SPDX-License-Identifier: BSD-3-Clause
"""Modules that train_fn makes are distributed: DistributedDataParallel, FSDP2 for ZeRO 2 and 3, or DeepSpeed.

The user's object stays what it is, with the class, attributes and methods of the user: its class is derived from the user's, and
calls of it go through DistributedDataParallel, or through FSDP2's hooks.
"""

from __future__ import annotations

import contextlib
import functools
import inspect

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._loaders import mapped

LINK = "_cellspan_link"  # attribute of a distributed module: its _Replica or _Shards
SYNC_BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers")  # of torch 2.13, and before
                    if name in inspect.signature(DistributedDataParallel).parameters)
UNIT = 1 << 20  # parameters; ZeRO 3 collects blocks of at least this size one by one


def distributed(module, settings, device):
    """What train_fn gets as `module`: makes distributed modules. module: a class, a function, or a list of these."""
    __tracebackhide__ = True
    if settings["mixed_precision"]:
        _needs_bfloat16(device)
    if isinstance(module, (list, tuple)):
        return [_maker(one, settings, device) for one in module]
    return _maker(module, settings, device)


def _needs_bfloat16(device):
    __tracebackhide__ = True
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        name = torch.cuda.get_device_name(device)
        raise ValueError(f"mixed_precision needs a GPU with bfloat16 (compute capability 8.0), and this is {name}: leave it out, or "
                         "use torch.amp in the training function")


def _maker(module, settings, device):
    if settings["backend"] == "deepspeed":
        return _engines(module, settings)
    link = functools.partial(_Shards if settings["zero_lvl"] > 1 else _Replica, settings=settings, device=device)
    if not isinstance(module, type):
        return _from_function(module, link)

    class Made(type(module)):
        """Distributes objects after their __init__."""

        def __call__(cls, *args, **kwargs):
            __tracebackhide__ = True
            return _distribute(super().__call__(*args, **kwargs), link)

    return _derived(module, Made)


def _from_function(function, link):
    @functools.wraps(function, updated=())
    def make(*args, **kwargs):
        __tracebackhide__ = True
        model = function(*args, **kwargs)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"module() has to make a torch.nn.Module, and it made {type(model).__name__}")
        if vars(model).get(LINK) is not None:  # the function made it before
            return model
        try:
            model.__class__ = _derived(type(model), type(type(model)))
        except TypeError as error:
            raise TypeError(f"{type(model).__name__} can't be distributed: {error}") from None
        return _distribute(model, link)

    return make


def _distribute(model, link):
    __tracebackhide__ = True
    vars(model)[LINK] = link(model)
    return model


def _derived(base, maker):
    """The class of distributed modules, derived from a class of the user."""
    methods = {name: _through(name) for name in _methods(base)}
    methods.update(__module__=base.__module__, __doc__=base.__doc__)
    return maker(f"Distributed{base.__name__}", (_Distributed, base), methods)


def _methods(base):
    """The names of public methods that the user's classes add to torch.nn.Module's: they may compute as forward() does."""
    for kind in base.__mro__:
        if not kind.__module__.startswith("torch."):
            for name, value in vars(kind).items():
                if inspect.isfunction(value) and name[0] != "_" and not hasattr(torch.nn.Module, name):
                    yield name


def _through(name):
    def method(self, *args, **kwargs):
        __tracebackhide__ = True
        real = getattr(super(self._cellspan_class(), self), name)
        link = vars(self).get(LINK)
        return real(*args, **kwargs) if link is None else link.run(real, args, kwargs)

    method.__name__ = name
    return method


class _Distributed:
    """Comes before the user's class. An object without LINK is as the user's."""

    @classmethod
    def _cellspan_class(cls):
        """The class that _derived() has made; FSDP2 derives another from it."""
        return next(kind for kind in cls.__mro__ if _Distributed in kind.__bases__)

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        link = vars(self).get(LINK)
        return super().__call__(*args, **kwargs) if link is None else link.run(None, args, kwargs)

    def __getattr__(self, name):
        link = vars(self).get(LINK)
        if link is not None and name == "module":  # code for DistributedDataParallel says model.module
            return self
        if name == "no_sync" and isinstance(link, _Replica):
            return link.no_sync
        return super().__getattr__(name)

    def train(self, mode=True):
        link = vars(self).get(LINK)
        if link is not None and self.training and not mode:
            same_everywhere(self.buffers())  # those of rank 0, such as the statistics of BatchNorm
        return super().train(mode)

    def state_dict(self, *args, **kwargs):
        """All values whole, so that they can be saved and loaded anywhere. With ZeRO 2 and 3 every rank has to call it."""
        values = super().state_dict(*args, **kwargs)
        for name, value in values.items():
            if hasattr(value, "full_tensor"):
                values[name] = value.full_tensor()
        return values

    def load_state_dict(self, state_dict, *args, **kwargs):
        link = vars(self).get(LINK)
        if isinstance(link, _Shards):
            state_dict = link.divided(state_dict, super().state_dict())
        return super().load_state_dict(state_dict, *args, **kwargs)

    def __reduce_ex__(self, protocol):
        """Copies and pickles are of the user's class, and not distributed."""
        ours = self._cellspan_class()
        if type(self) is not ours:  # FSDP2's class, or one that train_fn has derived
            return super().__reduce_ex__(protocol)
        plain = object.__new__(ours.__mro__[2])
        vars(plain).update((name, value) for name, value in vars(self).items() if name != LINK)
        return plain.__reduce_ex__(protocol)


class _Link:
    """Runs calls of a module in a distributed way. Calls inside of a call run as they are."""

    def __init__(self, model, settings, device):
        self.model = model
        self.settings = settings
        self.device = device
        self.inside = False
        model.to(device)
        same_everywhere([*model.parameters(), *model.buffers()])

    def __reduce_ex__(self, protocol):
        return type(None), ()  # a copied module is not distributed

    def run(self, method, args, kwargs):
        """Calls a bound method of the model; None: the model itself."""
        __tracebackhide__ = True
        if self.inside:
            return self.nested(method, args, kwargs)
        self.inside = True
        try:
            with self._precision():
                value = self.outermost(method, args, kwargs)
        finally:
            self.inside = False
        return mapped(_single, value) if self.settings["mixed_precision"] else value

    def _precision(self):
        if not self.settings["mixed_precision"]:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def call(self, method, args, kwargs):
        """The call itself, as without cellspan."""
        __tracebackhide__ = True
        real = method or super(_Distributed, self.model).__call__
        return real(*args, **kwargs)


class _Replica(_Link):
    """Every rank has the whole module; gradients are averaged."""

    def __init__(self, model, settings, device):
        super().__init__(model, settings, device)
        self.ddp = None
        self.covered = []
        self.waiting = None  # (method,) that the model runs when DistributedDataParallel calls it
        self._cover()

    def _cover(self):
        """Makes a DistributedDataParallel for the parameters that need gradients now, if there are any. They change if code
        freezes layers or replaces them."""
        needed = [p for p in self.model.parameters() if p.requires_grad]
        if not needed:
            return False
        state = [(p, p.dtype, p.device) for p in needed]
        if len(state) != len(self.covered) or any(a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(state, self.covered)):
            unused = self.settings["find_unused_parameters"]
            # Buffers are made the same by train(False): before each forward(), a second forward() would change what the
            # first one's backward() needs.
            self.ddp = DistributedDataParallel(self.model, find_unused_parameters=unused, **{SYNC_BUFFERS: False})
            self.covered = state
        return True

    def outermost(self, method, args, kwargs):
        __tracebackhide__ = True
        if not torch.is_grad_enabled() or not self._cover():
            return self.call(method, args, kwargs)
        self.waiting = (method,)
        try:
            return self.ddp(*args, **kwargs)
        except RuntimeError as error:
            if self.waiting is None or "find_unused_parameters" not in str(error):
                raise
            raise RuntimeError("the step before did not use all parameters of the module: set find_unused_parameters=True in "
                               "TorchDistributedConfig") from error
        finally:
            self.waiting = None

    def nested(self, method, args, kwargs):
        __tracebackhide__ = True
        if self.waiting is not None:
            (method,), self.waiting = self.waiting, None
        return self.call(method, args, kwargs)

    def no_sync(self):
        """As of DistributedDataParallel: gradients are not averaged in the block."""
        return self.ddp.no_sync() if self._cover() else contextlib.nullcontext()


class _Shards(_Link):
    """Every rank keeps a share of each parameter, its gradient and the optimizer's state. ZeRO 3 collects the parameters for each
    forward() and backward(), ZeRO 2 once for both."""

    def __init__(self, model, settings, device):
        super().__init__(model, settings, device)
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise ImportError(f"zero_lvl={settings['zero_lvl']} needs torch 2.6 or later, and this is {torch.__version__}: pip "
                              "install -U torch; zero_lvl=1 works without") from None
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for part in [*_blocks(model), model]:
            fully_shard(part, mesh=mesh, reshard_after_forward=settings["zero_lvl"] == 3)

    def outermost(self, method, args, kwargs):
        __tracebackhide__ = True
        if method is None:
            return self.call(None, args, kwargs)
        vars(self.model)["forward"] = method  # FSDP2's hooks surround calls of the module
        try:
            return self.call(None, args, kwargs)
        finally:
            del vars(self.model)["forward"]

    def nested(self, method, args, kwargs):
        """Without the hooks, which would return the parameters too early."""
        __tracebackhide__ = True
        return method(*args, **kwargs) if method else type(self.model).forward(self.model, *args, **kwargs)

    def divided(self, values, own):
        """values of a state_dict, divided as the module's own ones."""
        from torch.distributed.tensor import distribute_tensor

        made = dict(values)
        for name, value in values.items():
            mine = own.get(name)
            if hasattr(mine, "full_tensor") and not hasattr(value, "full_tensor"):
                made[name] = distribute_tensor(value.to(self.device), mine.device_mesh, mine.placements)
        return made


def same_everywhere(tensors):
    """Gives all ranks the values of rank 0."""
    with torch.no_grad():
        for tensor in tensors:
            if _can_be_sent(tensor):
                value = tensor.detach().contiguous()
                dist.broadcast(torch.view_as_real(value) if value.is_complex() else value, 0)
                if value.data_ptr() != tensor.data_ptr():
                    tensor.copy_(value)


def _can_be_sent(tensor):
    """False: it has no values yet, no elements, or is sparse; or each rank has a share of it."""
    lazy = isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)
    return not lazy and not hasattr(tensor, "full_tensor") and tensor.layout is torch.strided and tensor.numel() > 0


def _blocks(model):
    """Parts that FSDP2 treats one by one: large members of ModuleLists and Sequentials that share no parameter with others."""
    holders = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        holders.setdefault(id(parameter), set()).add(name)
    found = []
    for name, part in model.named_modules():
        if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential)) and not any(name.startswith(one) for one in found):
            for key, member in part.named_children():
                path = f"{name}.{key}." if name else f"{key}."
                own = list(member.parameters())
                alone = all(other.startswith(path) for p in own for other in holders[id(p)])
                if alone and sum(p.numel() for p in own) >= UNIT:
                    found.append(path)
                    yield member


def _single(value):
    """bfloat16 as float32, so that the loss is computed in single precision."""
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16 else value


def _engines(module, settings):
    """Makes DeepSpeed's engines. DeepSpeed's way differs: model.backward(loss) and model.step(), without an optimizer."""
    config = dict(settings["ds_config"])
    if settings["zero_lvl"]:
        config["zero_optimization"] = {**(config.get("zero_optimization") or {}), "stage": settings["zero_lvl"]}
    optimizer = dict(config["optimizer"])
    optimizer["params"] = {**(optimizer.get("params") or {}), "torch_adam": True}  # DeepSpeed's own would first be compiled
    config["optimizer"] = optimizer

    @functools.wraps(module, updated=())
    def make(*args, **kwargs):
        __tracebackhide__ = True
        import deepspeed

        model = module(*args, **kwargs)
        wanted = [p for p in model.parameters() if p.requires_grad]
        return deepspeed.initialize(model=model, model_parameters=wanted, config=dict(config), dist_init_required=False)[0]

    return make
