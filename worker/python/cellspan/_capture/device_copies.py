# SPDX-License-Identifier: BSD-3-Clause
"""Copies of bytes from a GPU to host memory, piece by piece, through two buffers of pinned memory: while one is read, the GPU fills
the other. To ordinary memory a copy takes more than twice as long.
"""

from __future__ import annotations

import ctypes
import sys

AT_ONCE = 4 << 20  # bytes of a buffer


def pieces(data):
    """The bytes of a one-dimensional CUDA tensor of uint8, as memoryviews one after the other. Each is valid until the next one is
    asked for. Raises torch's errors."""
    torch = sys.modules["torch"]
    buffers = _buffers(torch, data.numel())
    if buffers is None:
        for at in range(0, data.numel(), AT_ONCE):
            part = data[at : at + AT_ONCE].cpu()
            yield _view(part)
        return
    stream = torch.cuda.current_stream(data.device)
    ready = [torch.cuda.Event() for _ in buffers]

    def begin(at):
        which, part = at // AT_ONCE % len(buffers), data[at : at + AT_ONCE]
        buffers[which][: part.numel()].copy_(part, non_blocking=True)
        ready[which].record(stream)

    begin(0)
    for at in range(0, data.numel(), AT_ONCE):
        which, size = at // AT_ONCE % len(buffers), min(AT_ONCE, data.numel() - at)
        if at + size < data.numel():
            begin(at + size)
        ready[which].synchronize()
        yield _view(buffers[which])[:size]


def _buffers(torch, size):
    """Two buffers, or one that has room for all; None: there is no pinned memory."""
    try:
        count = 2 if size > AT_ONCE else 1
        return [torch.empty(min(AT_ONCE, size), dtype=torch.uint8, device="cpu", pin_memory=True) for _ in range(count)]
    except RuntimeError:
        return None


def _view(tensor):
    """A view of a tensor in host memory, which the caller keeps. Without NumPy, which a torch may lack."""
    return memoryview((ctypes.c_char * tensor.numel()).from_address(tensor.data_ptr())).cast("B")
