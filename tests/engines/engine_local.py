# SPDX-License-Identifier: BSD-3-Clause
"""This machine, which needs no cluster."""

import os

from conformance import Engine


class Local(Engine):
    name = "local"
    on = "local"
    agents = 1
    launched = False
    without = {"the_launcher_is_killed": "the kernel starts the agent itself: an_agent_is_killed is the same"}
    made_up = {}

    def variables(self):
        return self.made_up

    def gpus(self, environment, folder):
        """Four of the eight that the libraries show."""
        self.made_up = {**environment, "CUDA_VISIBLE_DEVICES": "1,2,4,7", "CELLSPAN_GPU_LEASES": os.path.join(folder, "leases-local")}
        return "local", ["1,2,4,7"] * 4

    def notice(self, session):
        (agent,) = session.agent_pids()
        os.kill(agent, self.by_signal)


ENGINES = [Local]
