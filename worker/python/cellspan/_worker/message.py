# SPDX-License-Identifier: BSD-3-Clause
"""Messages from the agent, as protocol/README.md specifies them."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from .. import _link


class Message(NamedTuple):
    """A message, from the tuple of _link.recv() or _link.decode()."""

    kind: str  # "RUN"
    cell: int  # the request that it belongs to; 0: none
    worker: int  # the only receiver
    blob: int  # number of the blob that goes with it; 0: none
    fd: int  # the blob's descriptor, which the receiver must close; -1: none
    size: int  # of the blob, in bytes
    fields: dict  # by name; _link has the names of flags


def unopened(message):
    """The OSError for a message whose blob could not be opened, since this process has too many open files. None: it could."""
    if message.fd >= 0 or not message.size:
        return None
    return OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)}, so values that were sent to this process did not arrive: close some, and run this again")


def received(part=_link.ALL):
    """The oldest message of that part (_link.ALL, ANSWERS, CALLS or SUBSHELLS), or None."""
    parts = _link.recv(part)
    return None if parts is None else Message._make(parts)


def decoded(data):
    """The message in these bytes, without a descriptor."""
    return Message._make(_link.decode(data))
