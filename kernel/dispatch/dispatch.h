/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.h - runs the cells of one notebook at home or on ranks, and handles the loss of home,
 * ranks and nodes. Everything is sent through cell_ops. */
#ifndef KERNEL_DISPATCH_DISPATCH_H
#define KERNEL_DISPATCH_DISPATCH_H

#include "kernel/jupyter/channels.h"
#include "kernel/notebook/cell_ops.h"
#include "magics/plan.h"

struct notebook;

struct dispatch_config {
    const char *python;         /* home's interpreter, for START and WARM; copied */
    const char *python_version; /* for kernel_info before home is ready; copied */
    const char *run_id;         /* the first part of TORCHELASTIC_RUN_ID; copied */
    unsigned char key[32];      /* random bytes; tokens that strangers must not know come from it */
    /* the process id of Jupyter's server, which limits output, if it forwards our messages; else 0
     */
    long server;
    bool subshell_comms;         /* comm messages run in the subshell that they name */
    bool nccl_shares;            /* see struct place_want; --env has the last word */
    bool status;                 /* long cells show the status of their ranks */
    bool code;                   /* the notebook's own modules go to other machines */
    struct plan_defaults cells;  /* copied */
    uint64_t hang_notice_ns;     /* length of a wait after which hang.c or slow_answers.c shows a
                                    notice; 0: never */
    uint64_t gpu_idle_ns;        /* so long without a cell, and ranks with GPUs end; 0: never */
    bool gpu_park;               /* they are parked, if they can be */
    bool gpu_keep;               /* else they stay */
    unsigned gpu_quota;          /* GPUs of this machine that one user may hold; 0: all */
    const char *gpu_quota_place; /* where that is said; NULL: nowhere; borrowed */
    const char *notice;          /* lines for the user, shown with the first cell; or "" */
};

/* ops is copied; its pointers are borrowed and must live longer than the notebook. */
struct notebook *dispatch_create(const struct cell_ops *ops, const struct dispatch_config *config,
                                 struct err *err);
void dispatch_destroy(struct notebook *nb); /* NULL is fine */

void dispatch_request(struct notebook *nb, struct request *r); /* a request of a client; borrowed */
/* a message of an agent or a worker; borrowed */
void dispatch_message(struct notebook *nb, unsigned node, uint32_t worker, const struct span *m);
/* a node of an engine is ready, or has been shown as away (rank_events_away_changed()) */
void dispatch_up(struct notebook *nb, unsigned node);
/* the node's agent and all its workers are gone; `why` is for the user */
void dispatch_lost(struct notebook *nb, unsigned node, const char *why);
/* The node `by` comes in place of this one, which is lost. */
void dispatch_replaced(struct notebook *nb, unsigned node, unsigned by);
void dispatch_engine(struct notebook *nb, unsigned engine, enum engine_event event,
                     const char *text);
void dispatch_interrupt(struct notebook *nb); /* SIGINT or interrupt_request */
void dispatch_tick(struct notebook *nb);      /* the time given to wake() has come */

/* Under which request output of this type is shown that belongs to parent: under the cell that
 * runs, if parent's cell is over and its client shows no output of such cells. */
const struct request *dispatch_late_parent(const struct notebook *nb, const struct request *parent,
                                           const char *type);
enum occupied dispatch_is_occupied(const struct notebook *nb);
/* Bytes of output that wait here to be published. If there are many, workers get no credit back. */
size_t dispatch_waiting(const struct notebook *nb);

#endif
