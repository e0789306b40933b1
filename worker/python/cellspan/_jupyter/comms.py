# SPDX-License-Identifier: BSD-3-Clause
"""Comms, by which ipywidgets and others exchange messages with the page. Uses the package `comm`, if it is installed."""

from __future__ import annotations

from .._base.imports import when_imported


class Comms:
    """The manager for the package `comm`, and the messages about comms. Without the package, every comm is refused.
    The kernel has a table of all comms, so it answers comm_info_request itself."""

    def __init__(self, worker):
        self._worker = worker
        try:
            self.manager = self._install()
        except ImportError:
            self.manager = None

    def _install(self):
        import comm
        from comm.base_comm import BaseComm, CommManager

        worker = self._worker

        class Comm(BaseComm):
            """A comm that publishes through this worker."""

            def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
                content = {"data": {} if data is None else data, "comm_id": self.comm_id, **keys}
                worker.publish(msg_type, content, metadata, buffers or ())

        manager = CommManager()

        def ours():
            comm.create_comm = lambda *args, **kwargs: Comm(*args, **kwargs)
            comm.get_comm_manager = lambda: manager

        ours()
        when_imported("ipykernel.ipkernel", ours)  # the import puts ipykernel's own there, which reach no page
        return manager

    def handle(self, kind, content, metadata, buffers, header):
        """comm_open, comm_msg or comm_close from a page. An unknown comm is closed or ignored."""
        __tracebackhide__ = True
        message = {
            "header": header,
            "msg_type": kind,
            "parent_header": {},
            "metadata": metadata,
            "content": content,
            "buffers": [memoryview(b) for b in buffers],
        }
        if kind == "comm_open":
            self._open(content, message)
        else:
            known = self.manager.comms.get(content.get("comm_id")) if self.manager else None
            if known is None:
                return
            if kind == "comm_close":
                known._closed = True
                self.manager.comms.pop(known.comm_id, None)
                known.handle_close(message)
            else:
                known.handle_msg(message)

    def _open(self, content, message):
        target = self.manager.targets.get(content.get("target_name")) if self.manager else None
        if target is None:
            self._worker.publish("comm_close", {"comm_id": content.get("comm_id", ""), "data": {}})
            return
        import comm

        opened = comm.create_comm(comm_id=content["comm_id"], primary=False, target_name=content["target_name"])
        self.manager.register_comm(opened)
        try:
            target(opened, message)
        except Exception:
            opened.close()
            raise
