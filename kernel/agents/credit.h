/* credit.h - what is owed to each worker: bytes that it sent and that have been taken in. Pure. */
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
/* Adds bytes to what is owed; the sum goes to *owed. */
MUST_USE int credit_owe(struct credit_table *c, uint32_t worker, size_t bytes, uint64_t *owed);
/* Takes what is owed to the worker: 0 when there is nothing. */
uint64_t credit_take(struct credit_table *c, uint32_t worker);
void credit_forget(struct credit_table *c, uint32_t worker);

#endif
