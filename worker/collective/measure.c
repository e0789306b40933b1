/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.c - times a collective for a check, with any transport (declared in transport.h). */
#include "worker/collective/transport.h"

/* iterations: the first one makes connections, the second one is timed */
#define WARM_UP 2u
#define STOP    UINT64_C(0)          /* rank 0 shares this value when the time is over */
#define BULK    (UINT64_C(64) << 10) /* bytes; from here on the time grows with the size */

struct measuring {
    struct transport *t;
    const struct deadline *limit;
    uint64_t end_ns;  /* when the budget ends */
    unsigned left;    /* rows not measured yet */
    uint64_t last_ns; /* time of one iteration in this operation's previous row; 0: there is none */
    uint64_t last_bytes;
};

static uint64_t whole_floats(uint64_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

/* Rank 0 decides for all ranks how many iterations to make, so that the row takes its share of the
 * remaining time. It uses the time of its own warm-up. */
static int iterations(struct measuring *m, uint64_t one_ns, unsigned *count, struct err *err)
{
    const uint64_t now = clock_now(&clock_system);
    const uint64_t left = m->end_ns > now ? m->end_ns - now : 0;
    uint64_t value = figure_iterations(one_ns, left / (m->left ? m->left : 1));

    if (m->t->ops->share(m->t, &value, m->limit, err) < 0)
        return -1;
    *count = value < 1 ? 1 : value > 1000 ? 1000 : (unsigned)value;
    return 0;
}

/* Is there time for a row of this size? Rank 0 decides, by the previous row: the warm-up, one
 * iteration and its verification have to fit into the remaining time. */
static int goes_on(struct measuring *m, uint64_t bytes, bool *on, struct err *err)
{
    const uint64_t now = clock_now(&clock_system);
    const uint64_t left = m->end_ns > now ? m->end_ns - now : 0;
    const uint64_t grows = m->last_bytes >= BULK ? bytes / m->last_bytes : 1;
    uint64_t value = left && m->last_ns < left / (grows ? grows : 1) / (WARM_UP + 2) ? 1 : STOP;

    if (m->t->ops->share(m->t, &value, m->limit, err) < 0)
        return -1;
    *on = value != STOP;
    return 0;
}

static int measure_row(struct measuring *m, enum coll_op op, uint64_t bytes, struct figure *row,
                       struct err *err)
{
    struct transport *t = m->t;
    unsigned count;
    uint64_t ns = 0;

    for (unsigned i = 0; i < WARM_UP; i++)
        if (t->ops->run(t, op, bytes, 1, &ns, m->limit, err) < 0)
            return -1;
    m->last_ns = ns;
    m->last_bytes = bytes;
    if (iterations(m, ns, &count, err) < 0 ||
        t->ops->run(t, op, bytes, count, &ns, m->limit, err) < 0)
        return -1;
    figure_fill(row, op, t->ranks, bytes, count, (double)ns / 1e3);
    return t->ops->verify(t, op, bytes, &row->bad, m->limit, err);
}

static unsigned count_ops(unsigned ops)
{
    unsigned n = 0;

    for (unsigned op = 0; op < COLL_OPS; op++)
        n += ops >> op & 1;
    return n;
}

/* Adds the operation before the reason. */
static int failed_in(enum coll_op op, uint64_t bytes, const struct err *why, struct err *err)
{
    return err_set(err, "%s of %llu bytes: %s", coll_name(op), (unsigned long long)bytes,
                   why->text);
}

int measure(struct transport *t, unsigned ops, const uint64_t *sizes, unsigned n, double budget_s,
            const struct deadline *l, struct figure *rows, unsigned *n_rows, struct err *err)
{
    struct measuring m = { t, l, 0, n * count_ops(ops), 0, 0 };
    uint64_t most = 4;

    *n_rows = 0;
    for (unsigned i = 0; i < n; i++)
        most = sizes[i] > most ? sizes[i] : most;
    if (t->ops->prepare(t, whole_floats(most), err) < 0)
        return -1;
    m.end_ns = clock_now(&clock_system) + (uint64_t)(budget_s * 1e9);
    for (unsigned op = 0; op < COLL_OPS; op++) {
        bool on = true;

        m.last_ns = m.last_bytes = 0;
        for (unsigned i = 0; i < n && (ops & (1u << op)); i++, m.left--) {
            struct err why = { "" };

            if (goes_on(&m, whole_floats(sizes[i]), &on, &why) < 0)
                return failed_in((enum coll_op)op, whole_floats(sizes[i]), &why, err);
            if (!on)
                continue;
            if (measure_row(&m, (enum coll_op)op, whole_floats(sizes[i]), &rows[*n_rows], &why) < 0)
                return failed_in((enum coll_op)op, whole_floats(sizes[i]), &why, err);
            ++*n_rows;
        }
    }
    return 0;
}
