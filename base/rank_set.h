/* SPDX-License-Identifier: BSD-3-Clause */
/* rank_set.h - sets of rank numbers, written "0-2,5". Flux RFC 22 calls them idsets. */
#ifndef BASE_RANK_SET_H
#define BASE_RANK_SET_H

#include "base/buf.h"

#define RANKS_MAX 65536u /* a rank number is below this */

struct ranks {
    uint64_t *bit; /* owned */
    unsigned words;
};

#define RANKS_INIT { NULL, 0 }

void ranks_release(struct ranks *r);
void ranks_clear(struct ranks *r);
/* -1: memory, or rank >= RANKS_MAX */
MUST_USE int ranks_add(struct ranks *r, unsigned rank);
MUST_USE int ranks_add_range(struct ranks *r, unsigned first, unsigned last);
MUST_USE int ranks_copy(struct ranks *to, const struct ranks *from);
MUST_USE int ranks_add_all(struct ranks *to, const struct ranks *more);
void ranks_remove(struct ranks *r, unsigned rank);
bool ranks_has(const struct ranks *r, unsigned rank);
bool ranks_overlap(const struct ranks *a, const struct ranks *b); /* some are in both */
unsigned ranks_count(const struct ranks *r);
/* The first member that is >= from, or -1. */
long ranks_next(const struct ranks *r, unsigned from);
#define RANKS_EACH(k, r) for (long k = ranks_next(r, 0); k >= 0; k = ranks_next(r, (unsigned)k + 1))

/* Adds what spec names: "0", "1,3-5", "-1" (the last of `size` ranks), "all". On failure r is
 * unchanged; *err names the bad part, and the number of ranks if it is out of range. */
MUST_USE int ranks_parse(struct ranks *r, const char *spec, unsigned size, struct err *err);
/* The same for a world of which *err says that its ranks are there, or that they would be started.
 */
MUST_USE int ranks_parse_world(struct ranks *r, const char *spec, unsigned size, bool there,
                               struct err *err);
/* Appends "0-2,5"; an empty set appends nothing. */
MUST_USE int ranks_format(const struct ranks *r, struct buf *out);
/* Appends "rank 3" or "ranks 0-2,5". */
MUST_USE int ranks_format_words(const struct ranks *r, struct buf *out);

#endif
