/* SPDX-License-Identifier: BSD-3-Clause */
/* A notice under home's cells while home's process is stopped, as by SIGSTOP: such a process shows
 * no error, and an interrupt does not reach its Python. */
#include <stdio.h>

#include "base/log.h"
#include "kernel/dispatch/private.h"

void stopped_home_on_gauges(struct notebook *nb)
{
    if (!rank_usage_is_suspended(nb, NODE_HERE, SPAN_WORKER_HOME))
        nb->home.suspended_ns = 0;
    else if (!nb->home.suspended_ns)
        nb->home.suspended_ns = notebook_now(nb);
}

/* The agent tells a little later that home goes on. */
#define NEWS_NS NS_PER_S

static uint64_t due_of(const struct notebook *nb, const struct asked *a)
{
    const uint64_t stopped = nb->home.suspended_ns + nb->config.hang_notice_ns;

    if (!a->execute || a->told_suspended || !nb->home.suspended_ns || !nb->config.hang_notice_ns)
        return NEVER;
    return stopped > a->asked_ns + NEWS_NS ? stopped : a->asked_ns + NEWS_NS;
}

uint64_t stopped_home_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct asked *a = nb->home.asked; a; a = a->next)
        due = clock_earlier(due, due_of(nb, a));
    return due;
}

void stopped_home_tick(struct notebook *nb)
{
    const uint64_t now = notebook_now(nb);
    char line[200];

    if (now < stopped_home_due(nb))
        return;
    snprintf(
        line, sizeof line,
        "cellspan: for over %.4g s home has been suspended, as by SIGSTOP: kill -CONT %ld lets "
        "it go on\n",
        clock_whole_seconds(now - nb->home.suspended_ns), nb->home.pid);
    for (struct asked *a = nb->home.asked; a; a = a->next) {
        if (now < due_of(nb, a))
            continue;
        publish_stream(nb, a->r, 2, slice_text(line));
        a->told_suspended = true;
    }
}
