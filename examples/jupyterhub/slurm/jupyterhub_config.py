# SPDX-License-Identifier: BSD-3-Clause
"""JupyterHub whose servers are jobs of Slurm, by batchspawner. docs/howto/jupyterhub_slurm.md explains each part."""

import html
import os
import socket
import sys

from batchspawner import SlurmSpawner
from batchspawner.api import BatchSpawnerAPIHandler
from jupyterhub.apihandlers import APIHandler
from traitlets import Unicode

c = get_config()  # noqa: F821  (JupyterHub gives it)

# What a user may choose: the job of his server. "on" is where cells run that do not say it themselves, if that is not what
# /etc/cellspan.toml says.
CHOICES = ("partition", "nodes", "options", "memory", "gres", "runtime", "on")
SIZES = {
    "small": {"title": "small: 1 processor; cells ask for jobs with GPUs", "partition": "cpu", "nodes": "1", "memory": "1G", "runtime": "12:00:00",
              "on": "slurm:--partition=gpu --nodes=1 --gres=gpu:1 --time=4:00:00"},
    "one-node": {"title": "one whole node with its 2 GPUs", "partition": "gpu", "nodes": "1", "options": "--exclusive", "memory": "0",
                 "gres": "gpu:2", "runtime": "8:00:00"},
    "two-nodes": {"title": "two whole nodes with 2 GPUs each", "partition": "gpu", "nodes": "2", "options": "--exclusive", "memory": "0",
                  "gres": "gpu:2", "runtime": "4:00:00"},
}


class Servers(SlurmSpawner):
    # What batchspawner has no name for. The script of the job gets each req_NAME as {{NAME}}.
    req_nodes = Unicode("", config=True)
    req_on = Unicode("", config=True)


def choose(spawner, options):
    size = options.get("size", "small")
    if size not in SIZES:
        raise ValueError(f"there is no size {size!r}: {', '.join(SIZES)}")
    spawner.user_options = {"size": size}  # batchspawner puts all that stands here into the script, whatever a user calls it
    for name in CHOICES:  # all of them, for the spawner may have those of an earlier choice
        setattr(spawner, "req_" + name, SIZES[size].get(name, ""))


def port_alone(self):
    """A server tells its port here. batchspawner 1.3 takes every attribute of the spawner, also commands that the hub runs as root."""
    return {"port": int(APIHandler.get_json_body(self)["port"])}


BatchSpawnerAPIHandler.get_json_body = port_alone

# Who may log in: the users of this machine who are in this group. The nodes know the same users.
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

# Servers on the nodes reach the hub here, and the hub reaches them by the names that squeue prints.
c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = socket.getfqdn()

c.JupyterHub.spawner_class = Servers
c.Spawner.options_form = '<label>Size <select name="size" class="form-control">{}</select></label>'.format(
    "".join(f'<option value="{name}">{html.escape(size["title"])}</option>' for name, size in SIZES.items()))
c.Spawner.options_from_form = "simple"
c.Spawner.apply_user_options = choose
c.JupyterHub.allow_named_servers = True  # so that one may have a server of each size
c.JupyterHub.named_server_limit_per_user = 2
c.Spawner.start_timeout = 1800  # the time in Slurm's queue is part of it

# The hub runs as root, and asks Slurm as the user. The nodes have its Python at the same path.
BIN = os.path.dirname(sys.executable)
c.BatchSpawnerBase.exec_prefix = "/sbin/runuser -u {username} --"
c.BatchSpawnerBase.batchspawner_singleuser_cmd = os.path.join(BIN, "batchspawner-singleuser")
c.Spawner.cmd = [os.path.join(BIN, "jupyterhub-singleuser")]

# No srun before the command: it would start a server on each of the nodes. exec: so Slurm's SIGTERM reaches the server.
# A login shell: where Slurm is given names of variables, PATH does not get there.
c.SlurmSpawner.req_nprocs = "1"
c.SlurmSpawner.batch_script = """#!/bin/bash -l
#SBATCH --job-name=jupyter
#SBATCH --chdir={{homedir}}
#SBATCH --output={{homedir}}/.jupyter-%j.log
#SBATCH --export={{keepvars}}
#SBATCH --partition={{partition}} --nodes={{nodes}} --ntasks-per-node=1 --cpus-per-task={{nprocs}}
#SBATCH --mem={{memory}} --time={{runtime}}
{% if gres %}#SBATCH --gres={{gres}}
{% endif %}{% if options %}#SBATCH {{options}}
{% endif %}
{% if on %}export CELLSPAN_ON='{{on}}'
{% endif %}exec {{cmd}}
"""

# Servers that nobody has used for so long are stopped, and their nodes are free. A run counts as use, idle ranks don't. The least
# that makes sense is two minutes: a cell that prints nothing says twice a minute that it runs.
CULL_AFTER = 2 * 3600
c.JupyterHub.services = [
    {"name": "idle-culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={CULL_AFTER}", f"--cull-every={CULL_AFTER // 48}"]},
]
c.JupyterHub.load_roles = [
    {"name": "idle-culler", "services": ["idle-culler"], "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]},
]

# Servers outlive a restart of the hub, with all that runs in them.
c.JupyterHub.cleanup_servers = False
