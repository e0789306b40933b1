# SPDX-License-Identifier: BSD-3-Clause
"""A `get_ipython().kernel` for libraries and notebooks that were written for ipykernel, as far as that is simple."""

from __future__ import annotations

import builtins


class Session:
    """Sends messages to clients, as jupyter_client's Session does. The kernel signs and numbers them."""

    def __init__(self, home):
        self._home = home

    @property
    def session(self):
        """The session of the client whose request is being served."""
        return self._home.parent()["header"].get("session", "")

    def msg(self, msg_type, content=None, parent=None, header=None, metadata=None):
        """A message for send()."""
        return {
            "header": {"msg_type": msg_type, **(header or {})},
            "msg_type": msg_type,
            "parent_header": (parent or {}).get("header", parent) or {},
            "content": content or {},
            "metadata": metadata or {},
        }

    def send(self, stream, msg_or_type, content=None, parent=None, ident=None, buffers=None, track=False, header=None, metadata=None):
        """Publishes a message as output of the cell of `parent` (default: the running cell). `stream` must be the kernel's
        `iopub_socket`."""
        message = msg_or_type if isinstance(msg_or_type, dict) else self.msg(msg_or_type, content, parent, header, metadata)
        home = self._home
        with home.under(home.number_of(parent or {"header": message.get("parent_header") or {}})):
            home.publish(message["msg_type"], message["content"], message["metadata"], buffers or ())
        return message


class Kernel:
    """See the module."""

    def __init__(self, home):
        self._home = home
        self.implementation = "cellspan"
        self.eventloop = None  # no window system's
        self.shell = home.shell
        self.comm_manager = home.comms.manager
        self.session = Session(home)
        self.iopub_socket = object()  # an argument for Session.send()

    @property
    def execution_count(self):
        return self._home.count

    @property
    def log(self):
        from traitlets.log import get_logger

        return get_logger()

    @property
    def user_ns(self):
        return self.shell.user_ns

    @property
    def user_module(self):
        return self.shell.user_module

    def raw_input(self, prompt=""):
        """A line that the user types."""
        return builtins.input(prompt)

    def getpass(self, prompt="", stream=None):
        """As raw_input(), but the client hides what is typed."""
        import getpass

        return getpass.getpass(prompt)

    def send_response(self, stream, msg_or_type, content=None, ident=None, buffers=None, track=False, header=None, metadata=None, channel=None):
        """Publishes a message as output of the running cell."""
        return self.session.send(stream, msg_or_type, content, buffers=buffers, header=header, metadata=metadata)

    @property
    def _parent_header(self):
        return self._home.parent()

    def get_parent(self, channel="shell"):
        """The request that is being served; only its header is known."""
        return self._home.parent()

    def do_one_iteration(self):
        """Does nothing: the loop serves messages."""
