/* SPDX-License-Identifier: BSD-3-Clause */
/* debug.h - joins the debuggers of all workers into one. Each worker has a debugger that speaks the
 * Debug Adapter Protocol (DAP). Clients see one debugger, in which each rank is a thread. Requests
 * are handled one at a time: they are forwarded, their answers combined, and the ids renumbered. */
#ifndef KERNEL_DEBUG_DEBUG_H
#define KERNEL_DEBUG_DEBUG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rank_set.h"
#include "base/slice.h"

struct debug;

#define DEBUG_HOME (-1) /* in place of a rank */

struct debug_ops {
    void *arg;
    /* sends a DEBUG; message is borrowed. -1: no answer will come */
    int (*send)(void *arg, uint32_t worker, const json_t *message);
    void (*event)(void *arg, json_t *event); /* takes it */
    /* a client's request begins; is answered, and released */
    void (*begin)(void *arg, void *request);
    void (*reply)(void *arg, void *request, json_t *content); /* takes content */
    void (*note)(void *arg, const char *text);                /* a line for the user */
};

/* prefix: how the file names of cells begin. NULL: memory is out. */
struct debug *debug_create(const struct debug_ops *ops, const char *prefix);
/* NULL is fine. Requests that were not answered are answered with {}. */
void debug_destroy(struct debug *d);

/* A worker is there; one that is known already is ignored. rank may be DEBUG_HOME. */
void debug_join(struct debug *d, uint32_t worker, long rank);
/* The worker has ended: its threads too. */
void debug_gone(struct debug *d, uint32_t worker, uint64_t now);

/* Handles a client's request; content is copied. If another client begins (`initialize`) while a
 * worker is stopped, all workers are released first. */
void debug_request(struct debug *d, void *request, const json_t *content, uint64_t now);
void debug_message(struct debug *d, uint32_t worker, json_t *message, uint64_t now);
void debug_tick(struct debug *d, uint64_t now);
uint64_t debug_due(const struct debug *d); /* UINT64_MAX: never */

bool debug_is_attached(const struct debug *d);
bool debug_is_stopped(const struct debug *d); /* home or a rank is stopped at a breakpoint */
bool debug_stands(const struct debug *d, uint32_t worker); /* this worker is stopped */
/* A worker will get the RUN of this cell, whose whole text this is. */
void debug_cell(struct debug *d, uint32_t worker, uint64_t cell, struct slice text);
/* If a worker is stopped, lets all workers continue, without breakpoints until the next cell.
 * Workers that have not answered `attach` are told, too, because they may stop soon. */
void debug_release(struct debug *d);
/* Each worker that is stopped continues, with all its threads, and stops at its next breakpoint.
 * Returns how many were told so. */
size_t debug_continue(struct debug *d);
/* Clients see this rank first. -1: it is not there. */
MUST_USE int debug_choose(struct debug *d, long rank);

#endif
