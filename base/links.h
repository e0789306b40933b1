/* SPDX-License-Identifier: BSD-3-Clause */
/* links.h - measuring the network between pairs of ranks: the order of the pairs, and which of them
 * are slow or dead. */
#ifndef BASE_LINKS_H
#define BASE_LINKS_H

#include <stdbool.h>
#include <stddef.h>

struct link_pair {
    unsigned a, b; /* a < b */
};

/* All pairs of n ranks are divided into links_rounds(n) rounds. In a round no rank appears twice,
 * so the pairs of a round can be measured at the same time. */
unsigned links_rounds(unsigned n);
/* Writes the pairs of one round (0 …) to `out`, which has room for n / 2. Returns how many. */
size_t links_round(unsigned n, unsigned round, struct link_pair *out);

enum link_state {
    LINK_GOOD,
    /* less than half the median bandwidth, or a latency over three times the median and 0.2 ms
     * above it */
    LINK_SLOW,
    LINK_DEAD, /* it failed, or wrong data arrived */
};

struct link_figure {
    struct link_pair pair;
    double us, gbps;
    bool failed;
    enum link_state state; /* filled by links_judge */
};

struct link_medians {
    double us, gbps; /* of the pairs that did not fail; 0 when all did */
};

/* 0, or -1 when memory is out. */
int links_judge(struct link_figure *figure, size_t n, struct link_medians *medians);
/* The one rank that is in every bad pair, so that a bad network card is named once. -1: no such
 * rank, fewer than two bad pairs, or no good pair. */
long links_culprit(const struct link_figure *figure, size_t n);

#endif
