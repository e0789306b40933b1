/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.h - a worker: home, a rank, or a zygote. Its process, the agent's ends of its socket and
 * pipes, and the list of all workers. */
#ifndef WORKER_AGENT_PROCESSES_WORKER_H
#define WORKER_AGENT_PROCESSES_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "worker/agent/output/pipes.h"
#include "worker/agent/processes/stacks.h"
#include "worker/agent/processes/orders.h"
#include "worker/agent/processes/outbox.h"
#include "worker/agent/processes/death_cause.h"
#include "worker/agent/processes/worker_state.h"

struct agent;
struct gpu_allocations;

enum worker_role { WORKER_HOME, WORKER_RANK, WORKER_ZYGOTE };

/* All workers, and what they share. */
struct workers {
    struct worker *first; /* a list */
    struct agent *agent;  /* borrowed; only the agent's own files use it */
    struct pipes_io io;
    struct gpu_allocations *gpus; /* borrowed */
    const char *folder;           /* folder of workers' files; borrowed; NULL: there is none */
    struct strays strays;
    struct nccl_port nccl;
    /* owned; fires when a worker's end is overdue or its grace is over, see exited.c */
    struct watch *timer;
    uint64_t timer_due_ns; /* when it fires; UINT64_MAX: off */
    struct watch *stops;   /* owned; fires after workers were stopped or have gone on, see reap.c */
};

struct worker {
    struct workers *all; /* borrowed */
    struct worker *next;
    enum worker_role role;
    uint32_t id; /* the kernel's number; 0: a zygote */
    uint32_t rank;
    bool passing; /* it ends with its cell: the group may have a rank of the same number */
    char *python;
    struct worker_state state;

    int link_fd; /* the socket for messages; -1: ended */
    struct watch *link;
    struct outbox outbox; /* what waits for room in it */
    struct pipes pipes;
    struct stacks stacks;

    struct worker *zygote; /* of a rank that is not forked yet: its zygote; else NULL */
    struct orders orders;  /* of a zygote: what it has not been told yet */
};

/* Opens its socket and pipes and puts it on the list; `ends` are then the caller's. No process is
 * started. NULL: *err says why. */
struct worker *worker_create(struct workers *all, enum worker_role role, uint32_t id, uint32_t rank,
                             const char *python, struct worker_pipes *ends, struct err *err);
/* Its Python is another one. -1: memory is out. */
MUST_USE int worker_python(struct worker *w, const char *python);
/* Takes it off the list and closes everything; it is freed when the turn is over. */
void worker_retire(struct worker *w);
/* Frees it: when the turn is over, or the loop no longer runs. */
void worker_destroy(struct worker *w);

struct worker *worker_find(const struct workers *all, uint32_t id); /* NULL: none; never a zygote */
struct worker *worker_find_pid(const struct workers *all, pid_t pid); /* zygotes too */
/* The workers of a message's list (*u32), one after another: *at counts from 0. NULL: no more.
 * Unknown ones are left out. */
struct worker *worker_next(const struct workers *all, struct slice list, size_t *at);

void worker_set_pid(struct worker *w, pid_t pid);
/* To its process group; kept for later when the pid is not known yet. */
void worker_signal(struct worker *w, int signo);
/* Sends signo, and SIGKILL after grace_ms; 0: no SIGKILL follows. */
void worker_kill(struct worker *w, int signo, uint64_t grace_ms);
/* It should end soon. If it does not, exited.c ends it and sends EXITED. */
void worker_expect_end(struct worker *w);
void worker_unlink(struct worker *w); /* Closes its socket. It should end soon. */
/* It broke the protocol: it is killed, and EXITED says how. */
void worker_broke(struct worker *w, const char *format, ...) PRINTF_LIKE(2, 3);
/* "home", "worker 5 (rank 3)": for logs */
const char *worker_name(const struct worker *w, char out[static 48]);

/* ---- worker_io.c: what worker.c and the agent do to sockets, processes and timers ---- */
/* Sets what the loop watches by the state of credit, outbox and orders. */
void worker_watch(struct worker *w);
void worker_close_link(struct worker *w);
void worker_close(struct worker *w); /* its socket and pipes; also removes its files */
void worker_destroy_later(struct worker *w);
/* May this process be one of our ranks whose pid is not known yet? */
bool worker_may_be(const struct workers *all, pid_t pid);
void worker_signal_process(pid_t pid, int signo); /* to its group, once it has one */
/* Has the timer fire at due_ns, if not sooner. */
void worker_set_timer(struct workers *all, uint64_t due_ns);

/* ---- zygote.c: ranks are forked from a zygote, a Python that has imported already ---- */
/* README.md says what it is told. */

struct worker *zygote_find(const struct workers *all, const char *python); /* NULL: there is none */
/* Tells it to make w, whose ends these are; they are taken, also on failure. `start`: for this rank
 * alone. */
MUST_USE int zygote_order(struct worker *zygote, struct worker *w, struct worker_pipes *ends,
                          const struct span *start, struct err *err);
/* Forks all ranks that were ordered. */
MUST_USE int zygote_fork(struct worker *zygote, struct err *err);
/* A packet from it: READY, or which processes its ranks are. */
void zygote_says(struct worker *zygote, struct slice packet);

/* ---- zygote_io.c ---- */
/* Raises the limit of descriptors: a rank needs four, and eight while its order waits. */
void zygote_make_room(const struct workers *all);
void zygote_event(void *zygote, int fd, unsigned events); /* what the loop calls for its socket */
void zygote_read(struct worker *zygote);                  /* reads the packets that are there */

#endif
