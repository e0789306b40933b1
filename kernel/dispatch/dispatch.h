/* dispatch.h - one notebook's state and the order of its cells: what waits, what runs at home, what
 * runs on ranks, and what becomes of all of it when somebody dies. It decides; cell_ops send. */
#ifndef KERNEL_DISPATCH_DISPATCH_H
#define KERNEL_DISPATCH_DISPATCH_H

#include "kernel/notebook/cell_ops.h"

struct notebook;

struct dispatch_config {
    const char *python;         /* home's interpreter, for START and WARM; copied */
    const char *python_version; /* for kernel_info before home is ready; copied */
    const char *run_id;         /* TORCHELASTIC_RUN_ID's first part; copied */
    bool page;                  /* Jupyter's server stands between us and the page */
};

/* ops is copied; what it points to is borrowed and outlives the notebook. */
struct notebook *dispatch_create(const struct cell_ops *ops, const struct dispatch_config *config,
                                 struct err *err);
void dispatch_destroy(struct notebook *nb); /* NULL is fine */

/* from a client; borrowed */
void dispatch_request(struct notebook *nb, struct request *r);
/* from an agent or a worker; borrowed */
void dispatch_message(struct notebook *nb, unsigned node, uint32_t worker, const struct span *m);
/* an engine's node can be used */
void dispatch_up(struct notebook *nb, unsigned node);
/* the agent and all its workers are gone */
void dispatch_lost(struct notebook *nb, unsigned node, const char *why);
void dispatch_engine(struct notebook *nb, unsigned engine, enum engine_event event,
                     const char *text);
/* SIGINT or interrupt_request */
void dispatch_interrupt(struct notebook *nb);
/* the time given to wake() has come */
void dispatch_tick(struct notebook *nb);

/* a cell is under way */
bool dispatch_is_occupied(const struct notebook *nb);

/* Bytes of output that wait within for their turn: while they are many, workers get no credit
 * back. */
size_t dispatch_waiting(const struct notebook *nb);

#endif
