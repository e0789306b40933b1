# SPDX-License-Identifier: BSD-3-Clause
"""A JupyterHub with a configuration of examples/jupyterhub, two unix users who exist for it alone, and their servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import requests
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

TOP = os.environ["HUB_TOP"]
USERS = {"cs-ann": 64011, "cs-bob": 64012}
MARKER = "CELLSPAN_HUB_TEST"
# Only root may enter some home folders, where Python may be. The configuration follows what an admin copies: what it says of its
# place (systemd, PAM, ports) is replaced, and nothing else.
START = """
mount --make-rprivate /
mount --bind "$1/etc" /etc
if [ "$2" ]; then
    mkdir -p "$1/python"; mount --bind "$3" "$1/python"
    mount -t tmpfs -o mode=755 tmpfs "$2"; mkdir -p "$3"; mount --move "$1/python" "$3"
fi
cd "$1" && shift 3 && exec "$@"
"""
CONFIG = """
load_subconfig({example!r})
c = get_config()
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = c.JupyterHub.hub_connect_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.JupyterHub.services.append({{"name": "tests", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{"name": "tests", "services": ["tests"],
                                 "scopes": ["admin:users", "admin:servers", "access:servers", "list:users", "read:hub", "tokens"]}})
c.Spawner.environment = {environment!r}
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
"""


# The hub gives its services none of its variables.
SERVICES = """
for service in c.JupyterHub.services:
    if "command" in service:
        service.setdefault("environment", {{}})[{marker!r}] = {mark!r}
"""


def closed_above(path):
    """The uppermost folder above that only its owner may enter; "" if there is none."""
    parts = path.split(os.sep)
    for n in range(2, len(parts)):
        if not os.stat(os.sep.join(parts[:n])).st_mode & 0o001:
            return os.sep.join(parts[:n])
    return ""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def free_port_of_root():
    """Below 1024."""
    for port in random.sample(range(600, 1024), 424):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass
    raise AssertionError("no port below 1024 is free")


def until(holds, limit=120):
    end = time.monotonic() + limit
    while True:
        found = holds()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.25)


class Hub:
    """`instead`: lines of configuration, such as for what can't be here. `variables`: of the hub and of its servers."""

    instead, variables = 'c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"\n', {}

    def __init__(self, example, change=""):
        self.folder = tempfile.mkdtemp(prefix="cellspan-hub-")
        os.chmod(self.folder, 0o755)
        self.mark, self.token = uuid.uuid4().hex, uuid.uuid4().hex
        self.url = "http://127.0.0.1:%d" % (port := free_port())
        self.session = requests.Session()
        self.session.headers["Authorization"] = "token " + self.token
        self.etc(os.path.join(TOP, "examples", "jupyterhub", example))
        text = CONFIG.format(example=os.path.join(TOP, "examples", "jupyterhub", example, "jupyterhub_config.py"), port=port, hub=free_port(), api=free_port(),
                             token=self.token, environment=dict(self.variables, JUPYTER_PATH=os.path.join(os.environ["HUB_KERNELS"], "share", "jupyter"),
                                                                JUPYTERHUB_ACTIVITY_INTERVAL="2", **{MARKER: self.mark}))
        with open(os.path.join(self.folder, "jupyterhub_config.py"), "w", encoding="utf-8") as file:
            file.write(text + self.instead + change + SERVICES.format(marker=MARKER, mark=self.mark))
        self.up()

    def within(self, *command):
        """The command where the two users exist."""
        base = os.path.realpath(sys.base_prefix)
        return ["unshare", "--mount", "sh", "-c", START, "sh", self.folder, closed_above(base), base, *command]

    def etc(self, example):
        etc = os.path.join(self.folder, "etc")
        shutil.copytree("/etc", etc, symlinks=True)
        with open(os.path.join(etc, "passwd"), "a", encoding="utf-8") as passwd, open(os.path.join(etc, "group"), "a", encoding="utf-8") as group:
            for name, uid in USERS.items():
                home = os.path.join(self.folder, name)
                os.mkdir(home, 0o700)
                os.chown(home, uid, uid)
                passwd.write("%s:x:%d:%d::%s:/bin/bash\n" % (name, uid, uid, home))
                group.write("%s:x:%d:\n" % (name, uid))
        if os.path.exists(os.path.join(example, "cellspan.toml")):
            shutil.copy(os.path.join(example, "cellspan.toml"), etc)

    def up(self):
        env = dict(os.environ, **self.variables, PATH=os.pathsep.join([os.path.join(os.environ["HUB_VENV"], "bin"), os.environ["HUB_PROXY"], os.environ["PATH"]]))
        env[MARKER] = self.mark
        with open(os.path.join(self.folder, "hub.log"), "ab") as log:
            self.process = subprocess.Popen(self.within("jupyterhub", "-f", os.path.join(self.folder, "jupyterhub_config.py")), env=env,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        assert until(self.answers), self.log()

    def answers(self):
        try:
            return self.session.get(self.url + "/hub/api/", timeout=5).ok
        except requests.ConnectionError:
            return False

    def log(self):
        with open(os.path.join(self.folder, "hub.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def ask(self, method, path, ok=True, **options):
        answer = self.session.request(method, self.url + path, timeout=60, **options)
        assert answer.ok or not ok, "%s %s: %s %s" % (method, path, answer.status_code, answer.text[:300])
        return answer

    def server(self, user, name="", **options):
        """Starts a server of the user's, and a kernel of cellspan's in it."""
        self.ask("POST", "/hub/api/users/" + user, ok=False)
        if not self.serves(user, name):
            self.ask("POST", self.path(user, name), json={"user_options": options})
        assert until(lambda: self.serves(user, name)), self.log()
        at = "/user/%s/%s" % (user, name + "/" if name else "")
        return Notebook(self, at, self.ask("POST", at + "api/kernels", json={"name": "cellspan"}).json()["id"])

    def path(self, user, name):
        return "/hub/api/users/%s/server%s" % (user, "s/" + name if name else "")

    def serves(self, user, name=""):
        server = self.ask("GET", "/hub/api/users/" + user).json()["servers"].get(name)
        return bool(server and server["ready"])

    def stop_server(self, user, name=""):
        self.ask("DELETE", self.path(user, name))

    def stop_all(self):
        for user in USERS:
            for name in self.ask("GET", "/hub/api/users/" + user, ok=False).json().get("servers", ()):
                self.ask("DELETE", self.path(user, name), ok=False)

    def kill(self):
        """The hub with its proxy and services, as when their unit of systemd is killed. The hub first: it starts services again."""
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in (self.process.pid, *(pid for pid in children if os.stat("/proc/%d" % pid).st_uid == 0), *self.processes(0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)
        assert until(lambda: not self.processes(0), 30)

    def processes(self, uid=None, word=""):
        """The processes that came of this hub, of this user, with the word in their command line."""
        wanted, found = ("%s=%s" % (MARKER, self.mark)).encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as environ, open("/proc/%s/cmdline" % pid, "rb") as command, open("/proc/%s/status" % pid) as status:
                    whose = int(status.read().split("\nUid:")[1].split()[1])
                    if wanted in environ.read().split(b"\0") and word.encode() in command.read() and uid in (None, whose):
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def close(self):
        if self.process.poll() is None:
            self.stop_all()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            left = until(lambda: not self.processes(), 30) or [open("/proc/%d/cmdline" % pid).read() for pid in self.processes()]
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        return left


class Notebook:
    """A kernel of the server at this path."""

    def __init__(self, hub, at, kernel):
        self.hub, self.at, self.kernel = hub, at, kernel

    def run(self, code, limit=180):
        """What the cell printed and its result, as text; an error fails the test."""
        status, text = asyncio.run(self.executed(code, limit))
        assert status == "ok", text
        return text

    def begin(self, code, word, limit=180):
        """Leaves when the cell has printed the word, which shows that it runs: nobody hears the rest."""
        text = asyncio.run(self.executed(code, limit, word))[1]
        assert word in text, text

    async def executed(self, code, limit, word=None):
        where = "%s%sapi/kernels/%s/channels" % (self.hub.url.replace("http", "ws", 1), self.at, self.kernel)
        socket = await websocket_connect(HTTPRequest(where, headers={"Authorization": "token " + self.hub.token}))
        sent = uuid.uuid4().hex
        header = {"msg_id": sent, "msg_type": "execute_request", "username": "", "session": uuid.uuid4().hex, "version": "5.3", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
        await socket.write_message(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": [], "content": content}))
        shown, idle, status, end = [], False, None, time.monotonic() + limit
        while not (idle and status) and not (word and word in "".join(shown)):
            message = json.loads(await asyncio.wait_for(socket.read_message(), max(0.1, end - time.monotonic())))
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != sent:
                continue
            if kind == "stream":
                shown.append(content["text"])
            elif kind == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif kind == "error":
                shown.append("\n".join(content["traceback"]))
            elif kind == "execute_reply":
                status = content["status"]
            idle = idle or (kind == "status" and content["execution_state"] == "idle")
        socket.close()
        return status, "".join(shown)
