/* part.h - the parts that the one program cellspan-sim plays, by the name under which it is called.
 * The kernel that it drives is the real one, and so are the lines between kernel and agents
 * (worker/agent/net/uplink.h); the agents' ranks are made up.
 *
 *   driver.c   the client: starts the kernel and sends it cells       options.c  cellspan-sim
 *   scenes.c   what is tested with it      figures.c  what is measured      usage.c  a process's
 *              time and memory
 *   home.c     this machine's agent with home in it (cellspan-agent)
 *   engine.c   the engine (cellspan-launch-sim), whose processes hold the agents
 *   host.c     one of these processes      agent.c  an agent in it      rank.c  a rank of it
 *              script.c  what it does
 */
#ifndef TESTS_SIM_PART_H
#define TESTS_SIM_PART_H

/* Processes that share the agents of an engine. It divides the tree's fan, so that links between
 * agents stay in one. */
#define SIM_GROUPS 8u

int home_main(int argc, char **argv);
int engine_main(int argc, char **argv);
int driver_main(int argc, char **argv);

#endif
