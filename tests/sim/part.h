/* SPDX-License-Identifier: BSD-3-Clause */
/* part.h - the parts that the program cellspan-sim plays, chosen by the name under which it is
 * called. The kernel is real, and so are the connections between kernel and agents
 * (worker/agent/net/uplink.h). The agents' ranks are simulated.
 *
 * - options.c: the command line of cellspan-sim
 * - driver.c: the client, which starts the kernel and sends it cells
 * - scenes.c: tests; figures.c: measurements; usage.c: time and memory of a process
 * - cut.c: connections that end
 * - home.c: this machine's agent with home in it (cellspan-agent)
 * - engine.c: the engine (cellspan-launch-sim), whose processes contain the agents
 * - host.c: one of these processes; agent.c: an agent in it
 * - rank.c: a rank of an agent; script.c: what the rank does */
#ifndef TESTS_SIM_PART_H
#define TESTS_SIM_PART_H

/* Processes that share the agents of an engine. It divides the tree's fan, so that links between
 * agents stay in one. */
#define SIM_GROUPS 8u

int home_main(int argc, char **argv);
int engine_main(int argc, char **argv);
int driver_main(int argc, char **argv);

#endif
