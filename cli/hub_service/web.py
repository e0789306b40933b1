# SPDX-License-Identifier: BSD-3-Clause
"""The part that answers requests: JupyterHub says who asks (OAuth for browsers, tokens for programs) and with which scopes."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import time

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from .lister import HEAD
from .metrics import TYPE, metrics
from .page import POLICY, page
from .view import FORM, Viewer, view

SEES_ALL = "custom:cellspan:read"
MEASURES = "custom:cellspan:metrics"
PATIENCE = 2.0  # seconds that a request waits for a list, if there is an older one
KNOWN = 20  # seconds for which the hub is not asked again about a token
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Listing:
    """The newest list that the other process has made, at most one in `every` seconds, however many ask."""

    def __init__(self, streams, every, limit):
        self._reader, self._writer = streams
        self._every, self._limit = every, limit
        self._coming = None  # a future: done when what was asked for last is there
        self._began, self._ended = 0.0, 0.0
        self.told = None  # what `cellspan ps` has said last; None: nothing yet
        self.error = "it is being made"  # why there is no newer one; None: `told` is the newest
        self.taken, self.took = 0.0, 0.0  # when it was begun (unix time), and for how long it was made

    async def newest(self):
        """Waits for it, but not long where there is an older one."""
        if self._coming is None or (self._coming.done() and time.monotonic() - self._ended >= self._every):
            self._coming, self._began = asyncio.get_running_loop().create_future(), time.monotonic()
            self._writer.write(b"?")
        await asyncio.wait({self._coming}, timeout=self._limit + 5 if self.told is None else PATIENCE)

    async def take_all(self):
        """Until the other process has ended."""
        while True:
            try:
                is_list, length = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                text = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, OSError):
                return
            self._ended = time.monotonic()
            self._take(*(self._parsed(text) if is_list else (None, text.decode("utf-8", "replace"))))
            self._coming.set_result(None)

    def _take(self, told, error):
        """One that fails leaves the list that there is, and its age."""
        self.error = error
        if told is not None:
            self.told, self.took = told, self._ended - self._began
            self.taken = time.time() - self.took

    @staticmethod
    def _parsed(text):
        try:
            told = json.loads(text)
        except ValueError:
            return None, "cellspan ps --brief has not printed JSON: its version may be another one than the service's"
        if not isinstance(told, dict) or told.get("form") != FORM:
            return None, "cellspan ps --brief prints another form than the service knows: their versions are not the same"
        return told, None


class Handler(HubOAuthenticated, RequestHandler):
    """Sets `viewer` to who asks, or answers 403. needs: one of these scopes, beside that for the service."""

    needs = ()

    def initialize(self, listing, account):
        self.listing, self._account = listing, account

    def set_default_headers(self):
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    async def prepare(self):
        model = await self.hub_auth.get_user(self, sync=False)
        if model is None:
            return self.refuse()
        scopes = set(model["scopes"])
        if not self.hub_scopes or not self.hub_auth.check_scopes(self.hub_scopes, model):
            raise HTTPError(403, reason="Needs the scope access:services!service=%s" % os.environ.get("JUPYTERHUB_SERVICE_NAME", "cellspan"))
        if self.needs and not scopes & set(self.needs):
            raise HTTPError(403, reason="Needs the scope " + self.needs[0])
        self.who = model["name"]
        self.viewer = Viewer(self._uid() if model.get("kind", "user") == "user" else None, SEES_ALL in scopes)
        await self.listing.newest()

    def refuse(self):
        """The hub does not know who asks."""
        raise HTTPError(403, reason="Needs a token of JupyterHub's that is valid")

    def _uid(self):
        try:
            return pwd.getpwnam(self._account.replace("{username}", self.who)).pw_uid
        except (KeyError, ValueError):
            return None

    def seen(self):
        return None if self.listing.told is None else view(self.listing.told, self.viewer)

    def why(self):
        """Why there is no newer list; None: there is. What the machine's programs say is for those who see all."""
        return self.listing.error if self.viewer.sees_all or not self.listing.error else "the machine can't be listed now; the hub's admins can see why"

    def age(self):
        return max(0.0, time.time() - self.listing.taken)

    def write_error(self, status_code, **kwargs):
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("%d: %s\n" % (status_code, self._reason))


class Page(Handler):
    def refuse(self):
        self.redirect(self.get_login_url())

    def get(self):
        seen = self.seen()
        self.set_status(200 if seen else 503)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(page(seen, self.who, self.why(), self.age(), time.time()))


class Json(Handler):
    def get(self):
        seen = self.seen()
        self.set_status(200 if seen else 503)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        told = {"form": FORM, "error": self.why()} if seen is None else dict(seen, form=FORM, error=self.why(), taken=self.listing.taken, age=self.age())
        self.finish(json.dumps(told))


class Metrics(Handler):
    needs = (MEASURES, SEES_ALL)

    def get(self):
        self.viewer.sees_all = True  # metrics.py takes no more of it than users and numbers
        self.set_header("Content-Type", TYPE)
        self.finish(metrics(self.seen(), self.age(), self.listing.took, self.listing.error is None))


class Missing(Handler):
    async def prepare(self):
        raise HTTPError(404)


class Callback(HubOAuthCallbackHandler):
    def set_default_headers(self):
        for name, value in HEADERS.items():
            self.set_header(name, value)

    write_error = Handler.write_error


async def _serve(to_lister, given, listening):
    streams = await asyncio.open_unix_connection(sock=to_lister, limit=1 << 20)
    listing = Listing(streams, given.every, given.limit)
    # Tokens that the hub takes back are refused soon
    HubOAuth.instance(cache_max_age=KNOWN)
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/cellspan/")
    shared = {"listing": listing, "account": given.account}
    application = Application([
        (prefix, Page, shared),
        (prefix + "api", Json, shared),
        (prefix + "metrics", Metrics, shared),
        (prefix + "oauth_callback", Callback),
    ], cookie_secret=os.urandom(32), default_handler_class=Missing, default_handler_args=shared)
    listening.setblocking(False)
    HTTPServer(application, max_body_size=1 << 16, max_header_size=1 << 15).add_socket(listening)
    await listing.take_all()


def serve(to_lister, given, listening):
    """Returns when the other process has ended. listening: the socket to which requests come."""
    asyncio.run(_serve(to_lister, given, listening))
