"""What libraries and notebooks that were written for ipykernel ask of `get_ipython().kernel`, as far as it is cheap."""

from __future__ import annotations


class Session:
    """Sends messages to the page, as jupyter_client's Session does; the agent and the kernel sign and number them."""

    def __init__(self, home):
        self._home = home

    @property
    def session(self):
        """The session of the client whose request is in work."""
        return self._home.parent()["header"].get("session", "")

    def msg(self, msg_type, content=None, parent=None, header=None, metadata=None):
        """A message that send() takes."""
        return {
            "header": {"msg_type": msg_type, **(header or {})},
            "msg_type": msg_type,
            "parent_header": (parent or {}).get("header", parent) or {},
            "content": content or {},
            "metadata": metadata or {},
        }

    def send(self, stream, msg_or_type, content=None, parent=None, ident=None, buffers=None, track=False, header=None, metadata=None):
        """Publishes a message under the cell that `parent` names (the one in work without it); `stream` is the kernel's
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
        self.shell = home.shell
        self.comm_manager = home.comms.manager
        self.session = Session(home)
        self.iopub_socket = object()  # what Session.send() is given

    @property
    def _parent_header(self):
        return self._home.parent()

    def get_parent(self, channel="shell"):
        """The request in work; its header is there."""
        return self._home.parent()

    def do_one_iteration(self):
        """Messages are served by the loop; between cells there is nothing to do by hand."""
