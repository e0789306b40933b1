/* SPDX-License-Identifier: BSD-3-Clause */
/* delivery.h - sends cellspan to nodes that lack it. All tasks of srun read the same stdin: so all
 * wait until each has said what it lacks, and then each reads the same. */
#ifndef LAUNCHERS_SLURM_DELIVERY_H
#define LAUNCHERS_SLURM_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"
#include "launchers/payload.h"

struct delivery_task {
    bool known;    /* what it lacks is known, or it has ended */
    bool lacking;  /* it waits for cellspan */
    char *version; /* owned: what another agent there says of itself; NULL: none is there */
    char *unsent;  /* owned: why cellspan can't be installed there; NULL: it can */
    struct payload_row *row; /* what it is sent; NULL: nothing */
};

struct delivery {
    struct payload payload;
    bool on;                    /* the tasks wait for it */
    bool done;                  /* all was put into the buffer */
    struct delivery_task *task; /* owned; n of them */
    unsigned n;
    struct buf send; /* what is not written to srun's stdin yet */
    struct watch *watch;
};

#define DELIVERY_INIT { .payload = PAYLOAD_INIT }

void delivery_release(struct delivery *d);
/* The number of tasks is known. -1: memory is out. */
MUST_USE int delivery_tasks(struct delivery *d, unsigned n);
/* Takes a line of a task's script, without its mark. in: srun's stdin; -1: it is closed. */
void delivery_line(struct delivery *d, struct loop *loop, int in, unsigned task, const char *word);
/* A task has ended, or has not come up: nobody waits for it. */
void delivery_without(struct delivery *d, struct loop *loop, int in, unsigned task);
/* Writes why a task has ended, by srun's words. program, prefix: see script_missing(). */
void delivery_end(const struct delivery *d, unsigned task, const char *how, const char *program,
                  const char *prefix, char *text, size_t size);
/* srun's stdin is about to be closed. */
void delivery_stop(struct delivery *d);

#endif
