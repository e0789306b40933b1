# SPDX-License-Identifier: BSD-3-Clause
"""`cellspan ps --all` as a service of JupyterHub. The hub starts it as docs/howto/jupyterhub.md says: `PYTHON -I …/hub_service`.

It is two processes. The first keeps the rights of the hub (root, for SystemdSpawner) and does one thing: it runs `cellspan ps`
when it is asked to (lister.py). The second is `nobody` and all the rest (web.py).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import socket
import sys
from urllib.parse import urlparse

sys.dont_write_bytecode = True  # whoever removes cellspan removes this folder
# The modules here have names that other packages may have, too. So this folder must not be on the path.
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [*(path for path in sys.path if path != here), os.path.dirname(here)]

from hub_service.lister import Lister  # noqa: E402
from hub_service.rights import RightsError, give_up_rights  # noqa: E402


def options():
    beside = os.path.abspath(os.path.join(here, "..", "..", "..", "bin", "cellspan"))
    parser = argparse.ArgumentParser(prog="cellspan's hub service", description="Who holds which GPU, for the users of a JupyterHub. The hub starts it.")
    parser.add_argument("--cellspan", default=beside if os.path.exists(beside) else "cellspan", metavar="COMMAND",
                        help="the command, also with words before it, as in 'sudo -n /usr/local/bin/cellspan' (%(default)s)")
    parser.add_argument("--user", default="nobody", metavar="NAME", help="whose rights the part has that answers requests, if root starts it (%(default)s)")
    parser.add_argument("--account", default="{username}", metavar="TEMPLATE", help="the unix account of the hub's user {username} (%(default)s)")
    parser.add_argument("--every", type=float, default=5, metavar="SECONDS", help="the machine is listed no more often (%(default)s)")
    parser.add_argument("--limit", type=float, default=40, metavar="SECONDS", help="a list that takes longer is given up (%(default)s)")
    return parser.parse_args()


def complaint(command):
    """What is missing for a start, and what to do about it; None: nothing."""
    if importlib.util.find_spec("jupyterhub") is None:
        return "this Python has no jupyterhub: start it with the hub's Python, or: %s -m pip install jupyterhub" % sys.executable
    if not os.environ.get("JUPYTERHUB_SERVICE_URL") or not os.environ.get("JUPYTERHUB_API_TOKEN"):
        return "JupyterHub starts this program, as a service with a url and a command: docs/howto/jupyterhub.md has the lines for its configuration"
    if not command or not shutil.which(command[0]):
        return "--cellspan %s: there is no such program" % shlex.join(command)
    return None


def answer_requests(to_lister, given):
    """The second process."""
    url = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    try:  # as root, for it may be a port below 1024, which nobody else can take before us
        listening = socket.create_server((url.hostname, url.port), family=socket.AF_INET6 if ":" in url.hostname else socket.AF_INET)
    except OSError as error:
        return ("%s: %s: another program has that port, the address is not this machine's, or only root may take the port; give the service "
                "another url" % (url.geturl(), os.strerror(error.errno) if error.errno and error.errno > 0 else error))
    try:
        if os.geteuid() == 0:
            give_up_rights(given.user)
        os.chdir("/")
    except RightsError as error:
        return str(error)
    try:
        from hub_service.web import serve
    except (ImportError, OSError) as error:
        return "%s: the user with number %d must be able to read this Python's packages" % (error, os.geteuid())
    serve(to_lister, given, listening)
    return "the part that lists notebooks has ended"


def main():
    given = options()
    command = shlex.split(given.cellspan)
    said = complaint(command)
    if said is None:
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child:
            theirs.close()
            return Lister(command, given.limit).serve(ours, child)
        ours.close()
        said = answer_requests(theirs, given)
    print("cellspan's hub service: " + said, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
