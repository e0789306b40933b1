# SPDX-License-Identifier: BSD-3-Clause
"""Values that ranks return and broadcast: numbers, and what can be read as one."""

from __future__ import annotations

import numbers
import sys

from .core.exceptions import MetricTypeError, ReturnTypeError


def number(value):
    """value as an int or float; None: it is neither a number, nor a tensor or array that holds one."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.detach()
        return number((value.full_tensor() if hasattr(value, "full_tensor") else value).item())
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)) and value.size == 1:
        found = value.item()
        return number(found) if isinstance(found, (bool, int, float)) else None
    return None


def described(value):
    """What the value is, for an error text."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return f"a tensor with {value.numel()} elements"
    return f"a value of type {type(value).__name__}"


def returned(value, name):
    """What train_fn returned, in numbers. ReturnTypeError, MetricTypeError: it is not a number or dict of numbers. name: of train_fn."""
    __tracebackhide__ = True
    if isinstance(value, dict):
        if not value:
            raise ReturnTypeError(f"{name}() returned an empty dict: return a number, or a dict of numbers")
        return {key: _metric(key, one) for key, one in value.items()}
    found = number(value)
    if found is not None:
        return found
    torch = sys.modules.get("torch")
    advice = "Return a number, such as the test loss, or a dict of numbers"
    if torch is not None and isinstance(value, torch.Tensor):
        advice = f"It has {value.numel()} elements: return value.mean()"
    elif torch is not None and isinstance(value, torch.nn.Module):
        advice += "; keep the model by torch.save(model.module.state_dict(), path) on rank 0"
    raise ReturnTypeError(f"Training function cannot return value of type: {type(value).__name__} ({name}()). {advice}")


def _metric(key, value):
    __tracebackhide__ = True
    found = number(value)
    if found is None:
        raise MetricTypeError(f"the metric {key!r} that the training function returned is {described(value)}; it can only be a number")
    return found
