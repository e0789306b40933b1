/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/output/worker_credit.h"

#include "protocol/bytes.h"
#include "protocol/span.h"

/* The fields are type, content, metadata and the list of buffers, in this order. */
int64_t worker_credit_of_publish(struct slice msg)
{
    struct reader r = reader_of(msg.p, msg.n);
    uint64_t size = 0;
    uint32_t items;

    (void)reader_take(&r, SPAN_HEADER_SIZE);
    (void)reader_take(&r, reader_u32(&r));
    for (int i = 0; i < 2; i++)
        size += reader_take(&r, reader_u32(&r)).n;
    items = reader_u32(&r);
    for (uint32_t i = 0; i < items && !r.bad; i++)
        size += reader_take(&r, reader_u32(&r)).n;
    return r.bad || reader_left(&r) ? -1 : (int64_t)size;
}
