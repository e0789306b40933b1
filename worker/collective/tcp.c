/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp.c - the transport of a check without GPUs, by tcp (declared in transport.h). */
#include "worker/collective/transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"

struct tcp {
    struct transport base;
    struct stream_end previous, next;
    float *in;     /* this rank's pattern */
    float *out;    /* the result of the last operation */
    float *spare;  /* for all_reduce: a received part */
    uint64_t room; /* bytes of each */
};

static void release(struct tcp *t)
{
    free(t->in);
    free(t->out);
    free(t->spare);
    t->in = t->out = t->spare = NULL;
    t->room = 0;
}

static void destroy(struct transport *base)
{
    struct tcp *t = (struct tcp *)base;

    release(t);
    free(t);
}

static int prepare(struct transport *base, uint64_t bytes, struct err *err)
{
    struct tcp *t = (struct tcp *)base;

    if (bytes <= t->room)
        return 0;
    release(t);
    t->in = malloc(bytes);
    t->out = malloc(bytes);
    t->spare = malloc(bytes / base->ranks + 8);
    if (!t->in || !t->out || !t->spare) {
        release(t);
        return err_set(err, "no memory for messages of %llu bytes", (unsigned long long)bytes);
    }
    t->room = bytes;
    pattern_fill(t->in, bytes / sizeof *t->in, base->rank);
    memset(t->out, 0xff, bytes); /* NaN, so that elements that are never written are detected */
    return 0;
}

/* The first element of part k, if n elements are divided into `ranks` parts. */
static size_t part_begin(const struct tcp *t, size_t n, unsigned k)
{
    return n / t->base.ranks * k + (k < n % t->base.ranks ? k : n % t->base.ranks);
}

static size_t part_size(const struct tcp *t, size_t n, unsigned k)
{
    return part_begin(t, n, k + 1) - part_begin(t, n, k);
}

/* Ring all-reduce of n ranks: in n-1 steps each part goes round the ring and is summed; in n-1 more
 * steps its sum goes round. So each link carries 2(n-1)/n of the bytes, which is the factor of
 * busbw. */
static int all_reduce(struct tcp *t, size_t n, const struct deadline *l, struct err *err)
{
    const unsigned ranks = t->base.ranks, rank = t->base.rank;

    memcpy(t->out, t->in, n * sizeof *t->in);
    for (unsigned step = 0; step < 2 * (ranks - 1); step++) {
        const bool sums = step < ranks - 1;
        const unsigned give = (rank + ranks - step % ranks) % ranks,
                       take = (give + ranks - 1) % ranks;
        float *part = t->out + part_begin(t, n, take);
        const size_t size = part_size(t, n, take);

        if (stream_exchange(t->next, t->out + part_begin(t, n, give),
                            part_size(t, n, give) * sizeof *part, t->previous,
                            sums ? t->spare : part, size * sizeof *part, l, err) < 0)
            return -1;
        for (size_t i = 0; sums && i < size; i++)
            part[i] += t->spare[i];
    }
    return 0;
}

static int broadcast(struct tcp *t, void *bytes, size_t n, const struct deadline *l,
                     struct err *err)
{
    const struct stream_end nobody = { -1, 0 };
    const bool first = t->base.rank == 0, last = t->base.rank == t->base.ranks - 1;

    return stream_relay(first ? nobody : t->previous, last ? nobody : t->next, bytes, n, l, err);
}

static int once(struct tcp *t, enum coll_op op, uint64_t bytes, const struct deadline *l,
                struct err *err)
{
    if (t->base.ranks == 1) {
        memcpy(t->out, t->in, bytes);
        return 0;
    }
    switch (op) {
    case COLL_ALL_REDUCE:
        return all_reduce(t, bytes / sizeof(float), l, err);
    case COLL_BROADCAST:
        if (t->base.rank == 0)
            memcpy(t->out, t->in, bytes);
        return broadcast(t, t->out, bytes, l, err);
    case COLL_SEND_RECV:
        return stream_exchange(t->next, t->in, bytes, t->previous, t->out, bytes, l, err);
    }
    return err_set(err, "there is no operation %d", (int)op);
}

/* Sends a word round the ring. A broadcast is over when the last rank has the data, not when the
 * first rank's system has taken it. */
static int arrived(struct tcp *t, const struct deadline *l, struct err *err)
{
    const struct stream_end nobody = { -1, 0 };
    char word = 'b';

    if (t->base.ranks == 1)
        return 0;
    for (int round = 0; round < 2; round++) {
        if (t->base.rank == 0) {
            if (stream_relay(nobody, t->next, &word, 1, l, err) < 0 ||
                stream_relay(t->previous, nobody, &word, 1, l, err) < 0)
                return -1;
        } else if (stream_relay(t->previous, t->next, &word, 1, l, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int run(struct transport *base, enum coll_op op, uint64_t bytes, unsigned count,
               uint64_t *ns, const struct deadline *l, struct err *err)
{
    struct tcp *t = (struct tcp *)base;
    uint64_t begin;

    if (arrived(t, l, err) < 0) /* so that all ranks begin together */
        return -1;
    begin = clock_now(&clock_system);
    for (unsigned i = 0; i < count; i++)
        if (once(t, op, bytes, l, err) < 0)
            return -1;
    if (op == COLL_BROADCAST && arrived(t, l, err) < 0)
        return -1;
    *ns = clock_now(&clock_system) - begin;
    return 0;
}

static int verify(struct transport *base, enum coll_op op, uint64_t bytes, uint64_t *bad,
                  const struct deadline *l, struct err *err)
{
    const struct tcp *t = (const struct tcp *)base;

    *bad = pattern_bad(t->out, bytes / sizeof *t->out, 0, op, base->rank, base->ranks);
    return deadline_check(l, "the comparison", err);
}

static int share(struct transport *base, uint64_t *value, const struct deadline *l, struct err *err)
{
    struct tcp *t = (struct tcp *)base;
    uint8_t bytes[8];

    if (base->ranks == 1)
        return 0;
    le_put(bytes, sizeof bytes, *value);
    if (broadcast(t, bytes, sizeof bytes, l, err) < 0)
        return -1;
    *value = le_get(bytes, sizeof bytes);
    return 0;
}

static const struct transport_ops tcp_ops = { "tcp", prepare, run, verify, share, destroy };

struct transport *tcp_create(unsigned rank, unsigned ranks, struct stream_end previous,
                             struct stream_end next, struct err *err)
{
    struct tcp *t = calloc(1, sizeof *t);

    if (!t)
        return err_null(err, "out of memory");
    t->base = (struct transport){ &tcp_ops, rank, ranks };
    t->previous = previous;
    t->next = next;
    return &t->base;
}
