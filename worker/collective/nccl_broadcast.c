/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/nccl_broadcast.h"

#include <stdlib.h>

#include "base/blob.h"

#define SLOTS 2u

/* A chunk in transfer. */
struct slot {
    void *host;        /* pinned */
    cu_pointer device; /* buffer for a chunk that does not stay on the GPU */
    cu_event done;
    bool busy;
    int fd; /* >= 0: write the bytes there when the chunk is done */
    uint64_t offset, size;
};

struct nccl_broadcast {
    struct comm *comm;
    const struct cuda_driver *driver;
    const struct deadline *limit;
    unsigned rank, root;
    struct slot slot[SLOTS];
};

/* Waits for the slot's chunk and writes it to its descriptor. */
static int slot_empty(struct nccl_broadcast *c, struct slot *s, struct err *err)
{
    if (!s->busy)
        return 0;
    s->busy = false;
    if (comm_wait(c->comm, s->done, c->limit, err) < 0)
        return -1;
    return s->fd < 0 ? 0 : blob_write(s->fd, s->host, s->size, s->offset, err);
}

/* Enqueues one chunk; `device` 0: uses the slot's own buffer. */
static int slot_send(struct nccl_broadcast *c, struct slot *s, int fd, uint64_t offset,
                     uint64_t size, cu_pointer device, struct err *err)
{
    const struct cuda_driver *d = c->driver;
    const cu_pointer where = device ? device : s->device;
    const bool root = c->rank == c->root;
    cu_stream stream = comm_stream(c->comm);

    if (root && (blob_read(fd, s->host, size, offset, err) < 0 ||
                 cuda_driver_check(d, d->to_device(where, s->host, size, stream),
                                   "cuMemcpyHtoDAsync", err) < 0))
        return -1;
    if (comm_broadcast(c->comm, where, where, size, c->root, 1, c->limit, err) < 0)
        return -1;
    s->fd = root || device ? -1 : fd;
    s->offset = offset;
    s->size = size;
    if (s->fd >= 0 && cuda_driver_check(d, d->to_host(s->host, where, size, stream),
                                        "cuMemcpyDtoHAsync", err) < 0)
        return -1;
    s->busy = true;
    return cuda_driver_check(d, d->event_record(s->done, stream), "cuEventRecord", err);
}

int nccl_broadcast_bytes(struct nccl_broadcast *c, int fd, uint64_t offset, uint64_t size,
                         cu_pointer device, struct err *err)
{
    unsigned turn = 0;

    for (uint64_t at = 0; at < size; turn++) {
        const uint64_t part = size - at < BROADCAST_CHUNK ? size - at : BROADCAST_CHUNK;
        struct slot *s = &c->slot[turn % SLOTS];

        if (slot_empty(c, s, err) < 0 ||
            slot_send(c, s, fd, offset + at, part, device ? device + at : 0, err) < 0)
            return -1;
        at += part;
    }
    for (unsigned i = 0; i < SLOTS; i++, turn++)
        if (slot_empty(c, &c->slot[turn % SLOTS], err) < 0)
            return -1;
    return 0;
}

static int slot_init(struct nccl_broadcast *c, struct slot *s, struct err *err)
{
    const struct cuda_driver *d = c->driver;

    if (cuda_driver_check(d, d->alloc_host(&s->host, BROADCAST_CHUNK),
                          "pinned memory for variables", err) < 0 ||
        cuda_driver_check(d, d->alloc(&s->device, BROADCAST_CHUNK),
                          "GPU memory for variables on their way", err) < 0)
        return -1;
    return cuda_driver_check(d, d->event_create(&s->done, 0), "cuEventCreate", err);
}

struct nccl_broadcast *nccl_broadcast_create(struct comm *comm, unsigned rank, unsigned root,
                                             const struct deadline *l, struct err *err)
{
    struct nccl_broadcast *c = calloc(1, sizeof *c);

    if (!c) {
        comm_close(comm, false, l);
        return err_null(err, "out of memory");
    }
    c->comm = comm;
    c->driver = comm_driver(comm);
    c->limit = l;
    c->rank = rank;
    c->root = root;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slot_init(c, &c->slot[i], err) < 0) {
            nccl_broadcast_close(c, false);
            return NULL;
        }
    }
    return c;
}

void nccl_broadcast_close(struct nccl_broadcast *c, bool well)
{
    const struct cuda_driver *d;

    if (!c)
        return;
    d = c->driver;
    for (unsigned i = 0, frees = comm_end(c->comm, well, c->limit) ? SLOTS : 0; i < frees; i++) {
        if (c->slot[i].host)
            d->release_host(c->slot[i].host);
        if (c->slot[i].device)
            d->release(c->slot[i].device);
        if (c->slot[i].done)
            d->event_destroy(c->slot[i].done);
    }
    comm_close(c->comm, false, c->limit);
    free(c);
}
