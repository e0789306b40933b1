/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.h - %ranks and its commands, and the notices about ranks that wait for each other or are
 * stopped. check.h has %ranks check. Functions are named as in kernel/cell/cell.h. */
#ifndef KERNEL_RANKS_RANKS_H
#define KERNEL_RANKS_RANKS_H

#include "kernel/cell/cell.h"

/* ---- debug_rank.c ---- */
/* Answers `%ranks debug` at once, because the running cell may be stopped at a breakpoint. false: r
 * must wait in the queue. */
bool debug_rank_request(struct notebook *nb, struct request *r);

/* ---- rank_table.c ---- */
/* The step of %ranks; also for a call that is no step, see kernel/dispatch/immediate.c. */
void rank_table_begin(struct cell *c);
enum cell_outcome rank_table_poll(struct cell *c); /* CELL_DONE: the table is shown */
void rank_table_overview(struct notebook *nb, struct request *r); /* cellspan_overview_request */

/* ---- where.c ---- */
/* Answers a request beside the cell that runs. ename: of an error, or NULL. */
void ranks_answer(struct notebook *nb, struct request *r, unsigned count, const char *ename,
                  const char *evalue);
/* Answers a `%ranks where` while another cell runs. false: r must wait in the queue. */
bool where_request(struct notebook *nb, struct request *r);
/* a STACK; false: %ranks where has not asked for it */
bool where_on_stack(struct notebook *nb, uint32_t worker, const struct span *m);
void where_tick(struct notebook *nb);
uint64_t where_due(const struct notebook *nb);
void where_release(struct notebook *nb);

/* ---- hang.c ---- */
enum sample_waits { WAITS_NOT, WAITS_FOR_GPU, WAITS_IN_COLLECTIVE };

/* Has it launched a collective that another rank of the process group has not? (collectives.c) */
enum sample_ahead { AHEAD_NOT, AHEAD, AHEAD_OF_ENDED /* that rank has ended the cell */ };

/* What a rank has answered when it was last asked where it is (hang.c). */
struct stack_sample {
    bool answered;           /* the last question */
    enum member_state state; /* that it had when it answered */
    char *place;             /* owned: where it was, or NULL */
    uint64_t place_ns;       /* since when it has been there */
    enum sample_waits waits; /* what it waits for there */
    bool stopped;            /* its process is stopped, as its agent says */
    bool reported;           /* a notice has said that it is stopped, or silent */
    uint64_t heard_ns;       /* when it last answered, or was first asked; 0: never */
    bool joins;              /* it makes a process group, and waits for other ranks to come */
    /* the collective of torch's for which it certainly waits: a bit for each that it may be; 0: it
     * may wait for none */
    unsigned operation;
    bool alone;     /* only its main thread launches collectives, all of them of one group */
    char *launched; /* owned: the lines about its process groups, or NULL */
    char *call; /* owned: the collective in which it is, "all_reduce of float32 (4,)", or NULL */
    char *called_in; /* owned: the group of that collective, if there are several; else NULL */
    bool sent;       /* it has sent to a rank or received from one, so its counts prove little */
    bool counts;     /* the answer had these lines, and they can't change any more */
    enum sample_ahead ahead;    /* when all had answered */
    uint64_t cpu_ns, cpu_at_ns; /* its main thread's CPU time, and when it was so; 0: unknown */
};

void hang_begin(struct cell *c);
uint64_t hang_due(const struct cell *c);
void hang_release(struct cell *c);
void hang_tick(struct cell *c, uint64_t now);
/* a STACK; false: hang.c has not asked for it */
bool hang_on_stack(struct cell *c, uint32_t worker, const struct span *m);
/* a rank asks the user for a line: ranks that wait meanwhile do not hang */
void hang_put_off(struct cell *c);

/* ---- stopped_ranks.c ---- */
/* Says once which ranks have been stopped for limit_ns, as by SIGSTOP. true: some have been. */
bool stopped_ranks_tell(struct cell *c, uint64_t now, uint64_t limit_ns);
/* Says once of which ranks nothing was heard for limit_ns: their agents don't answer. */
void silent_ranks_tell(struct cell *c, uint64_t now, uint64_t limit_ns);

/* ---- collectives.c ---- */
/* Keeps what a rank's answer to STACKS says of its process groups, and whether it is in a
 * collective. true: it has launched collectives since the last answer. */
bool collectives_note(struct member *m, const char *stack, uint64_t now);
/* Sets the rank's `collective`, for the status: it has rested at its place so long. */
void collectives_rest(struct member *m, uint64_t rested_ns, uint64_t least_ns);
void collectives_compare(struct cell *c); /* sets `ahead` of the ranks that run, for one sample */
/* Does each rank that runs the cell certainly wait for one that is not in the cell? */
bool collectives_need_absent(const struct cell *c);
/* Do all ranks of the one process group certainly wait in collectives that don't fit together? */
bool collectives_differ(const struct cell *c);
/* Adds `before` and what the ranks call for the collective in which `waiting` is: "rank 0 in
 * all_reduce of float32 (2,), rank 1 in all_reduce of float32 (4,); rank 2 has left it". Nothing,
 * if nobody knows, or they call the same and `also_equal` is false. If there are several process
 * groups, the calls of all ranks in collectives, as "rank 0 in all_reduce of float32 (2,) with
 * ranks 0-1, which rank 1 has not called". */
int collectives_add_calls(const struct cell *c, const struct member *waiting, const char *before,
                          bool also_equal, struct buf *out);

/* ---- rank_code.c ---- */
/* The step of %ranks code; also for a cell that is no step, as rank_logs.c. */
void rank_code_begin(struct cell *c);
enum cell_outcome rank_code_poll(struct cell *c); /* CELL_DONE: home has answered */
void rank_code_timed_out(struct cell *c);
void rank_code_on_found(struct cell *c, const struct span *found); /* home's FOUND */

/* ---- rank_logs.c ---- */
struct rank_logs;
/* The step of %ranks logs; also for a cell that is no step, see kernel/dispatch/immediate.c. */
void rank_logs_begin(struct cell *c);
enum cell_outcome rank_logs_poll(struct cell *c); /* CELL_DONE: all is shown */
void rank_logs_timed_out(struct cell *c);         /* the time of cell_limit_step() has come */
void rank_logs_on_logs(struct cell *c, unsigned node, const struct span *m);
void rank_logs_lost(struct cell *c, unsigned node);
void rank_logs_free(struct rank_logs *l);

#endif
