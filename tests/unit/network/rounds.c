/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds.c - many short runs instead of a long one: each begins anew, so its seed replays it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"

static int number(const char *text, uint64_t *n)
{
    char *end;

    errno = 0;
    *n = strtoull(text, &end, 10);
    return *text && !*end && !errno ? 0 : -1;
}

int rounds_option(struct rounds *r, const char *option, const char *value)
{
    if (strcmp(option, "--plant") == 0) {
        r->planted = planted_of(value);
        return r->planted == PLANTED_KINDS ? -1 : 0;
    }
    if (strcmp(option, "--steps") == 0)
        return number(value, &r->steps);
    if (strcmp(option, "--rounds") == 0) {
        r->traced = false;
        return number(value, &r->rounds);
    }
    if (strcmp(option, "--seed") != 0)
        return -1;
    r->traced = true;
    r->rounds = 1;
    return number(value, &r->seed);
}

static void add(struct fleet_counts *sum, const struct fleet_counts *c)
{
    sum->steps += c->steps;
    sum->frames += c->frames;
    sum->resumes += c->resumes;
    sum->cuts += c->cuts;
    sum->resets += c->resets;
    sum->forgotten += c->forgotten;
    sum->stops += c->stops;
    sum->crashes += c->crashes;
    sum->thieves += c->thieves;
    sum->refused += c->refused;
    sum->lost += c->lost;
    sum->full += c->full;
    sum->given_up += c->given_up;
    sum->second_key += c->second_key;
    sum->engines += c->engines;
    sum->children += c->children;
    sum->orphans += c->orphans;
    sum->beside += c->beside;
    sum->held += c->held;
    sum->told += c->told;
}

bool rounds_run(const struct rounds *r, struct fleet_counts *sum, char why[static 400])
{
    struct fleet f;
    bool good = true;

    *sum = (struct fleet_counts){ 0 };
    why[0] = '\0';
    for (uint64_t i = 0; i < r->rounds && good; i++) {
        fleet_run(&f, r, r->seed + i);
        good = !f.broken;
        add(sum, &f.counts);
        if (!good)
            snprintf(why, 400, "(--seed %" PRIu64 ", step %" PRIu64 "): %s", f.seed, f.counts.steps,
                     f.why);
        fleet_release(&f);
    }
    return good;
}
