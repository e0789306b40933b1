/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a route and as a bundle: the parts lie within the bytes, in order, and joined again
 * they are the same. The rest is incomplete and stays unchanged. */
#include <stdlib.h>

#include "base/buf.h"
#include "protocol/bytes.h"
#include "protocol/route.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/route-*.hex";
const unsigned fuzz_prefixes = 0;

static void demand(bool holds)
{
    if (!holds)
        abort();
}

/* The same bytes, made from what was read. */
static void same(const struct buf *made, const uint8_t *data, size_t size, struct slice rest)
{
    demand(made->n + rest.n == size);
    demand(made->n == 0 || memcmp(made->p, data, made->n) == 0);
}

static void read_route(const uint8_t *data, size_t size)
{
    struct slice rest = slice_of((const char *)data, size);
    struct route_section s;
    struct buf made = BUF_INIT;

    while (route_next(&rest, &s)) {
        const size_t n = s.workers.n / 4;
        uint32_t *worker = malloc(n ? n * sizeof *worker : 1);

        demand(worker && s.workers.n % 4 == 0 && s.whole.n == 8 + s.workers.n);
        for (size_t i = 0; i < n; i++)
            worker[i] = reader_u32_at(s.workers, i);
        demand(reader_u32_at(s.workers, n) == 0);
        demand(route_add(&made, s.node, worker, n) == 0);
        free(worker);
    }
    same(&made, data, size, rest);
    buf_release(&made);
}

static void read_bundle(const uint8_t *data, size_t size)
{
    struct slice rest = slice_of((const char *)data, size);
    struct bundle_entry e;
    struct buf made = BUF_INIT;

    while (bundle_next(&rest, &e)) {
        demand(e.whole.n == 12 + e.message.n);
        demand(bundle_add(&made, e.node, e.worker, e.message) == 0);
    }
    same(&made, data, size, rest);
    buf_release(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_route(data, size);
    read_bundle(data, size);
    return 0;
}
