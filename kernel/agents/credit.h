/* credit.h - flow control of the workers: bytes that each has sent and that were taken in, so
 * that it may send as many again. Pure. */
#ifndef KERNEL_AGENTS_CREDIT_H
#define KERNEL_AGENTS_CREDIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct credit_owed {
    uint32_t worker;
    uint64_t owed;
};

struct credit_table {
    struct credit_owed *row; /* owned */
    size_t n, room;
};

#define CREDIT_INIT { NULL, 0, 0 }

void credit_release(struct credit_table *c);
/* Adds bytes to what the worker is owed; *owed is the sum. */
MUST_USE int credit_owe(struct credit_table *c, uint32_t worker, size_t bytes, uint64_t *owed);
/* What the worker is owed, which becomes 0. */
uint64_t credit_take(struct credit_table *c, uint32_t worker);
void credit_forget(struct credit_table *c, uint32_t worker);

#endif
