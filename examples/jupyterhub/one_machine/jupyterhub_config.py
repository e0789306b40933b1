# SPDX-License-Identifier: BSD-3-Clause
"""JupyterHub on one machine with GPUs, for the machine's own users. docs/howto/jupyterhub.md explains each part."""

import sys

from systemdspawner import SystemdSpawner

c = get_config()  # noqa: F821  (JupyterHub gives it)

# Who may log in: the machine's users who are in this group.
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {"notebooks"}
c.PAMAuthenticator.admin_groups = {"sudo"}

# Passwords come here. Where the network is not trusted, take "https://:443", and name a certificate and its key.
c.JupyterHub.bind_url = "http://:80"
# c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = "/etc/jupyterhub/hub.crt", "/etc/jupyterhub/hub.key"
# Only root takes ports below 1024. Whoever took another one while the hub is down would get passwords and servers' tokens.
c.JupyterHub.hub_port = 881
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:882"
# What one user's server sends to another one's browser can act for the other. With a domain for each user, which DNS and the certificate
# must have (*.hub.example.org), it can't:
# c.JupyterHub.subdomain_host = "https://hub.example.org"


class Servers(SystemdSpawner):
    # Version 1.0.2 says that a property may have a list of values, and stumbles over one.
    def _expand_user_vars(self, value):
        if isinstance(value, list):
            return [self._expand_user_vars(one) for one in value]
        return super()._expand_user_vars(value)


# Each server is a unit of systemd, as its user. When the unit ends, all of its processes do, also ranks.
c.JupyterHub.spawner_class = Servers
c.SystemdSpawner.mem_limit = "64G"
c.SystemdSpawner.cpu_limit = 16.0
c.SystemdSpawner.isolate_tmp = True
c.SystemdSpawner.disable_user_sudo = True
c.SystemdSpawner.unit_extra_properties = {
    "TasksMax": "8192",
    "DevicePolicy": "closed",
    # Each card that the servers may use has a line of its own. A card that is not here, no server can open.
    "DeviceAllow": ["/dev/nvidiactl rw", "/dev/nvidia-uvm rw", "/dev/nvidia-uvm-tools rw", "/dev/nvidia0 rw", "/dev/nvidia1 rw"],
    "KillMode": "control-group",
}

# Servers that nobody has used for so long are stopped. A run counts as use, idle ranks don't. The least that makes sense is two
# minutes: a cell that prints nothing says twice a minute that it runs.
CULL_AFTER = 24 * 3600
c.JupyterHub.services = [
    {"name": "idle-culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={CULL_AFTER}", f"--cull-every={CULL_AFTER // 48}"]},
]
c.JupyterHub.load_roles = [
    {"name": "idle-culler", "services": ["idle-culler"], "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]},
]

# Servers outlive a restart of the hub, with all that runs in them.
c.JupyterHub.cleanup_servers = False
