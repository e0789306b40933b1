/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a cell: peeked at, parsed, completed and inspected at every offset.
 * tests/unit/magics/fuzz.c also feeds it pieces of valid cells. */
#include <stdlib.h>

#include "base/buf.h"
#include "magics/plan.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/plan-*.hex";
const unsigned fuzz_prefixes = 0;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* exactly as large, so that a byte too many is seen */
    struct slice cell = slice_of(copy, size);
    struct buf out = BUF_INIT;
    struct slice line;
    struct plan plan;
    struct err err = { "" };

    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    if (plan_peek(cell, &line)) {
        if (plan_parse(cell, line, &plan, &err) == 0)
            plan_release(&plan);
        else if (!err.text[0] || strchr(err.text, '\n'))
            abort(); /* an error is one line, and says something */
    }
    for (size_t at = 0; at <= size && at < 512; at++) {
        size_t start = 0;

        buf_clear(&out);
        if (complete_cell(cell, at, 3, &out, &start) == 1 && start > at)
            abort();
        plan_at(cell, at);
    }
    buf_release(&out);
    free(copy);
    return 0;
}
