/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent sends a descriptor before the first chunk that needs it, so that it is there by then.
 */
#include "kernel/blobs/local_blobs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/rows.h"
#include "protocol/send_window.h"
#include "protocol/bytes.h"
#include "protocol/span_fields.h"

/* The whole blob is mapped once. To map and unmap a piece for each chunk would stop the thread
 * that encrypts, each time. */
struct local_blob {
    uint64_t number;
    struct slice bytes; /* owned: blob_unmap() */
};

struct local_blob_receiver {
    uint64_t blob;
    uint64_t to; /* as in CHUNK and CHUNK_ACK */
    struct send_window window;
};

void local_blobs_release(struct local_blobs *t)
{
    for (size_t i = 0; i < t->n; i++)
        blob_unmap(t->blob[i].bytes);
    free(t->blob);
    free(t->receiver);
    *t = (struct local_blobs)LOCAL_BLOBS_INIT;
}

static struct local_blob *find(const struct local_blobs *t, uint64_t number)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->blob[i].number == number)
            return &t->blob[i];
    return NULL;
}

static struct local_blob_receiver *find_receiver(const struct local_blobs *t, uint64_t blob,
                                                 uint64_t to)
{
    for (size_t i = 0; i < t->n_receivers; i++)
        if (t->receiver[i].blob == blob && t->receiver[i].to == to)
            return &t->receiver[i];
    return NULL;
}

void local_blobs_drop(struct local_blobs *t, uint64_t blob)
{
    struct local_blob *b = find(t, blob);

    if (!b)
        return;
    for (size_t i = t->n_receivers; i-- > 0;)
        if (t->receiver[i].blob == blob)
            rows_remove(t->receiver, &t->n_receivers, sizeof *t->receiver, i);
    blob_unmap(b->bytes);
    rows_remove(t->blob, &t->n, sizeof *b, (size_t)(b - t->blob));
}

/* The agent shares a blob again when it is to be sent again. */
static int put(struct local_blobs *t, uint64_t number, uint64_t size, int fd, struct err *err)
{
    struct local_blob *b = find(t, number);
    struct slice bytes;

    if (b && b->bytes.n == size)
        return 0;
    local_blobs_drop(t, number);
    if (blob_map(fd, (size_t)size, &bytes, err) < 0)
        return -1;
    if (!(b = rows_add(&t->blob, &t->n, &t->room, sizeof *b))) {
        blob_unmap(bytes);
        return err_set(err, "out of memory");
    }
    *b = (struct local_blob){ number, bytes };
    return 0;
}

/* Refuses a file that its sender could still cut short: reading the mapped bytes would then kill
 * the kernel. */
static int check(uint64_t size, int fd, struct err *err)
{
    uint64_t has = 0;

    if (blob_check(fd, &has, err) < 0)
        return -1;
    return has == size ? 0 : err_set(err, "its file is of another size");
}

/* Takes all descriptors that have arrived. */
static void take(struct local_blobs *t, int socket)
{
    char packet[16];
    int fd;

    while (descriptor_recv(socket, packet, sizeof packet, &fd)) {
        struct reader r = reader_of(packet, sizeof packet);
        const uint64_t number = reader_u64(&r), size = reader_u64(&r);
        struct err err = { "" };

        if (fd < 0)
            continue;
        if (check(size, fd, &err) < 0 || put(t, number, size, fd, &err) < 0)
            log_warn("agents",
                     "blob %" PRIu64 " of %" PRIu64
                     " bytes is not taken from this machine's agent: %s",
                     number, size, err.text);
        close(fd);
    }
}

int local_blobs_begin(struct local_blobs *t, int socket, const struct span *chunk, struct err *err)
{
    const uint64_t to = chunk->v[F_CHUNK_TO].u64, offset = chunk->v[F_CHUNK_OFFSET].u64;
    const struct local_blob *b;
    struct local_blob_receiver *receiver;

    take(t, socket);
    b = find(t, chunk->blob);
    receiver = find_receiver(t, chunk->blob, to);
    if (!b || b->bytes.n != chunk->blob_size || offset >= chunk->blob_size)
        return err_set(err, "a value of %" PRIu64 " bytes was not on this machine",
                       chunk->blob_size);
    if (!receiver &&
        !(receiver = rows_add(&t->receiver, &t->n_receivers, &t->room_receivers, sizeof *receiver)))
        return err_set(err, "out of memory for a machine that waits for a value");
    *receiver = (struct local_blob_receiver){ .blob = chunk->blob, .to = to };
    send_window_begin(&receiver->window, offset);
    return 0;
}

bool local_blobs_acked(struct local_blobs *t, const struct span *m, uint64_t now_ns)
{
    struct local_blob_receiver *receiver = find_receiver(t, m->blob, m->v[F_CHUNK_ACK_TO].u64);
    const uint64_t bytes = m->v[F_CHUNK_ACK_BYTES].u64;

    if (!receiver)
        return false;
    if (bytes >= m->blob_size) {
        rows_remove(t->receiver, &t->n_receivers, sizeof *receiver,
                    (size_t)(receiver - t->receiver));
        return true;
    }
    send_window_acked(&receiver->window, bytes, now_ns);
    return true;
}

bool local_blobs_again(struct local_blobs *t, const struct span *ship)
{
    struct local_blob_receiver *receiver = find_receiver(t, ship->blob, ship->v[F_SHIP_TO].u64);

    if (!receiver || !ship->v[F_SHIP_THROUGH].u64)
        return false;
    send_window_begin(&receiver->window, receiver->window.acked);
    return true;
}

/* NULL: no receiver may get a chunk now. */
static struct local_blob_receiver *next_due(struct local_blobs *t, const struct local_blob **blob)
{
    for (size_t i = 0; i < t->n_receivers; i++) {
        struct local_blob_receiver *receiver = &t->receiver[(t->turn + i) % t->n_receivers];

        *blob = find(t, receiver->blob);
        if (receiver->window.sent < (*blob)->bytes.n && send_window_is_due(&receiver->window)) {
            t->turn = (size_t)(receiver - t->receiver) + 1;
            return receiver;
        }
    }
    return NULL;
}

bool local_blobs_next(struct local_blobs *t, struct span *m, uint64_t now_ns)
{
    const struct local_blob *b;
    struct local_blob_receiver *receiver = next_due(t, &b);
    size_t at, left;

    if (!receiver)
        return false;
    at = (size_t)receiver->window.sent;
    left = b->bytes.n - at;
    *m = (struct span){ .kind = SPAN_CHUNK, .blob = b->number, .blob_size = b->bytes.n };
    m->v[F_CHUNK_TO].u64 = receiver->to;
    m->v[F_CHUNK_OFFSET].u64 = at;
    m->v[F_CHUNK_DATA].s = slice_of(b->bytes.p + at, left < SPAN_CHUNK_MAX ? left : SPAN_CHUNK_MAX);
    send_window_sent(&receiver->window, m->v[F_CHUNK_DATA].s.n, now_ns);
    return true;
}
