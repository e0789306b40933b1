/* notebook.h - one notebook's state and the order of its cells: what waits, what runs at home, what
 * runs on ranks, and what becomes of all of it when somebody dies. Decides; the doors send. */
#ifndef KERNEL_CELL_NOTEBOOK_H
#define KERNEL_CELL_NOTEBOOK_H

#include "kernel/cell/doors.h"

struct notebook;

struct notebook_config {
    const char *python;         /* home's interpreter, for START and WARM; copied */
    const char *python_version; /* for kernel_info before home is ready; copied */
    const char *run_id;         /* TORCHELASTIC_RUN_ID's first part; copied */
    bool page;                  /* Jupyter's server stands between us and the page */
};

/* doors is copied; what it points to is borrowed and outlives the notebook. */
struct notebook *notebook_create(const struct doors *doors, const struct notebook_config *config,
                                 struct err *err);
void notebook_destroy(struct notebook *nb); /* NULL is fine */

/* from a client; borrowed */
void notebook_request(struct notebook *nb, struct request *r);
/* from an agent or a worker; borrowed */
void notebook_message(struct notebook *nb, unsigned node, uint32_t worker, const struct span *m);
/* an engine's node can be used */
void notebook_up(struct notebook *nb, unsigned node);
/* the agent and all its workers are gone */
void notebook_lost(struct notebook *nb, unsigned node, const char *why);
void notebook_engine(struct notebook *nb, unsigned engine, enum engine_event event,
                     const char *text);
/* SIGINT or interrupt_request */
void notebook_interrupt(struct notebook *nb);
/* the time given to wake() has come */
void notebook_tick(struct notebook *nb);

/* a cell is under way */
bool notebook_is_occupied(const struct notebook *nb);

/* Bytes of output that wait within for their turn: while they are many, workers get no credit
 * back. */
size_t notebook_waiting(const struct notebook *nb);

#endif
