"""Widgets on a rank: no page has their models, so they are shown as text, which is updated when they change."""

from __future__ import annotations

import sys
import time
import uuid
import weakref

from .._base.imports import when_imported

VIEW = "application/vnd.jupyter.widget-view+json"
GAP = 0.1  # seconds between two updates


class Widgets:
    """The widgets that a rank shows as text. publish(kind, content) shows a text, format(widget) makes it."""

    def __init__(self, publish, format):
        self._publish = publish
        self._format = format
        self._shown = {}  # display id: [a weak reference to the widget, its text]
        self._looked = 0.0
        self._changed = self._looking = False
        when_imported("comm", self._hook)

    def _hook(self):
        """When a widget sends anything to its model, its text may have changed."""
        import comm
        from comm.base_comm import BaseComm

        moved = self.moved

        class Comm(BaseComm):
            """A comm without a receiver."""

            def publish_msg(self, *args, **keys):
                moved()

        comm.create_comm = lambda *args, **keys: Comm(*args, **keys)

    def as_text(self, content):
        """A display's content without the reference to a model. From now on the widget's text is updated."""
        data = dict(content["data"])
        widget = _widget(data.pop(VIEW).get("model_id"))
        transient = dict(content.get("transient") or {})
        if widget is not None:
            number = transient.setdefault("display_id", uuid.uuid4().hex)
            data.setdefault("text/plain", repr(widget))
            self._shown[number] = [weakref.ref(widget), data["text/plain"]]
        return {**content, "data": data, "transient": transient}

    def moved(self):
        """A widget changed: updates the texts, at most once in GAP seconds."""
        self._changed = bool(self._shown)
        if self._changed and time.monotonic() - self._looked >= GAP:
            self.look()

    def look(self):
        """Updates the texts that have changed. Also called at a cell's end."""
        if not self._changed or self._looking:
            return
        self._looking, self._changed = True, False
        try:
            for number, shown in list(self._shown.items()):
                self._update(number, shown)
        finally:
            self._looked, self._looking = time.monotonic(), False

    def _update(self, number, shown):
        widget = shown[0]()
        if widget is None:
            del self._shown[number]
            return
        text = self._format(widget)
        if text != shown[1]:
            shown[1] = text
            content = {"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": number}}
            self._publish("update_display_data", content)


def _widget(model):
    """The widget of a model id; None if there is none."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    known = getattr(module, "_instances", None)
    if known is None:
        known = getattr(getattr(module, "Widget", None), "widgets", None) or {}
    return known.get(model)
