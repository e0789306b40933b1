# SPDX-License-Identifier: BSD-3-Clause
"""Widgets on a rank. Pages show and move them as they do home's; here is only what differs from home."""

from __future__ import annotations

import uuid

from .._base.imports import when_imported
from .comms import Comms

VIEW = "application/vnd.jupyter.widget-view+json"


class Widgets:
    """Comms of a rank, from the first import of the package `comm` on; and what the rank needs for its widgets."""

    def __init__(self, rank):
        self._rank = rank
        self.comms = None
        when_imported("comm", self._open)
        when_imported("ipywidgets.widgets.widget_output", self._capture)

    def _open(self):
        self.comms = Comms(self._rank)

    def _capture(self):
        from .rank_output import capture_here

        capture_here(self._rank)

    def handle(self, fields, content, metadata, header):
        """A comm message of a page."""
        __tracebackhide__ = True
        if self.comms is not None:
            self.comms.handle(fields["type"], content, metadata, fields["buffers"], header)

    def shown(self, content):
        """The content of a display that shows a widget: with an id, so that the kernel can replace it when this rank has ended. A
        closed widget has no model, so only its text is shown."""
        data = content["data"]
        if self._is_closed(data[VIEW].get("model_id")):
            data = {mime: value for mime, value in data.items() if mime != VIEW}
        return {**content, "data": data, "transient": {"display_id": uuid.uuid4().hex, **(content.get("transient") or {})}}

    def is_closed(self, data):
        """Does this bundle show a widget that is closed?"""
        return VIEW in data and self._is_closed(data[VIEW].get("model_id"))

    def _is_closed(self, model):
        manager = self.comms.manager if self.comms is not None else None
        return manager is None or model not in manager.comms
