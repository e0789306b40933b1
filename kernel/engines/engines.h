/* SPDX-License-Identifier: BSD-3-Clause */
/* engines.h - the processes that the kernel starts: engines (cellspan-launch-NAME), which start
 * agents on other machines, and this machine's own agent, which starts home. */
#ifndef KERNEL_ENGINES_ENGINES_H
#define KERNEL_ENGINES_ENGINES_H

#include "kernel/agents/agents.h"

struct engines;

typedef void (*engine_event_f)(void *arg, unsigned engine, enum engine_event event,
                               const char *text);

struct engines_config {
    struct agents *agents; /* borrowed */
    const char *python;    /* home's interpreter; copied */
    engine_event_f event;
    void *arg;
};

/* Starts this machine's agent. */
struct engines *engines_create(struct loop *loop, const struct engines_config *config,
                               struct err *err);
/* Asks all agents to end, waits for them and for the engines, and kills what is left then. NULL is
 * fine. */
void engines_destroy(struct engines *e);

/* Starts this machine's agent again after it was lost. */
MUST_USE int engines_restart_here(struct engines *e, struct err *err);
/* Runs `cellspan-launch-NAME --spec SPEC --ranks N`; *engine is its number. ranks 0: the user gave
 * no number. The events follow. */
MUST_USE int engines_start(struct engines *e, const char *name, const char *spec, unsigned ranks,
                           unsigned *engine, struct err *err);
/* Ends its agents and itself; no event follows. */
void engines_stop(struct engines *e, unsigned engine);
/* Its nodes are first to first+n-1. n 0: it has not said yet, or there is no such engine. */
void engines_nodes(const struct engines *e, unsigned engine, unsigned *first, unsigned *n);
/* A node is up, or lost, as the agents' handler was told. */
void engines_node_changed(struct engines *e, unsigned node);

/* ---- engine_find.c ---- */
/* Finds an engine: the executable cellspan-launch-NAME, in cellspan's own folder or on PATH. */

/* The path of the executable, to be freed by the caller. NULL: *err lists the engines, and names
 * the one that was probably meant. */
char *engine_find(const char *name, struct err *err);

#endif
