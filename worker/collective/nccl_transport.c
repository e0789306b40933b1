/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_transport.c - the transport of a check between GPUs, by NCCL (declared in transport.h). */
#include "worker/collective/transport.h"

#include <stdio.h>
#include <stdlib.h>

#define BOUNCE (4u << 20) /* bytes of host memory between a pattern and the GPU */
#define WORD   16u        /* bytes of device memory for share() */

struct way {
    struct transport base;
    struct comm *comm;
    const struct cuda_driver *driver;
    const struct deadline *limit;
    cu_pointer in, out, word;
    uint64_t room; /* bytes of in and of out */
    void *bounce;
    cu_event begin, end;
    bool failed;
};

static int fault(struct way *w)
{
    w->failed = true;
    return -1;
}

static int gpu(struct way *w, cu_result rc, const char *what, struct err *err)
{
    return cuda_driver_check(w->driver, rc, what, err) < 0 ? fault(w) : 0;
}

static void release(struct way *w)
{
    if (w->in)
        w->driver->release(w->in);
    if (w->out)
        w->driver->release(w->out);
    w->in = w->out = 0;
    w->room = 0;
}

static void release_all(struct way *w)
{
    const struct cuda_driver *d = w->driver;

    release(w);
    if (w->word)
        d->release(w->word);
    if (w->bounce)
        d->release_host(w->bounce);
    if (w->begin)
        d->event_destroy(w->begin);
    if (w->end)
        d->event_destroy(w->end);
}

static void destroy(struct transport *base)
{
    struct way *w = (struct way *)base;

    if (comm_end(w->comm, !w->failed, w->limit))
        release_all(w);
    comm_close(w->comm, false, w->limit);
    free(w);
}

/* Copies this rank's pattern to the GPU, in parts, through host memory. */
static int fill(struct way *w, uint64_t bytes, struct err *err)
{
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t part = bytes - at < BOUNCE ? bytes - at : BOUNCE;
        float *p = w->bounce;

        for (size_t i = 0; i < part / sizeof *p; i++)
            p[i] = pattern_input(w->base.rank, at / sizeof *p + i);
        if (gpu(w, w->driver->to_device(w->in + at, p, part, comm_stream(w->comm)),
                "cuMemcpyHtoDAsync", err) < 0 ||
            comm_wait(w->comm, NULL, w->limit, err) < 0)
            return fault(w);
        at += part;
    }
    return 0;
}

static int prepare(struct transport *base, uint64_t bytes, struct err *err)
{
    struct way *w = (struct way *)base;
    char what[64];

    if (bytes <= w->room)
        return 0;
    release(w);
    snprintf(what, sizeof what, "GPU memory for 2 x %llu bytes", (unsigned long long)bytes);
    if (gpu(w, w->driver->alloc(&w->in, bytes), what, err) < 0 ||
        gpu(w, w->driver->alloc(&w->out, bytes), what, err) < 0)
        return -1;
    w->room = bytes;
    return fill(w, bytes, err);
}

static int enqueue(struct way *w, enum coll_op op, uint64_t bytes, unsigned count,
                   const struct deadline *l, struct err *err)
{
    const unsigned rank = w->base.rank, ranks = w->base.ranks;

    switch (op) {
    case COLL_ALL_REDUCE:
        return comm_all_reduce(w->comm, w->in, w->out, bytes / sizeof(float), count, l, err);
    case COLL_BROADCAST:
        return comm_broadcast(w->comm, w->in, w->out, bytes, 0, count, l, err);
    case COLL_SEND_RECV:
        return comm_send_recv(w->comm, w->in, (rank + 1) % ranks, w->out,
                              (rank + ranks - 1) % ranks, bytes, count, l, err);
    }
    return err_set(err, "there is no operation %d", (int)op);
}

static int run(struct transport *base, enum coll_op op, uint64_t bytes, unsigned count,
               uint64_t *ns, const struct deadline *l, struct err *err)
{
    struct way *w = (struct way *)base;
    float ms = 0;

    if (gpu(w, w->driver->event_record(w->begin, comm_stream(w->comm)), "cuEventRecord", err) < 0)
        return -1;
    if (enqueue(w, op, bytes, count, l, err) < 0)
        return fault(w);
    if (gpu(w, w->driver->event_record(w->end, comm_stream(w->comm)), "cuEventRecord", err) < 0)
        return -1;
    if (comm_wait(w->comm, w->end, l, err) < 0)
        return fault(w);
    if (gpu(w, w->driver->event_elapsed(&ms, w->begin, w->end), "cuEventElapsedTime", err) < 0)
        return -1;
    *ns = (uint64_t)((double)ms * 1e6);
    return 0;
}

static int verify(struct transport *base, enum coll_op op, uint64_t bytes, uint64_t *bad,
                  const struct deadline *l, struct err *err)
{
    struct way *w = (struct way *)base;

    *bad = 0;
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t part = bytes - at < BOUNCE ? bytes - at : BOUNCE;
        const float *p = w->bounce;

        if (gpu(w, w->driver->to_host(w->bounce, w->out + at, part, comm_stream(w->comm)),
                "cuMemcpyDtoHAsync", err) < 0 ||
            comm_wait(w->comm, NULL, l, err) < 0)
            return fault(w);
        *bad += pattern_bad(p, part / sizeof *p, at / sizeof *p, op, base->rank, base->ranks);
        at += part;
    }
    return 0;
}

static int share(struct transport *base, uint64_t *value, const struct deadline *l, struct err *err)
{
    struct way *w = (struct way *)base;
    uint64_t *p = w->bounce;
    cu_stream stream = comm_stream(w->comm);

    *p = *value;
    if (gpu(w, w->driver->to_device(w->word, p, sizeof *p, stream), "cuMemcpyHtoDAsync", err) < 0 ||
        comm_broadcast(w->comm, w->word, w->word, sizeof *p, 0, 1, l, err) < 0 ||
        gpu(w, w->driver->to_host(p, w->word, sizeof *p, stream), "cuMemcpyDtoHAsync", err) < 0 ||
        comm_wait(w->comm, NULL, l, err) < 0)
        return fault(w);
    *value = *p;
    return 0;
}

static const struct transport_ops nccl_ops = { "nccl", prepare, run, verify, share, destroy };

struct transport *nccl_transport_create(struct comm *comm, unsigned rank, unsigned ranks,
                                        const struct deadline *l, struct err *err)
{
    struct way *w = calloc(1, sizeof *w);

    if (!w) {
        comm_close(comm, false, l);
        return err_null(err, "out of memory");
    }
    w->base = (struct transport){ &nccl_ops, rank, ranks };
    w->comm = comm;
    w->driver = comm_driver(comm);
    w->limit = l;
    if (gpu(w, w->driver->alloc(&w->word, WORD), "GPU memory", err) < 0 ||
        gpu(w, w->driver->alloc_host(&w->bounce, BOUNCE), "pinned memory", err) < 0 ||
        gpu(w, w->driver->event_create(&w->begin, 0), "cuEventCreate", err) < 0 ||
        gpu(w, w->driver->event_create(&w->end, 0), "cuEventCreate", err) < 0) {
        destroy(&w->base);
        return NULL;
    }
    return &w->base;
}
