/* SPDX-License-Identifier: BSD-3-Clause */
/* The timing loop alone, with a transport that only simulates how long operations take. */
#include "tests/unit/tap.h"
#include "worker/collective/transport.h"

/* an iteration, as it is told; nothing waits, and what passes meanwhile is nothing beside it */
#define ONE_NS (10 * NS_PER_S)

static int prepare(struct transport *t, uint64_t bytes, struct err *err)
{
    (void)t;
    return bytes % 4 == 0 ? 0 : err_set(err, "%llu bytes", (unsigned long long)bytes);
}

static int run(struct transport *t, enum coll_op op, uint64_t bytes, unsigned count, uint64_t *ns,
               const struct deadline *l, struct err *err)
{
    (void)t;
    (void)op;
    (void)bytes;
    (void)l;
    (void)err;
    *ns = count * ONE_NS;
    return 0;
}

static int verify(struct transport *t, enum coll_op op, uint64_t bytes, uint64_t *bad,
                  const struct deadline *l, struct err *err)
{
    (void)t;
    (void)bytes;
    (void)l;
    (void)err;
    *bad = op == COLL_BROADCAST;
    return 0;
}

static int share(struct transport *t, uint64_t *value, const struct deadline *l, struct err *err)
{
    (void)t;
    (void)value;
    (void)l;
    (void)err;
    return 0;
}

static void destroy(struct transport *t)
{
    (void)t;
}

static unsigned measured(unsigned ops, const uint64_t *sizes, unsigned n, double budget_s,
                         struct figure *rows)
{
    static const struct transport_ops fake = { "fake", prepare, run, verify, share, destroy };
    struct transport t = { &fake, 0, 2 };
    const struct deadline l = deadline_in(3600, NULL, NULL);
    struct err err = { "" };
    unsigned n_rows = 0;

    ok(measure(&t, ops, sizes, n, budget_s, &l, rows, &n_rows, &err) == 0, "it is measured: %s",
       err.text);
    return n_rows;
}

int main(void)
{
    static const uint64_t sizes[] = { 7, 4096 }, large[] = { 1 << 20, 16 << 20 };
    struct figure rows[2 * COLL_OPS];

    is_int(measured(1u << COLL_SEND_RECV, sizes, 2, 120, rows), 2,
           "a row for each size of the one that is asked for");
    ok(rows[0].iterations >= 5, "it has its half of the time: %u iterations", rows[0].iterations);
    is_int((int64_t)rows[0].bytes, 8, "whole floats");
    is_int((int64_t)rows[0].us, (int64_t)(ONE_NS / 1000), "one iteration's time");
    is_int(measured(7, sizes, 2, 3600, rows), 2 * COLL_OPS, "all operations");
    is_int((int64_t)rows[3].bad, 1, "what is wrong is counted");
    is_int(measured(7, sizes, 2, 0, rows), 0, "no time is no row");
    is_int(measured(1u << COLL_SEND_RECV, large, 2, 120, rows), 1,
           "a size that would take longer than there is time is omitted");
    is_int(measured(1u << COLL_SEND_RECV, large, 2, 3600, rows), 2, "and measured if there is");
    return plan_done();
}
