"""Widgets on a rank: no page holds their models, so they are shown as text, and the text follows them."""

from __future__ import annotations

import sys
import time
import uuid
import weakref

from .._base.imports import when_imported

VIEW = "application/vnd.jupyter.widget-view+json"
GAP = 0.1  # seconds between two looks at what changed


class Widgets:
    """What a rank shows of them. publish(kind, content) shows text, format(widget) makes it."""

    def __init__(self, publish, format):
        self._publish = publish
        self._format = format
        self._shown = {}  # display id: [a weak reference to the widget, its text]
        self._looked = 0.0
        self._changed = self._looking = False
        when_imported("comm", self._hook)

    def _hook(self):
        """Whatever a widget tells its model is a reason to look at its text again."""
        import comm
        from comm.base_comm import BaseComm

        moved = self.moved

        class Comm(BaseComm):
            """One that nobody listens to."""

            def publish_msg(self, *args, **keys):
                moved()

        comm.create_comm = lambda *args, **keys: Comm(*args, **keys)

    def as_text(self, content):
        """A display's content without the reference to a model; the widget's text is kept up to date from here on."""
        data = dict(content["data"])
        widget = _widget(data.pop(VIEW).get("model_id"))
        transient = dict(content.get("transient") or {})
        if widget is not None:
            number = transient.setdefault("display_id", uuid.uuid4().hex)
            data.setdefault("text/plain", repr(widget))
            self._shown[number] = [weakref.ref(widget), data["text/plain"]]
        return {**content, "data": data, "transient": transient}

    def moved(self):
        """A widget changed: its text is shown anew, at most every GAP."""
        self._changed = bool(self._shown)
        if self._changed and time.monotonic() - self._looked >= GAP:
            self.look()

    def look(self):
        """Shows the texts that are not what they were. Called at a cell's end as well."""
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
    """The widget of a model's number; None where there is no such."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    known = getattr(module, "_instances", None)
    if known is None:
        known = getattr(getattr(module, "Widget", None), "widgets", None) or {}
    return known.get(model)
