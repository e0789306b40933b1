# SPDX-License-Identifier: BSD-3-Clause
"""This machine, which needs no cluster."""

import os
import signal

import processes
from conformance import Engine, children


class Local(Engine):
    name = "local"
    on = "local"
    agents = 1
    # its agent is home's as well, and its launcher replaces itself by the agent
    without = ("nobody_sees_the_secret", "an_agent_is_killed", "the_launcher_is_killed",
               "nothing_is_left_when_the_notebook_ends", "nothing_is_left_when_the_kernel_is_killed")

    def notice(self, session):
        (agent,) = [pid for pid in children(session.nb().pid) if processes.read(pid, "comm").strip() == b"cellspan-agent"]
        os.kill(agent, signal.SIGUSR1)


ENGINES = [Local]
