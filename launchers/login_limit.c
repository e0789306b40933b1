/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/login_limit.h"

#include <stddef.h>

#include "base/random.h"

void login_limit_init(struct login_limit *l, unsigned most)
{
    *l = (struct login_limit){ .most = most };
    l->last = &l->first;
}

static void take_out(struct login_limit *l, const struct login *one)
{
    struct login **at = &l->first;

    while (*at && *at != one)
        at = &(*at)->next;
    if (!*at)
        return;
    if (!(*at = one->next))
        l->last = at;
}

/* A login that can't even begin is over within start(): the loop goes on with the next. */
static void start_next(struct login_limit *l)
{
    if (l->starting)
        return;
    l->starting = true;
    while (l->first && l->running < l->most) {
        struct login *one = l->first;

        take_out(l, one);
        one->state = LOGIN_RUNS;
        l->running++;
        one->start(one->arg);
    }
    l->starting = false;
}

void login_ask(struct login *one)
{
    struct login_limit *l = one->login_limit;

    if (one->state != LOGIN_NONE)
        return;
    if (!l) {
        one->start(one->arg);
        return;
    }
    one->state = LOGIN_WAITS;
    one->next = NULL;
    *l->last = one;
    l->last = &one->next;
    start_next(l);
}

void login_over(struct login *one)
{
    struct login_limit *l = one->login_limit;
    const enum login_state was = one->state;

    one->state = LOGIN_NONE;
    if (!l || was == LOGIN_NONE)
        return;
    if (was == LOGIN_WAITS)
        take_out(l, one);
    else
        l->running--;
    start_next(l);
}

uint64_t login_pause_ns(uint64_t ns)
{
    return ns * 3 / 4 + random_u64() % (ns / 2);
}
