/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a message: refused with an error text, or the same bytes when encoded again. */
#include <stdlib.h>

#include "protocol/span.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_corpus[] = "protocol/vectors/span-*.hex";
const unsigned fuzz_prefixes = 0;

static void check_good(const struct span *m, const void *p, size_t n)
{
    struct buf again = BUF_INIT;
    struct span head;

    if (span_peek(&head, p, n, NULL) < 0 || head.kind != m->kind || head.cell != m->cell ||
        head.worker != m->worker)
        abort();
    if (span_encode(m, &again, NULL) < 0 || !slice_equal(buf_slice(&again), slice_of(p, n)))
        abort();
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, data, size, &err) == 0) {
        check_good(&m, data, size);
        span_release(&m);
    } else if (!err.text[0]) {
        abort();
    }
    return 0;
}
