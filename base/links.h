/* links.h - pairs of ranks: in which order to measure them, and which of them is slow or dead. */
#ifndef BASE_LINKS_H
#define BASE_LINKS_H

#include <stdbool.h>
#include <stddef.h>

struct link_pair {
    unsigned a, b; /* a < b */
};

/* Every pair of n ranks stands in one of links_rounds(n) rounds, no rank twice in a round: those of
 * a round can be measured at the same time. */
unsigned links_rounds(unsigned n);
/* Fills in the pairs of one round (0 …); `out` has room for n / 2. How many there are. */
size_t links_round(unsigned n, unsigned round, struct link_pair *out);

enum link_state {
    LINK_GOOD,
    /* less than half the median bandwidth, or a latency over three times the median and 0.2 ms
     * above it */
    LINK_SLOW,
    LINK_DEAD, /* it failed, or what arrived was wrong */
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
/* The rank that is in every pair that is not good, where there are at least two such pairs and good
 * ones as well; -1: no such rank. So one bad network card is named once. */
long links_culprit(const struct link_figure *figure, size_t n);

#endif
