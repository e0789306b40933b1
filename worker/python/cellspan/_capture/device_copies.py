"""Copies of bytes from a GPU to host memory, piece by piece, through two buffers of pinned memory: while one is read, the GPU fills
the other. To ordinary memory a copy takes more than twice as long.
"""

from __future__ import annotations

import sys

AT_ONCE = 4 << 20  # bytes of a buffer


def pieces(data):
    """The bytes of a one-dimensional CUDA tensor of uint8, as memoryviews one after the other. Each is valid until the next one is
    asked for. Raises torch's errors."""
    torch = sys.modules["torch"]
    stream = torch.cuda.current_stream(data.device)
    buffers = [torch.empty(min(AT_ONCE, data.numel()), dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    ready = [torch.cuda.Event() for _ in buffers]

    def begin(at):
        which, part = at // AT_ONCE % 2, data[at : at + AT_ONCE]
        buffers[which][: part.numel()].copy_(part, non_blocking=True)
        ready[which].record(stream)

    begin(0)
    for at in range(0, data.numel(), AT_ONCE):
        which, size = at // AT_ONCE % 2, min(AT_ONCE, data.numel() - at)
        if at + size < data.numel():
            begin(at + size)
        ready[which].synchronize()
        yield memoryview(buffers[which].numpy())[:size]
