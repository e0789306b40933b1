# SPDX-License-Identifier: BSD-3-Clause
"""This machine, which needs no cluster."""

from conformance import Engine


class Local(Engine):
    name = "local"
    on = "local"
    agents = 1
    # its agent is home's as well, and its launcher replaces itself by the agent
    without = ("nobody_sees_the_secret", "an_agent_is_killed", "the_launcher_is_killed",
               "nothing_is_left_when_the_notebook_ends", "nothing_is_left_when_the_kernel_is_killed")


ENGINES = [Local]
