/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/links.h"

#include <stdlib.h>

#define SLOW_BANDWIDTH   0.5
#define SLOW_LATENCY     3.0
#define LATENCY_NOISE_US 200.0

unsigned links_rounds(unsigned n)
{
    return n < 2 ? 0 : n % 2 ? n : n - 1;
}

/* The circle method of a round-robin tournament: one seat stays, the others move on by one in each
 * round. With an odd number of ranks one seat is empty, and the rank opposite it pauses. */
size_t links_round(unsigned n, unsigned round, struct link_pair *out)
{
    const unsigned seats = n + n % 2, moving = seats - 1;
    size_t count = 0;

    if (n < 2 || round >= links_rounds(n))
        return 0;
    for (unsigned i = 0; i < seats / 2; i++) {
        const unsigned x = (round + i) % moving;
        const unsigned y = i == 0 ? moving : (round + moving - i) % moving;

        if (x < n && y < n)
            out[count++] = (struct link_pair){ x < y ? x : y, x < y ? y : x };
    }
    return count;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *value, size_t n)
{
    if (n == 0)
        return 0;
    qsort(value, n, sizeof *value, by_value);
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

static enum link_state judge(const struct link_figure *f, const struct link_medians *m)
{
    if (f->failed)
        return LINK_DEAD;
    if (f->gbps < m->gbps * SLOW_BANDWIDTH)
        return LINK_SLOW;
    return f->us > m->us * SLOW_LATENCY && f->us > m->us + LATENCY_NOISE_US ? LINK_SLOW : LINK_GOOD;
}

int links_judge(struct link_figure *figure, size_t n, struct link_medians *medians)
{
    double *us = malloc((2 * n + 1) * sizeof *us), *gbps;
    size_t good = 0;

    if (!us)
        return -1;
    gbps = us + n;
    for (size_t i = 0; i < n; i++) {
        if (figure[i].failed)
            continue;
        us[good] = figure[i].us;
        gbps[good++] = figure[i].gbps;
    }
    medians->us = median(us, good);
    medians->gbps = median(gbps, good);
    for (size_t i = 0; i < n; i++)
        figure[i].state = judge(&figure[i], medians);
    free(us);
    return 0;
}

static bool holds(const struct link_figure *f, long rank)
{
    return (long)f->pair.a == rank || (long)f->pair.b == rank;
}

/* Is the rank in all pairs that are not good? */
static bool explains(const struct link_figure *figure, size_t n, long rank)
{
    for (size_t i = 0; i < n; i++)
        if (figure[i].state != LINK_GOOD && !holds(&figure[i], rank))
            return false;
    return true;
}

long links_culprit(const struct link_figure *figure, size_t n)
{
    const struct link_figure *first = NULL;
    size_t bad = 0;
    bool a, b;

    for (size_t i = 0; i < n; i++) {
        if (figure[i].state == LINK_GOOD)
            continue;
        if (bad++ == 0)
            first = &figure[i];
    }
    if (bad < 2 || bad == n)
        return -1;
    a = explains(figure, n, (long)first->pair.a);
    b = explains(figure, n, (long)first->pair.b);
    return a == b ? -1 : a ? (long)first->pair.a : (long)first->pair.b;
}
