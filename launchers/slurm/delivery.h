/* SPDX-License-Identifier: BSD-3-Clause */
/* delivery.h - sends cellspan to nodes that lack it. All tasks of srun read the same stdin: so all
 * wait until each has said what it lacks, and then each reads the same. If they are many, sbcast
 * brings a file first, and stdin only what that has not brought. */
#ifndef LAUNCHERS_SLURM_DELIVERY_H
#define LAUNCHERS_SLURM_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"
#include "launchers/payload.h"
#include "launchers/slurm/sbcast.h"

struct delivery_task {
    bool known;    /* what it lacks is known, or it has ended, or it is late */
    bool up;       /* it runs */
    bool answered; /* it has said whether it lacks anything, and has not ended */
    bool busy;     /* its node gets an image, which takes as long as it takes */
    bool late; /* the others have begun without its answer: its first, or that to sbcast's file */
    char *version; /* owned: what another agent there says of itself; NULL: none is there */
    char *unsent;  /* owned: why cellspan can't be installed there; NULL: it can */
    struct payload_row *row; /* what it is sent; NULL: nothing */
};

/* A task won't come; text says why. */
typedef void (*delivery_failed_f)(void *arg, unsigned task, const char *text);

struct delivery {
    struct payload payload;
    struct loop *loop;       /* borrowed */
    int in;                  /* srun's stdin, borrowed; -1: it is closed */
    unsigned long job, step; /* the tasks' */
    bool on;                 /* the tasks wait for it */
    bool done;               /* all was put into the buffer */
    bool cast;               /* sbcast was tried */
    bool unfit;              /* a node has no folder for a file */
    char *why;               /* owned: what sbcast said; NULL: nothing */
    struct sbcast sbcast;
    struct delivery_task *task; /* owned; n of them */
    unsigned n;
    struct buf send; /* what is not written to srun's stdin yet */
    char *secret;    /* owned: the agents get it on stdin; NULL: they have it, or have got it */
    struct watch *watch, *limit;
    delivery_failed_f failed;
    void *arg;
};

#define DELIVERY_INIT { .payload = PAYLOAD_INIT, .in = -1, .sbcast = SBCAST_INIT }

void delivery_release(struct delivery *d);
/* The number of tasks is known. in: srun's stdin. failed is called for each that never
 * answers. -1: memory is out. */
MUST_USE int delivery_tasks(struct delivery *d, unsigned n, struct loop *loop, int in,
                            delivery_failed_f failed, void *arg);
void delivery_step(struct delivery *d, unsigned long job, unsigned long step);
void delivery_up(struct delivery *d, unsigned task);
/* Takes a line of a task's script, without its mark. */
void delivery_line(struct delivery *d, unsigned task, const char *word);
/* A task has ended, or has not come up: nobody waits for it. */
void delivery_without(struct delivery *d, unsigned task);
/* Writes why a task has ended, by srun's words. program, prefix: see script_missing(). */
void delivery_end(const struct delivery *d, unsigned task, const char *how, const char *program,
                  const char *prefix, char *text, size_t size);
/* The agents get the secret on stdin: call it before delivery_tasks(). -1: memory is out. */
MUST_USE int delivery_secret(struct delivery *d, const char *secret);
/* srun's stdin is about to be closed. */
void delivery_stop(struct delivery *d);

#endif
