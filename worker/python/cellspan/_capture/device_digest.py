"""A digest of bytes on a GPU, computed there. So the question whether a model on a GPU has changed copies a few bytes to host
memory, not the model.

Each 8-byte word is mixed with its place in its row (MurmurHash3's finaliser for 64 bits), a row's words are summed, and the sums
are hashed in host memory. It finds changes, but it is no protection against somebody who looks for two equal digests.
"""

from __future__ import annotations

import hashlib
import sys

ROW = 1 << 16  # words in a row
AT_ONCE = 1 << 22  # words mixed at a time, a multiple of ROW: 32 MiB. The device needs twice that beside the bytes
SHIFT, MASK = 33, (1 << 31) - 1  # torch's shift of an int64 keeps the sign; the mask removes it
FACTORS = (0xFF51AFD7ED558CCD - (1 << 64), 0xC4CEB9FE1A85EC53 - (1 << 64))
SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)


def digest(data):
    """The digest of a one-dimensional torch tensor of uint8 that begins at a multiple of 8 bytes. The same bytes have the same digest
    on each device. Raises torch's errors."""
    torch = sys.modules["torch"]
    end = data.numel() // 8 * 8
    words = data[:end].view(torch.int64)
    sums = [_sums(words[at : at + AT_ONCE]) for at in range(0, words.numel(), AT_ONCE)]
    made = hashlib.blake2b(data[end:].cpu().numpy().tobytes(), digest_size=32)
    if sums:
        made.update(torch.cat([part.to(sums[0].device) for part in sums]).cpu().numpy().tobytes())
    return made.digest()


def _sums(words):
    """The sum of each row. Where the device has no memory to work in, or lacks an operation, this is done in host memory."""
    try:
        return _mixed_sums(words)
    except RuntimeError:
        return _mixed_sums(words.cpu())


def _mixed_sums(words):
    torch = sys.modules["torch"]
    places = torch.arange(min(ROW, words.numel()), dtype=torch.int64, device=words.device) * SPREAD
    whole = words.numel() // ROW * ROW
    sums = [_mixed(words[:whole].view(-1, ROW) ^ places).sum(1)] if whole else []
    rest = words[whole:]
    if rest.numel():
        sums.append(_mixed(rest ^ places[: rest.numel()]).sum().view(1))
    return torch.cat(sums)


def _mixed(words):
    """Mixes the bits of each word, in place."""
    for factor in FACTORS:
        words ^= (words >> SHIFT) & MASK
        words *= factor
    words ^= (words >> SHIFT) & MASK
    return words
