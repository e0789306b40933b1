# SPDX-License-Identifier: BSD-3-Clause
"""The floor: a kernel that runs nothing. What it takes is the client's own work, the signatures and the sockets.

    python floor.py CONNECTION_FILE

A cell may start with `# floor: lines N WIDTH`: then N lines of WIDTH digits are sent as stream messages of 64 KiB.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

import zmq
from jupyter_client.session import Session

BLOCK = 64 << 10
INFO = {
    "status": "ok",
    "protocol_version": "5.4",
    "implementation": "floor",
    "implementation_version": "0",
    "language_info": {"name": "python", "version": "3", "mimetype": "text/x-python", "file_extension": ".py"},
    "banner": "",
    "help_links": [],
}


def line(number, width):
    """What the measured cells print: the line's number with zeros before it."""
    return "%0*d\n" % (width, number)


class Floor:
    def __init__(self, path):
        with open(path) as file:
            self.at = json.load(file)
        self.session = Session(key=self.at["key"].encode(), signature_scheme=self.at["signature_scheme"])
        self.context = zmq.Context()
        self.shell, self.control, self.stdin = (self.bind(zmq.ROUTER, name) for name in ("shell", "control", "stdin"))
        self.iopub = self.bind(zmq.PUB, "iopub")
        self.iopub.sndhwm = 0
        self.count = 0

    def bind(self, kind, name):
        socket = self.context.socket(kind)
        socket.linger = 1000
        socket.bind("tcp://%s:%d" % (self.at["ip"], self.at[name + "_port"]))
        return socket

    def heartbeat(self):
        zmq.proxy(*[self.bind(zmq.ROUTER, "hb")] * 2)

    def publish(self, kind, content, parent):
        self.session.send(self.iopub, kind, content, parent=parent, ident=kind.encode())

    def execute(self, parent):
        content = parent["content"]
        self.count += not content["silent"]
        if not content["silent"]:
            self.publish("execute_input", {"code": content["code"], "execution_count": self.count}, parent)
        words = content["code"].split("\n", 1)[0].split()
        if words[:3] == ["#", "floor:", "lines"]:
            n, width = int(words[3]), int(words[4])
            each = max(1, BLOCK // width)
            for start in range(0, n, each):
                text = "".join(line(i, width) for i in range(start, min(n, start + each)))
                self.publish("stream", {"name": "stdout", "text": text}, parent)
        return {"status": "ok", "execution_count": self.count, "payload": [], "user_expressions": {}}

    def answer(self, kind, parent):
        if kind == "execute_request":
            return self.execute(parent)
        return INFO if kind == "kernel_info_request" else {"status": "ok"}

    def serve(self):
        threading.Thread(target=self.heartbeat, daemon=True).start()
        poller = zmq.Poller()
        for socket in (self.shell, self.control):
            poller.register(socket, zmq.POLLIN)
        while True:
            for socket, _ in poller.poll():
                idents, parent = self.session.recv(socket, 0)
                kind = parent["header"]["msg_type"]
                self.publish("status", {"execution_state": "busy"}, parent)
                self.session.send(socket, kind.replace("request", "reply"), self.answer(kind, parent), parent=parent, ident=idents)
                self.publish("status", {"execution_state": "idle"}, parent)
                if kind == "shutdown_request":
                    return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a manager sends before it asks for the end
    Floor(sys.argv[1]).serve()
