/* losses.c - who is gone: children that ended, connections that ended, nodes that are silent. */
#include <signal.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/orphans.h"
#include "kernel/agents/room.h"

#define SWEEPS   20 /* looks for what a lost agent left; its workers take a moment to die */
#define SWEEP_NS (100 * NS_PER_MS)

static void forget_credit(struct agents *a, unsigned node)
{
    for (size_t k = a->credit.n; k > 0; k--) {
        const uint32_t worker = a->credit.row[k - 1].worker;

        if (links_where(&a->links, worker) == node)
            credit_forget(&a->credit, worker);
    }
}

void losses_node(struct agents *a, struct link *l, const char *why)
{
    link_lost(l);
    forget_credit(a, l->number);
    a->handler.lost(a->handler.arg, l->number, why);
}

void losses_parted(void *agents, struct router *r, int fd)
{
    (void)agents, (void)r, (void)fd;
}

/* ---- children ---- */

static void here_ended(struct agents *a, int status)
{
    char why[320];

    router_drain(a->here); /* what it said last comes first */
    local_ended(&a->local, status, why, sizeof why);
    orphans_kill(0);
    a->sweeps = SWEEPS;
    loop_timer_again(a->sweep, SWEEP_NS);
    losses_node(a, links_get(&a->links, NODE_HERE), why);
}

static void sweep(struct loop *loop, void *arg)
{
    struct agents *a = arg;

    (void)loop;
    orphans_kill(a->local.pid);
    if (--a->sweeps > 0)
        loop_timer_again(a->sweep, SWEEP_NS);
}

static void child_ended(struct loop *loop, void *arg)
{
    struct agents *a = arg;
    int status;
    pid_t pid;

    (void)loop;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == a->local.pid)
            here_ended(a, status);
}

int losses_watch(struct agents *a, struct err *err)
{
    if (!(a->sweep = loop_timer(a->loop, SWEEP_NS, 0, sweep, a, err)) ||
        !(a->child = loop_signal(a->loop, SIGCHLD, child_ended, a, err)))
        return -1;
    loop_timer_off(a->sweep);
    return 0;
}

void losses_unwatch(struct agents *a)
{
    watch_stop(a->child);
    watch_stop(a->sweep);
    a->child = a->sweep = NULL;
}
