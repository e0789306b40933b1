/* SPDX-License-Identifier: BSD-3-Clause */
/* One bit for each rank; the array is as long as the highest one needs. */
#include "base/rank_set.h"

#include <stdlib.h>
#include <string.h>

#define BITS 64u

void ranks_release(struct ranks *r)
{
    free(r->bit);
    *r = (struct ranks)RANKS_INIT;
}

void ranks_clear(struct ranks *r)
{
    if (r->bit)
        memset(r->bit, 0, r->words * sizeof *r->bit);
}

static int reserve(struct ranks *r, unsigned rank)
{
    const unsigned words = rank / BITS + 1;
    uint64_t *bit;

    if (rank >= RANKS_MAX)
        return -1;
    if (words <= r->words)
        return 0;
    if (!(bit = realloc(r->bit, words * sizeof *bit)))
        return -1;
    memset(bit + r->words, 0, (words - r->words) * sizeof *bit);
    r->bit = bit;
    r->words = words;
    return 0;
}

int ranks_add(struct ranks *r, unsigned rank)
{
    if (reserve(r, rank) < 0)
        return -1;
    r->bit[rank / BITS] |= UINT64_C(1) << rank % BITS;
    return 0;
}

int ranks_add_range(struct ranks *r, unsigned first, unsigned last)
{
    if (first > last || reserve(r, last) < 0)
        return -1;
    for (unsigned k = first; k <= last; k++)
        r->bit[k / BITS] |= UINT64_C(1) << k % BITS;
    return 0;
}

int ranks_copy(struct ranks *to, const struct ranks *from)
{
    if (to == from)
        return 0;
    if (from->words > 0 && reserve(to, from->words * BITS - 1) < 0)
        return -1;
    ranks_clear(to);
    if (from->words > 0)
        memcpy(to->bit, from->bit, from->words * sizeof *from->bit);
    return 0;
}

int ranks_add_all(struct ranks *to, const struct ranks *more)
{
    if (more->words > 0 && reserve(to, more->words * BITS - 1) < 0)
        return -1;
    for (unsigned k = 0; k < more->words; k++)
        to->bit[k] |= more->bit[k];
    return 0;
}

bool ranks_overlap(const struct ranks *a, const struct ranks *b)
{
    for (unsigned k = 0; k < a->words && k < b->words; k++)
        if (a->bit[k] & b->bit[k])
            return true;
    return false;
}

void ranks_remove(struct ranks *r, unsigned rank)
{
    if (rank / BITS < r->words)
        r->bit[rank / BITS] &= ~(UINT64_C(1) << rank % BITS);
}

bool ranks_has(const struct ranks *r, unsigned rank)
{
    return rank / BITS < r->words && (r->bit[rank / BITS] >> rank % BITS & 1u) != 0;
}

static unsigned bits_set(uint64_t word)
{
    unsigned n = 0;

    for (; word; word &= word - 1)
        n++;
    return n;
}

unsigned ranks_count(const struct ranks *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->words; i++)
        n += bits_set(r->bit[i]);
    return n;
}

long ranks_next(const struct ranks *r, unsigned from)
{
    for (unsigned i = from / BITS; i < r->words; i++) {
        uint64_t word = r->bit[i];

        if (i == from / BITS)
            word &= ~UINT64_C(0) << from % BITS;
        for (unsigned k = 0; word; k++, word >>= 1)
            if (word & 1u)
                return (long)(i * BITS + k);
    }
    return -1;
}

/* Reads "3" or "-1" at *p and moves *p past it. 0; -1: not a number; 1: out of range. */
static int parse_number(const char **p, const char *end, unsigned size, unsigned *rank)
{
    const bool from_end = *p < end && **p == '-';
    unsigned n = 0;

    if (from_end)
        (*p)++;
    if (*p == end || **p < '0' || **p > '9')
        return -1;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
        if ((n = n * 10 + (unsigned)(**p - '0')) > RANKS_MAX)
            n = RANKS_MAX; /* too large in any case; n must not wrap */
    if (from_end) {
        if (n == 0 || n > size)
            return 1;
        n = size - n;
    }
    *rank = n;
    return n < size ? 0 : 1;
}

static int out_of_range(struct err *err, struct slice token, unsigned size, bool there)
{
    if (size == 0)
        return err_set(err, "rank %.*s: there are no ranks yet: run a cell on ranks first",
                       SLICE_ARG(token));
    if (!there && size == 1)
        return err_set(err, "rank %.*s: this would run on rank 0 only; ask for more ranks",
                       SLICE_ARG(token));
    if (!there)
        return err_set(err, "rank %.*s: this would run on %u ranks, 0 to %u; ask for more ranks",
                       SLICE_ARG(token), size, size - 1);
    if (size == 1)
        return err_set(err, "rank %.*s: there is only rank 0", SLICE_ARG(token));
    return err_set(err, "rank %.*s: there are %u ranks, 0 to %u", SLICE_ARG(token), size, size - 1);
}

static int parse_token(struct ranks *r, struct slice token, unsigned size, bool there,
                       struct err *err)
{
    const char *p = token.p;
    const char *end = token.p + token.n;
    unsigned first = 0;
    unsigned last = 0;
    int rc;

    if (slice_is(token, "all")) {
        if (size > 0 && ranks_add_range(r, 0, size - 1) < 0)
            return err_set(err, "out of memory");
        return 0;
    }
    if ((rc = parse_number(&p, end, size, &first)) >= 0) {
        last = first;
        if (p < end && *p == '-') {
            const int of_first = rc;

            p++;
            rc = parse_number(&p, end, size, &last);
            rc = rc < 0 ? rc : rc | of_first;
        }
    }
    if (rc < 0 || p != end)
        return err_set(
            err,
            "'%.*s' is not a rank: write numbers and ranges as in 0,3-5 or -1 (the last), or all",
            SLICE_ARG(token));
    if (rc > 0)
        return out_of_range(err, token, size, there);
    if (first > last)
        return err_set(err, "'%.*s' runs backwards: write the smaller rank first",
                       SLICE_ARG(token));
    if (ranks_add_range(r, first, last) < 0)
        return err_set(err, "out of memory");
    return 0;
}

static struct slice trim(struct slice s)
{
    for (; s.n > 0 && (*s.p == ' ' || *s.p == '\t'); s.n--)
        s.p++;
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

int ranks_parse_world(struct ranks *r, const char *spec, unsigned size, bool there, struct err *err)
{
    struct ranks all = RANKS_INIT; /* so that a bad token leaves r as it was */

    if (size > RANKS_MAX)
        return err_set(err, "%u ranks are more than the %u that there may be", size, RANKS_MAX);
    if (ranks_copy(&all, r) < 0)
        return err_set(err, "out of memory");
    for (;;) {
        const size_t n = strcspn(spec, ",");

        if (parse_token(&all, trim(slice_of(spec, n)), size, there, err) < 0)
            goto fail;
        if (!spec[n])
            break;
        spec += n + 1;
    }
    ranks_release(r);
    *r = all;
    return 0;
fail:
    ranks_release(&all);
    return -1;
}

int ranks_parse(struct ranks *r, const char *spec, unsigned size, struct err *err)
{
    return ranks_parse_world(r, spec, size, true, err);
}

static int format_run(struct buf *out, bool comma, long first, long last)
{
    if (comma && buf_add_text(out, ",") < 0)
        return -1;
    return first == last ? buf_addf(out, "%ld", first) : buf_addf(out, "%ld-%ld", first, last);
}

int ranks_format(const struct ranks *r, struct buf *out)
{
    const size_t start = out->n;
    long first = ranks_next(r, 0);

    while (first >= 0) {
        long last = first;

        while (ranks_has(r, (unsigned)last + 1))
            last++;
        if (format_run(out, out->n > start, first, last) < 0) {
            out->n = start;
            if (out->p)
                out->p[start] = '\0';
            return -1;
        }
        first = ranks_next(r, (unsigned)last + 1);
    }
    return 0;
}

int ranks_format_words(const struct ranks *r, struct buf *out)
{
    if (buf_add_text(out, ranks_count(r) > 1 ? "ranks " : "rank ") < 0)
        return -1;
    return ranks_format(r, out);
}
