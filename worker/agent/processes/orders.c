/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/orders.h"

#include <stdlib.h>
#include <string.h>

#include "worker/link/packet.h"

static int add(struct orders *o, uint8_t tag, struct slice msg, const struct worker_pipes *ends,
               struct err *err)
{
    struct order *one = malloc(sizeof *one + 1 + msg.n);

    if (!one)
        return err_set(err, "out of memory");
    *one = (struct order){ .ends = *ends, .n = 1 + msg.n };
    one->p[0] = tag;
    if (msg.n)
        memcpy(one->p + 1, msg.p, msg.n);
    if (o->last)
        o->last->next = one;
    else
        o->first = one;
    o->last = one;
    return 0;
}

int orders_add_rank(struct orders *o, struct slice start, struct worker_pipes *ends,
                    struct err *err)
{
    const int rc = add(o, ZYGOTE_RANK, start, ends, err);

    if (rc < 0)
        worker_pipes_close(ends);
    *ends = (struct worker_pipes)WORKER_ENDS_INIT;
    return rc;
}

int orders_add_fork(struct orders *o, struct err *err)
{
    const struct worker_pipes none = WORKER_ENDS_INIT;

    return add(o, ZYGOTE_FORK, slice_text(""), &none, err);
}

bool orders_are_none(const struct orders *o)
{
    return !o->first;
}

void orders_pop(struct orders *o)
{
    struct order *one = o->first;

    if (!(o->first = one->next))
        o->last = NULL;
    worker_pipes_close(&one->ends);
    free(one);
}

void orders_drop(struct orders *o)
{
    while (o->first)
        orders_pop(o);
}
