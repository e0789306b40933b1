/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/redial.h"

/* the newest key, the one before, and the newest again; or only the newest */
#define REFUSALS_OF_TWO 3u
#define REFUSALS_OF_ONE 1u

void redial_hello(struct redial *r)
{
    r->unanswered = true;
}

void redial_begin(struct redial *r, uint64_t now, uint64_t resume_ns, bool out)
{
    r->out = out;
    r->resume_ns = resume_ns;
    r->lost_ns = r->next_ns = now;
    r->over_ns = now + resume_ns;
    r->refusals = 0;
}

uint64_t redial_due_ns(const struct redial *r)
{
    return clock_earlier(r->next_ns, r->over_ns);
}

bool redial_is_due(const struct redial *r, uint64_t now)
{
    return now >= r->next_ns;
}

static uint64_t after(const struct redial *r, uint64_t now, uint32_t chance)
{
    const bool quick = now < r->lost_ns + REDIAL_QUICK_FOR_NS;
    const uint64_t wait = quick ? REDIAL_QUICK_NS : REDIAL_SLOW_NS;

    return now + wait * 3 / 4 + chance % (wait / 2);
}

bool redial_beside(struct redial *r, uint64_t now, uint32_t chance)
{
    const bool due = now >= r->beside_ns;

    if (due)
        r->beside_ns = after(r, now, chance);
    return due && r->out;
}

enum redial_key redial_attempt(struct redial *r, uint64_t now, uint32_t chance)
{
    r->next_ns = r->beside_ns = after(r, now, chance);
    r->limit_ns = now + redial_limit_ns(r);
    return r->refusals % 2 ? REDIAL_BEFORE : REDIAL_NEWEST;
}

void redial_slept(struct redial *r, uint64_t ns)
{
    r->over_ns = r->over_ns > ns ? r->over_ns - ns : 0;
}

void redial_refused(struct redial *r, uint64_t now)
{
    r->refusals++;
    r->next_ns = now;
}

void redial_admitted(struct redial *r, uint64_t now)
{
    r->refusals = 0;
    r->unanswered = true;
    r->limit_ns = now + redial_limit_ns(r);
    r->over_ns = now + r->resume_ns;
}

uint64_t redial_limit_ns(const struct redial *r)
{
    return r->may_ns ? r->may_ns : REDIAL_LIMIT_NS;
}

static uint64_t most_ns(const struct redial *r)
{
    const uint64_t most = clock_earlier(r->resume_ns / 2, REDIAL_LIMIT_MAX_NS);

    return most > REDIAL_LIMIT_NS ? most : REDIAL_LIMIT_NS;
}

void redial_was_slow(struct redial *r)
{
    r->may_ns = clock_earlier(2 * redial_limit_ns(r), most_ns(r));
}

void redial_resumed(struct redial *r)
{
    r->may_ns = 0;
    r->unanswered = false;
}

bool redial_has_failed(const struct redial *r, uint64_t now)
{
    return now >= r->limit_ns;
}

bool redial_was_refused(const struct redial *r)
{
    return r->refusals >= (r->unanswered ? REFUSALS_OF_TWO : REFUSALS_OF_ONE);
}

bool redial_is_over(const struct redial *r, uint64_t now)
{
    return now >= r->over_ns || redial_was_refused(r);
}
