/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/worker_state.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"

/* how long a worker whose process is not known may live on after its socket has ended */
#define UNKNOWN_NS (300 * NS_PER_MS)
#define KNOWN_NS   NS_PER_S /* until a process that closed its socket is killed */

void worker_state_init(struct worker_state *s)
{
    *s = (struct worker_state){ .death = DEATH_UNKNOWN,
                                .end_due_ns = UINT64_MAX,
                                .kill_due_ns = UINT64_MAX };
}

bool worker_state_signal(struct worker_state *s, int signo)
{
    if (s->pid > 0) {
        s->sent |= UINT64_C(1) << (unsigned)signo;
        return true;
    }
    if (s->later != SIGKILL)
        s->later = signo;
    return false;
}

int worker_state_set_pid(struct worker_state *s, pid_t pid, const struct death *death,
                         uint64_t now_ns)
{
    s->pid = pid;
    if (death) {
        s->death = *death;
        s->end_due_ns = now_ns;
    }
    return s->later;
}

void worker_state_grace(struct worker_state *s, uint64_t grace_ms, uint64_t now_ns)
{
    s->kill_due_ns = grace_ms > UINT64_MAX / 2 / NS_PER_MS ? UINT64_MAX / 2
                                                           : now_ns + grace_ms * NS_PER_MS;
}

uint64_t worker_state_due(const struct worker_state *s)
{
    return clock_earlier(s->end_due_ns, s->kill_due_ns);
}

bool worker_state_expect_end(struct worker_state *s, uint64_t now_ns)
{
    if (s->end_due_ns != UINT64_MAX || s->gone)
        return false;
    s->end_due_ns = now_ns + (s->pid ? KNOWN_NS : UNKNOWN_NS);
    return true;
}

enum worker_overdue worker_state_overdue(struct worker_state *s, bool connected)
{
    if (s->kill_due_ns < s->end_due_ns) {
        s->kill_due_ns = UINT64_MAX;
        return WORKER_KILL;
    }
    s->end_due_ns = UINT64_MAX;
    if (s->pid == 0 || s->death.known)
        return WORKER_GIVE_UP;
    if (connected)
        return WORKER_WAIT;
    if (!s->broke[0])
        snprintf(s->broke, sizeof s->broke, "it closed its connection to the agent");
    return WORKER_KILL;
}

bool worker_state_killed(const struct worker_state *s, const struct death *d)
{
    if (s->pid == 0)
        return s->later != 0;
    return d->code == EXITED_SIGNAL && d->status > 0 && d->status < 64 &&
           (s->sent >> (unsigned)d->status & 1);
}
