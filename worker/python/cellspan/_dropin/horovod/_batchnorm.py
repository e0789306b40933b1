# SPDX-License-Identifier: BSD-3-Clause
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from . import _ops, _state


class _Stacked(torch.autograd.Function):
    """The rows of all ranks. What flows back is added up: each rank's output depends on every row."""

    @staticmethod
    def forward(ctx, row):
        return _ops.synchronize(_ops.allgather_async(row.unsqueeze(0), "sync_batch_norm"))

    @staticmethod
    def backward(ctx, gradient):
        return _ops.synchronize(_ops.allreduce_async(gradient.contiguous(), op=_ops.Sum, name="sync_batch_norm.gradient"))[_state.rank()]


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d, with the mean and the variance of all ranks' batches, on CPU too. The ranks' batches may
    have different sizes. The arguments are those of torch's classes. ValueError: the input has less than two dimensions, or there
    is one value per channel."""

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        if _state.size() == 1 or not (self.training or self.running_mean is None):
            return self._alone(input)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        count = input.numel() / input.shape[1]
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        variance, mean = torch.var_mean(wide, dims, unbiased=False) if count else (wide.new_zeros(input.shape[1]),) * 2
        channels = input.shape[1]
        rows = _Stacked.apply(torch.cat([mean, variance, mean.new_full((1,), count)]))
        means, variances, counts = rows[:, :channels], rows[:, channels:-1], rows[:, -1:].detach()
        total = counts.sum()
        if total <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(input.shape)}")
        mean = (means * counts).sum(0) / total
        variance = ((variances + (means - mean) ** 2) * counts).sum(0) / total
        self._remember(mean.detach(), (variance * (total / (total - 1))).detach())
        shape = [1, -1] + [1] * (input.dim() - 2)
        out = (wide - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)

    def _alone(self, input):
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked or 1)
        batch = self.training or self.running_mean is None
        return torch.nn.functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, batch, rate, self.eps)

    def _remember(self, mean, variance):
        if self.running_mean is None or not self.training:
            return
        self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_(variance.to(self.running_var.dtype), rate)
