/* SPDX-License-Identifier: BSD-3-Clause */
/* A notice about a cell that waits for an answer of home, or of ranks that compare their variables,
 * before or after ranks run it. Either they have much to do, or their processes are stopped. And
 * one under home's own cells while home's process is stopped: it shows no error, and an interrupt
 * does not reach its Python. */
#include <stdio.h>

#include "base/log.h"
#include "kernel/cell/live_status.h"
#include "kernel/cell/slow_answers.h"

/* What home was asked; NULL: nothing. */
static const char *asked_of_home(const struct cell *c)
{
    if (c->now.step->phase == CELL_RUNS || c->bad)
        return NULL;
    return c->from.wants_line                         ? "what {…} and $ on the first line mean"
           : c->prep.wants_capture                    ? "which variables the cell reads"
           : c->send.bundles.sent < c->send.bundles.n ? "that the variables are packed"
           : c->bind.waiting                          ? "whether it has the result"
                                                      : NULL;
}

static bool waits_for_ranks(const struct cell *c)
{
    return !c->bad && ranks_count(&c->send.comparing) > 0;
}

uint64_t slow_answers_due(const struct cell *c)
{
    const uint64_t ns = c->nb->config.hang_notice_ns;

    if (!ns || c->now.since_ns == NEVER || (!asked_of_home(c) && !waits_for_ranks(c)))
        return NEVER;
    return c->now.since_ns + ns;
}

/* Before the options are known, the cell has no output of its own. */
static void tell(struct cell *c, uint64_t waited_ns, const char *who, const char *what)
{
    const double s = clock_whole_seconds(waited_ns);
    struct buf line = BUF_INIT;

    if (output_is_open(c))
        output_note(c, SLOW_ANSWER, s, who, what);
    else if (c->from.request && buf_addf(&line, "cellspan: " SLOW_ANSWER "\n", s, who, what) == 0)
        publish_stream(c->nb, c->from.request, 2, buf_slice(&line));
    buf_release(&line);
}

void slow_answers_tick(struct cell *c, uint64_t now)
{
    const char *what = asked_of_home(c);
    const uint64_t since = c->now.since_ns;
    struct buf who = BUF_INIT;

    if (now < slow_answers_due(c))
        return;
    c->now.since_ns = NEVER;
    if (what)
        tell(c, now - since, "home", what);
    else if (ranks_format_words(&c->send.comparing, &who) == 0)
        tell(c, now - since, who.p, "whether they changed variables of home");
    else
        log_warn("cell", "out of memory");
    buf_release(&who);
}

/* ---- home's own cells ---- */

/* The agent tells a little later that home goes on. */
#define NEWS_NS NS_PER_S

static uint64_t due_of(const struct notebook *nb, const struct asked *a)
{
    const uint64_t since = rank_usage_home_suspended(nb, NULL);
    const uint64_t stopped = since + nb->config.hang_notice_ns;

    if (!a->execute || a->told_suspended || !since || !nb->config.hang_notice_ns)
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
    long pid = 0;
    const uint64_t since = rank_usage_home_suspended(nb, &pid);

    if (now < stopped_home_due(nb))
        return;
    snprintf(
        line, sizeof line,
        "cellspan: for over %.4g s home has been suspended, as by SIGSTOP: kill -CONT %ld lets "
        "it go on\n",
        clock_whole_seconds(now - since), pid);
    for (struct asked *a = nb->home.asked; a; a = a->next) {
        if (now < due_of(nb, a))
            continue;
        publish_stream(nb, a->r, 2, slice_text(line));
        a->told_suspended = true;
    }
}
