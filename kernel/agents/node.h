/* node.h - what the kernel knows of a machine on which ranks may run, and how an engine's run goes
 * on. */
#ifndef KERNEL_AGENTS_NODE_H
#define KERNEL_AGENTS_NODE_H

#define NODE_HERE 0u /* this machine, where home runs */

enum node_state { NODE_ASKED, NODE_UP, NODE_LOST };

struct node_info {
    enum node_state state;
    unsigned engine;       /* the run that it belongs to; 0: this machine's own agent */
    unsigned index;        /* within the run */
    const char *name;      /* for people; "" until it is known */
    const char *address;   /* an IP that the run's other nodes reach; "127.0.0.1" of NODE_HERE */
    const char *addresses; /* all of them, that one first: "IFNAME=IP,…"; NULL: not known */
    unsigned slots;        /* ranks that the engine wants there; 0: it does not say */
    long pid, cores;       /* of the agent; 0: not known yet */
};

enum engine_event {
    ENGINE_SAYS,  /* text: for the user, while it starts */
    ENGINE_NODES, /* how many there will be is known now */
    /* It ended before its nodes were up, or never came up: text says why, in the engine's words. It
     * is gone. */
    ENGINE_FAILED,
};

#endif
