/* SPDX-License-Identifier: BSD-3-Clause */
/* engines.h - the processes that the kernel starts: engines (cellspan-launch-NAME), which start
 * agents on other machines, and this machine's own agent, which starts home. */
#ifndef KERNEL_ENGINES_ENGINES_H
#define KERNEL_ENGINES_ENGINES_H

#include <jansson.h>

#include "kernel/agents/agents.h"

struct engines;

typedef void (*engine_event_f)(void *arg, unsigned engine, enum engine_event event,
                               const char *text);

/* Another machine comes in place of a node, which is lost: the node `by`, which is not up yet. */
typedef void (*engine_replaced_f)(void *arg, unsigned node, unsigned by);

struct engines_config {
    struct agents *agents; /* borrowed */
    const char *python;    /* home's interpreter; copied */
    engine_event_f event;
    engine_replaced_f replaced;
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
/* Runs `cellspan-launch-NAME --spec SPEC --ranks N --in IMAGE`; *engine is its number. image NULL:
 * agents run in no container. ranks 0: the user gave no number. changes: what home has changed in
 * its environment since it started, {name: value}, with null for a name that it has deleted; NULL:
 * nothing. The events follow. */
MUST_USE int engines_start(struct engines *e, const char *name, const char *spec, const char *image,
                           unsigned ranks, const json_t *changes, unsigned *engine,
                           struct err *err);
/* Ends its agents and itself; no event follows. */
void engines_stop(struct engines *e, unsigned engine);
/* Its nodes are first to first+n-1, without those that came in place of others. n 0: it has not
 * said yet, or there is no such engine. */
void engines_nodes(const struct engines *e, unsigned engine, unsigned *first, unsigned *n);
/* For how many ranks it was started, if it has no more room because of that, and would have it
 * after a start for more; else 0. */
unsigned engines_ranks(const struct engines *e, unsigned engine);
/* A node is up, or lost, as the agents' handler was told. */
void engines_node_changed(struct engines *e, unsigned node);

/* ---- engine_find.c ---- */
/* Finds an engine: the executable cellspan-launch-NAME, in cellspan's own folder or on PATH, or
 * else the module cellspan._launch.NAME of the Python package. */

/* Both are owned; one is NULL. */
struct engine_program {
    char *path;    /* of the executable */
    char *package; /* the folder with the package cellspan */
};

#define ENGINE_PROGRAM_INIT { NULL, NULL }

/* -1: *err lists the engines, and names the one that was probably meant. */
MUST_USE int engine_find(const char *name, struct engine_program *program, struct err *err);
void engine_program_release(struct engine_program *program);

#endif
