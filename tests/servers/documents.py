# SPDX-License-Identifier: BSD-3-Clause
"""Notebooks that a server shares with its clients: a room of jupyter-collaboration, or of jupyter-server-documents."""

from __future__ import annotations

import threading

import pycrdt
import websocket
from jupyter_ydoc import YNotebook


class Room:
    """A client that sees the shared notebook, as a page does. Its outputs are those that the server writes."""

    def __init__(self, url, token):
        self.doc = pycrdt.Doc()
        self.notebook = YNotebook(self.doc)
        self.socket = websocket.create_connection(url, header=[f"Authorization: token {token}"])
        self.lock = threading.Lock()  # of doc
        self.socket.send_binary(pycrdt.create_sync_message(self.doc))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while True:
            try:
                message = self.socket.recv()
            except (websocket.WebSocketException, OSError):
                return
            if not message:
                return
            if isinstance(message, bytes) and message[0] == pycrdt.YMessageType.SYNC:
                with self.lock:
                    answer = pycrdt.handle_sync_message(message[1:], self.doc)
                if answer:
                    self.socket.send_binary(answer)

    def cells(self):
        with self.lock:
            return self.notebook.source["cells"]

    def close(self):
        self.socket.close()
        self.thread.join(10)
