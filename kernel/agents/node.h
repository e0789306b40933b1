/* SPDX-License-Identifier: BSD-3-Clause */
/* node.h - what the kernel knows about a node: a machine with one agent, on which ranks can run. */
#ifndef KERNEL_AGENTS_NODE_H
#define KERNEL_AGENTS_NODE_H

#include <stdbool.h>

#define NODE_HERE 0u /* this machine, where home runs */

enum node_state { NODE_ASKED, NODE_UP, NODE_LOST };

struct node {
    unsigned number; /* no number is used twice */
    enum node_state state;
    unsigned engine;       /* whose node it is; 0: the kernel itself started its agent */
    unsigned index;        /* among the nodes of its engine, from 0 */
    const char *name;      /* for people; "" until it is known */
    const char *address;   /* an IP that the engine's other nodes reach; "127.0.0.1" of NODE_HERE */
    const char *addresses; /* all of them, that one first: "IFNAME=IP,…"; NULL: not known */
    unsigned slots;        /* ranks that the engine wants there; 0: it does not say */
    long pid, cores;       /* pid: of the agent; 0: not known yet */
    uint64_t ends_ns;      /* when the time of its engine's job is over; 0: not known */
    bool full;             /* so much waits to be acknowledged that no new cell may add to it */
    bool leaving;          /* up, but its connection or its engine has ended: it is lost soon */
    bool may_hold_connections; /* it is lost, and perhaps nobody there could close them */
    bool shown_away;           /* up, but silent for so long that it is shown as away */
    uint64_t heard_ns;         /* if it is: since when it is silent */
    uint64_t until_ns;         /* if it is: when it is lost */
};

/* What the kernel is told about an engine. */

enum engine_event {
    ENGINE_SAYS,  /* text: for the user, while it starts */
    ENGINE_NODES, /* the number of its nodes is known now */
    /* It ended before its nodes were up, or they did not come up in time. text: the
     * reason, as the engine gave it. The engine has been stopped. */
    ENGINE_FAILED,
};

#endif
