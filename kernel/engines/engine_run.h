/* engine_run.h - one engine from its start to its end: until when its nodes must be up, and why it
 * failed. Private to kernel/engines and its tests. */
#ifndef KERNEL_ENGINES_ENGINE_RUN_H
#define KERNEL_ENGINES_ENGINE_RUN_H

#include "kernel/engines/engine_process.h"
#include "kernel/engines/engines.h"
#include "protocol/keys.h"

struct engine_run {
    unsigned number;
    char *name;
    struct agents *agents; /* borrowed */
    const char *endpoints; /* where its agents dial; borrowed from agents */
    engine_event_f event;
    void *arg;
    const struct clock *clock; /* borrowed */
    struct engine_process *process;
    struct secret secret;
    unsigned first, n; /* its nodes; n 0: not said yet */
    uint64_t start_ns; /* how long its nodes may take to come up */
    /* Until then they must be up. UINT64_MAX: they are, or the engine waits in a queue. */
    uint64_t deadline_ns;
    bool stopped;     /* no event follows */
    bool ended;       /* its process has */
    struct buf words; /* why it ended */
};

/* In engines.c. NULL: there is none any more. */
struct engine_run *engines_run(const struct engines *e, unsigned number);
void engine_run_free(struct engine_run *run); /* NULL is fine */

/* In engine_nodes.c. Handler of the engine's process; run is its struct engine_run. */
void engine_nodes_said(void *run, const struct engine_line *said);

/* Its nodes have the start time again from now on; no deadline if all are up. */
void engine_run_restart_clock(struct engine_run *run);
/* The engine waits in a queue: there is no deadline until something happens. */
void engine_run_stop_clock(struct engine_run *run);
/* A node is up or lost. */
void engine_run_node_changed(struct engine_run *run, const struct node *node);
/* Fails the run if the deadline is over. */
void engine_run_look(struct engine_run *run, uint64_t now);

/* Ends its agents and its process. */
void engine_run_stop(struct engine_run *run);
/* The same, and the event ENGINE_FAILED. */
void engine_run_fail(struct engine_run *run, const char *why);
/* Its process has ended. If all nodes were up, they are lost one by one, with the engine's words.
 */
void engine_run_ended(struct engine_run *run, int status);

#endif
