# SPDX-License-Identifier: BSD-3-Clause
"""A digest of bytes on a GPU, computed there. So the question whether a model on a GPU has changed copies a few bytes to host
memory, not the model.

Each 8-byte word is mixed with its place in its row (MurmurHash3's finaliser for 64 bits), a row's words are summed, and the sums
are hashed in host memory. It finds changes, but it is no protection against somebody who looks for two equal digests.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys

ROW = 1 << 16  # words in a row
AT_ONCE = 32 << 20  # bytes mixed at a time, a multiple of ROW words. The device needs twice that beside the bytes
SHIFT, MASK = 33, (1 << 31) - 1  # torch's shift of an int64 keeps the sign; the mask removes it
FACTORS = (0xFF51AFD7ED558CCD - (1 << 64), 0xC4CEB9FE1A85EC53 - (1 << 64))
SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)


def digest(data):
    """The digest of a one-dimensional torch tensor of uint8. The same bytes have the same digest on each device. Raises torch's
    errors."""
    end = data.numel() // 8 * 8
    made = hashlib.blake2b(_bytes(data[end:]), digest_size=32)
    for at in range(0, end, AT_ONCE):
        made.update(_bytes(_sums(data[at : min(at + AT_ONCE, end)])))
    return made.digest()


def _bytes(tensor):
    """A small tensor's bytes. Without NumPy, which a torch may lack."""
    host = tensor.cpu().contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size()) if host.numel() else b""


def _sums(data):
    """The sum of each row. Where the device has no memory to work in, or lacks an operation, this is done in host memory."""
    try:
        return _mixed_sums(data)
    except RuntimeError:
        return _mixed_sums(data.cpu())


def _mixed_sums(data):
    torch = sys.modules["torch"]
    if data.data_ptr() % 8:  # a GPU can't read words there, and its error would end the process's use of it
        data = data.clone()
    words = data.view(torch.int64)
    places = torch.arange(min(ROW, words.numel()), dtype=torch.int64, device=words.device) * SPREAD
    whole = words.numel() // ROW * ROW
    sums = [_mixed(words[:whole].view(-1, ROW) ^ places).sum(1)] if whole else []
    rest = words[whole:]
    if rest.numel():
        sums.append(_mixed(rest ^ places[: rest.numel()]).sum().view(1))
    return torch.cat(sums)


def _mixed(words):
    """Mixes the bits of each word, in place."""
    for factor in (*FACTORS, 1):
        high = words >> SHIFT
        high &= MASK
        words ^= high
        words *= factor
    return words
