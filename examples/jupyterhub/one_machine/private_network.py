# SPDX-License-Identifier: BSD-3-Clause
"""A network of its own for each server, so that no user reaches the ports of another one's ranks. At the end of
jupyterhub_config.py: load_subconfig("private_network.py"). docs/howto/jupyterhub.md explains it."""

import ipaddress
import subprocess

c = get_config()  # noqa: F821  (JupyterHub gives it)

# Addresses that nothing else here uses. The hub has the first one, and each user another.
NETWORK = ipaddress.ip_network("10.91.0.0/16")
BRIDGE = "jupyter0"


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, stderr=None if check else subprocess.DEVNULL).returncode == 0


def remove(spawner):
    ip("link", "delete", f"{BRIDGE}-{spawner.user.id}", check=False)  # the end of the namespace alone removes it later
    ip("netns", "delete", "jupyter-" + spawner.user.name, check=False)


def make(spawner):
    space, link, address = "jupyter-" + spawner.user.name, f"{BRIDGE}-{spawner.user.id}", NETWORK[spawner.user.id + 1]
    remove(spawner)
    ip("netns", "add", space)
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
    ip("link", "set", link, "master", BRIDGE)
    ip("link", "set", link, "type", "bridge_slave", "isolated", "on")  # it reaches the bridge, and no other isolated link
    ip("link", "set", link, "up")
    ip("-n", space, "address", "add", f"{address}/{NETWORK.prefixlen}", "dev", "eth0")
    ip("-n", space, "link", "set", "lo", "up")
    ip("-n", space, "link", "set", "eth0", "up")
    ip("-n", space, "route", "add", "default", "via", NETWORK[1])
    spawner.ip = str(address)


if not ip("link", "show", BRIDGE, check=False):
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{NETWORK[1]}/{NETWORK.prefixlen}", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
c.JupyterHub.hub_ip = str(NETWORK[1])
c.Spawner.pre_spawn_hook = make
c.Spawner.post_stop_hook = remove
c.SystemdSpawner.unit_extra_properties.update({"NetworkNamespacePath": "/run/netns/jupyter-{USERNAME}"})
