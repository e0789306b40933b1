# SPDX-License-Identifier: BSD-3-Clause
"""Hosts with sshd."""

import signal

from conformance import Engine
from engines import HOST_TOOLS, Hosts


class Ssh(Engine):
    name = "ssh"
    on = "ssh:h1,h2"
    tools = HOST_TOOLS
    by_signal = signal.SIGUSR2
    too_much = ("ssh:h1*1,h2*1", "the hosts of this list take 2 ranks")

    def up(self):
        self.hosts = Hosts(2)
        self.hosts.up()

    def down(self):
        self.hosts.down()

    prefix = {}

    def variables(self):
        return {**self.hosts.variables(), **self.prefix}

    def gpus(self, environment, folder):
        """Each host has its leases in its own /dev/shm."""
        self.prefix = {"CELLSPAN_REMOTE_PREFIX": self.wrap_agent(folder, environment, {"h1": "2,5", "h2": "0,3"})}
        return self.on, ["2,5", "2,5", "0,3", "0,3"]

    def left(self):
        return ["%s: %s" % (host, text) for host in self.hosts.names for text in self.hosts.workers(host).values()]


ENGINES = [Ssh]
