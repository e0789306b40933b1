/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h - an agent of real code without sockets, processes and a clock, and the line between it and
 * the notebook of kernel/double.h. Messages wait until sim_turn() brings them where they go, so
 * nothing is handled within the call that sent it, as in the program. seam.c has the functions that
 * a simulator has to provide; sim.c plays processes, time and the line.
 *
 * One at a time: the provided functions find it in `sim`. */
#ifndef TESTS_UNIT_AGENT_SIM_H
#define TESTS_UNIT_AGENT_SIM_H

#include "protocol/span_fields.h"
#include "tests/unit/kernel/double.h"
#include "worker/agent/agent.h"
#include "worker/agent/blobs/transfers.h"
#include "worker/agent/private.h"

#define SIM_CHILDREN 16u
#define SIM_LINK     5000 /* the number of the first child's socket; the next child's is one more */

struct sim_message; /* on its way */

/* The other side of a worker's socket and pipes. */
struct sim_child {
    pid_t pid;                /* 0: there is no process */
    int signo;                /* it has died by this signal, which the agent does not know yet */
    int ends;                 /* sockets and pipes that the agent has open at either side */
    bool watched;             /* the agent has something to send */
    bool ordered;             /* its zygote is to fork it */
    bool hung_up;             /* it has closed its socket */
    struct sim_message *said; /* what it has sent and the agent has not read */
    struct buf printed[2];    /* the same of its pipes */
};

struct sim {
    struct world *w; /* borrowed: the kernel */
    struct agent agent;
    struct transfers *transfers;
    struct transfers_ops ops;
    unsigned node;
    struct sim_child child[SIM_CHILDREN];
    unsigned children;
    pid_t pids;                    /* the last one */
    struct sim_message *down, *up; /* between kernel and agent */
    struct worker *retired;        /* a list */
    path_probe_f probed;           /* waits for an answer; NULL: nothing does */
    gpu_known_f looked;
    void *probe, *look;
    /* a line for what left the agent: "to 2: RUN ", "from 3: EXITED cause", "signal 9 to 3" */
    struct buf log;

    /* NULL: messages between kernel and agent are there at once. Else this is called for each one,
     * and whoever sets it counts in `come` those that may be handled now. */
    void (*carry)(void *arg, bool up, size_t size);
    void *carry_arg;
    unsigned come[2]; /* down, up */

    /* for tests to set */
    bool full;     /* workers' sockets have no room */
    bool idle;     /* the zygote reads no orders */
    bool silent;   /* the zygote does not say which processes its ranks are */
    bool mute;     /* ranks do not say READY */
    bool stubborn; /* nobody dies of SIGKILL */
};

extern struct sim *sim;

/* The agent of `node` beside a notebook that has just been opened. On node 0, home is its worker
 * and ready. */
void sim_open(struct sim *s, struct world *w, const struct clock *clock, unsigned node);
bool sim_close(struct sim *s); /* false: the agent has left sockets or pipes open */
/* Everything goes where it goes, until nothing is on its way. */
void sim_turn(struct sim *s);
void sim_pass(struct sim *s, uint64_t ns);     /* in steps: what is due first comes first */
void sim_run(struct sim *s, const char *code); /* a client's cell, with an empty log of the world */

/* What processes do; sim_turn() brings it to the agent. */
void sim_says(struct sim *s, uint32_t worker, struct span m, int blob_fd); /* takes blob_fd */
void sim_prints(struct sim *s, uint32_t worker, unsigned stream, const char *text);
void sim_ready(struct sim *s, uint32_t worker);
void sim_done(struct sim *s, uint32_t worker, const char *status, const char *content,
              const char *result);
void sim_hangs_up(struct sim *s, uint32_t worker);        /* it closes its socket, and lives */
void sim_dies(struct sim *s, uint32_t worker, int signo); /* 0: the zygote */
/* Home has found the variables that the cell reads. */
void sim_captured(struct sim *s, const char *names);

/* What a kernel tells this agent besides what the notebook does: m.worker is the receiver. */
void sim_tells(struct sim *s, struct span m);

bool sim_logged(struct sim *s, const char *text); /* says what there is when it is not */

/* ---- for seam.c ---- */
struct sim_child *sim_child_of(const struct worker *w);
void sim_note(const char *format, ...) PRINTF_LIKE(1, 2);
void sim_to_kernel(uint32_t worker, struct slice msg);
int sim_to_worker(struct sim_child *c, struct slice msg, int blob_fd); /* 1: there is no room */
void sim_read_pipes(struct pipes *p);   /* the agent reads all that they hold */
void sim_read_socket(struct worker *w); /* the same of its socket */

#endif
