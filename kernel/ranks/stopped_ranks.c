/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices about ranks that do not answer while they run a cell, because their processes or their
 * agents are stopped. Without a notice nobody would know why the cell does not end: a process that
 * is stopped shows no error. */
#include "base/log.h"
#include "kernel/ranks/ranks.h"

#define NAMED_MAX 8u             /* processes */
#define ANSWER_NS (4 * NS_PER_S) /* an agent answers for a rank that does not within 2 s */

static bool is_stopped(const struct member *m, uint64_t now, uint64_t limit_ns)
{
    return m->state == MEMBER_RUNNING && m->sample->stopped &&
           now - m->sample->place_ns >= limit_ns;
}

static bool is_silent(const struct member *m, uint64_t now, uint64_t limit_ns)
{
    return m->state == MEMBER_RUNNING && m->sample->heard_ns && !m->sample->answered &&
           now - m->sample->heard_ns >= limit_ns && now - m->sample->heard_ns >= ANSWER_NS;
}

/* Adds "kill -CONT 411 412", and "on gpu1" where a process is on another machine. */
static int add_command(const struct cell *c, uint64_t now, uint64_t limit_ns, struct buf *out)
{
    unsigned named = 0;
    int rc = buf_add_text(out, "kill -CONT");

    for (size_t k = 0; rc == 0 && k < c->n && named < NAMED_MAX; k++) {
        const struct rank *r = notebook_rank(c->nb, c->member[k].worker, NULL);

        if (!r || !is_stopped(&c->member[k], now, limit_ns))
            continue;
        rc = buf_addf(out, " %ld", r->pid);
        if (rc == 0 && r->node)
            rc = buf_addf(out, " on %s", notebook_node_name(c->nb, r->node));
        if (rc == 0 && ++named == NAMED_MAX)
            rc = buf_add_text(out, " …");
    }
    return rc;
}

/* Adds the ranks for which `is` holds to *out, and marks them as reported. *since_ns: since when it
 * holds for all of them. true: no notice has named one of them before. */
static bool collect(struct cell *c, bool (*is)(const struct member *m, uint64_t, uint64_t),
                    uint64_t now, uint64_t limit_ns, struct ranks *out, uint64_t *since_ns)
{
    bool news = false;

    *since_ns = 0;
    for (size_t k = 0; k < c->n; k++) {
        const struct stack_sample *s = c->member[k].sample;
        const uint64_t since = is == is_stopped ? s->place_ns : s->heard_ns;

        if (!is(&c->member[k], now, limit_ns))
            continue;
        *since_ns = since > *since_ns ? since : *since_ns;
        if (ranks_add(out, c->member[k].rank) < 0)
            log_warn("hang", "out of memory");
        news = news || !c->member[k].sample->reported;
        c->member[k].sample->reported = true;
    }
    return news;
}

bool stopped_ranks_tell(struct cell *c, uint64_t now, uint64_t limit_ns)
{
    struct ranks some = RANKS_INIT;
    struct buf who = BUF_INIT, command = BUF_INIT;
    uint64_t since;
    const bool news = collect(c, is_stopped, now, limit_ns, &some, &since);
    const size_t n = ranks_count(&some);

    if (news &&
        (ranks_format_words(&some, &who) < 0 || add_command(c, now, limit_ns, &command) < 0))
        log_warn("hang", "out of memory");
    else if (news)
        output_note(c, "for over %.4g s %s %s been suspended, as by SIGSTOP: %s lets %s go on",
                    clock_whole_seconds(now - since), who.p, n > 1 ? "have" : "has", command.p,
                    n > 1 ? "them" : "it");
    buf_release(&command);
    buf_release(&who);
    ranks_release(&some);
    return n > 0;
}

void silent_ranks_tell(struct cell *c, uint64_t now, uint64_t limit_ns)
{
    struct ranks some = RANKS_INIT;
    struct buf who = BUF_INIT;
    uint64_t since;

    if (collect(c, is_silent, now, limit_ns, &some, &since)) {
        if (ranks_format_words(&some, &who) < 0)
            log_warn("hang", "out of memory");
        else
            output_note(
                c,
                "for %.4g s nothing was heard of %s: cellspan-agent may be stopped there, as by SIGSTOP (kill -CONT "
                "lets it go on), or the machine is overloaded",
                clock_whole_seconds(now - since), who.p);
    }
    buf_release(&who);
    ranks_release(&some);
}
