# SPDX-License-Identifier: BSD-3-Clause
"""A page of the hub that says who holds which GPU, also as JSON and for Prometheus. At the end of jupyterhub_config.py:
load_subconfig("/etc/jupyterhub/gpu_page.py"). docs/howto/jupyterhub.md explains it."""

import sys

c = get_config()  # noqa: F821  (JupyterHub gives it)

PREFIX = "/usr/local"  # where cellspan is installed, or the environment into which pip has installed it
SEE_ALL = []  # names of those who see the notebooks of all users, such as ["ann"]

c.JupyterHub.custom_scopes.update(
    {
        "custom:cellspan:read": {"description": "See the notebooks of all users and who holds which GPU", "subscopes": ["custom:cellspan:metrics"]},
        "custom:cellspan:metrics": {"description": "Read cellspan's metrics"},
    }
)
c.JupyterHub.services.append(
    {
        "name": "cellspan",
        "display": True,
        "url": "http://127.0.0.1:883",  # only root takes a port below 1024, so no user is there before the service
        # The hub's Python runs it, and it runs PREFIX/bin/cellspan. If root starts it, the part that answers requests is `nobody`.
        "command": [sys.executable, "-I", f"{PREFIX}/lib/cellspan/hub_service"],
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": ["custom:cellspan:read"],
    }
)
# Every user has the page, with his own notebooks. A configuration that has the role "user" already adds the second scope there instead.
c.JupyterHub.load_roles.append({"name": "user", "scopes": ["self", "access:services!service=cellspan"]})
c.JupyterHub.load_roles.append({"name": "cellspan-all", "scopes": ["custom:cellspan:read"], "users": SEE_ALL})
# Prometheus, with a token that reads the metrics and nothing else:
# c.JupyterHub.services.append({"name": "prometheus", "api_token": open("/etc/jupyterhub/prometheus.token").read().strip()})
# c.JupyterHub.load_roles.append({"name": "prometheus", "services": ["prometheus"],
#                                 "scopes": ["custom:cellspan:metrics", "access:services!service=cellspan"]})
