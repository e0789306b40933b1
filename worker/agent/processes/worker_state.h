/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_state.h - a worker's process, from START to EXITED, as far as the agent knows it. Pure:
 * pids and times are given, and what is to be done is returned.
 *
 *   made -> its process is known -> READY -> its end is expected -> EXITED (gone)
 *
 * A rank's process is forked by a zygote, so the agent may learn the pid late: after it was told to
 * send a signal, and even after the process has died. A process may also close its socket, or be
 * killed, and not die: then its end is overdue. */
#ifndef WORKER_AGENT_PROCESSES_WORKER_STATE_H
#define WORKER_AGENT_PROCESSES_WORKER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "worker/agent/processes/death_cause.h"

struct worker_state {
    pid_t pid;            /* 0: not known yet */
    bool ready;           /* it has sent READY */
    bool gone;            /* EXITED was sent */
    struct death death;   /* of a process that ended before its pid was known */
    uint64_t end_due_ns;  /* when it should have ended; UINT64_MAX: no end is expected */
    uint64_t kill_due_ns; /* when SIGKILL is to follow another signal; UINT64_MAX: it is not */
    uint64_t sent;        /* bit n: we sent signal n */
    int later;            /* signal to send once the pid is known; 0: none */
    char broke[256];      /* how it broke the protocol; "": it did not */
};

enum worker_overdue {
    WORKER_GIVE_UP, /* nothing more will be known of it: EXITED is due */
    WORKER_WAIT,    /* it takes its time to die: a large heap, a core dump */
    WORKER_KILL,    /* its grace is over, or it closed its socket and lives */
};

void worker_state_init(struct worker_state *s);
/* May the signal be sent now? false: it is kept until the pid is known. */
bool worker_state_signal(struct worker_state *s, int signo);
/* Its pid is known now. death: what became of that process if it has ended already; NULL: no death
 * is known. Returns the signal that is to be sent now; 0: none. */
int worker_state_set_pid(struct worker_state *s, pid_t pid, const struct death *death,
                         uint64_t now_ns);
/* SIGKILL is to follow after this time. */
void worker_state_grace(struct worker_state *s, uint64_t grace_ms, uint64_t now_ns);
/* When something is to be done next; UINT64_MAX: nothing. */
uint64_t worker_state_due(const struct worker_state *s);
/* It should end soon. false: that was known. */
bool worker_state_expect_end(struct worker_state *s, uint64_t now_ns);
/* worker_state_due() is over. connected: its socket is still open. */
enum worker_overdue worker_state_overdue(struct worker_state *s, bool connected);
/* Did the agent itself kill it? */
bool worker_state_killed(const struct worker_state *s, const struct death *d);

#endif
