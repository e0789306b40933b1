/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/blobs/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/blob.h"
#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/blobs/transfer_table.h"

#define CHUNKS_PER_TURN 4u
#define LATE_NS         (4 * NS_PER_S) /* checks are a second apart, unless this process stood still */
#define HEAD_MAX        128u           /* bytes; more than a CHUNK needs beside its data */
#define MIB_OF(bytes)   (((bytes) + (1u << 20) - 1) >> 20)

struct transfers {
    struct blobs *blobs; /* borrowed */
    struct transfers_ops ops;
    struct transfer_table table;
    uint64_t checked_ns; /* when transfers_check() was called */
};

struct transfers *transfers_create(struct blobs *blobs, const struct transfers_ops *ops,
                                   struct err *err)
{
    struct transfers *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->blobs = blobs;
    c->ops = *ops;
    return c;
}

void transfers_destroy(struct transfers *c)
{
    if (!c)
        return;
    transfer_table_release(&c->table);
    free(c);
}

bool transfers_expects(const struct transfers *c, uint64_t blob)
{
    const struct transfer *t = transfer_table_find(&c->table, blob);

    return t && !transfer_is_whole(t);
}

bool transfers_is_idle(const struct transfers *c)
{
    return !c->table.first;
}

/* ---- messages ---- */

/* Leaves space for an envelope, and reserves `more` bytes behind it. */
static int begin(struct buf *msg, size_t more, struct err *err)
{
    static const char room[TRANSFERS_ROOM];

    if (buf_reserve(msg, sizeof room + HEAD_MAX + more) < 0 || buf_add(msg, room, sizeof room) < 0)
        return err_set(err, "out of memory");
    return 0;
}

static void say(struct transfers *c, uint32_t link, const struct span *m)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    int rc = begin(&msg, 0, &err) < 0 || span_encode(m, &msg, &err) < 0 ? -1 : 0;

    if (rc < 0)
        buf_release(&msg);
    else
        rc = c->ops.send(c->ops.arg, link, &msg);
    /* If another node can't be told, it notices that the connection ended or is silent, and the
     * kernel chooses another route. */
    if (rc < 0 && link == TRANSFERS_KERNEL)
        c->ops.broken(c->ops.arg,
                      err.text[0] ? err.text : "a message about a value could not be sent");
}

static void say_stored(struct transfers *c, uint64_t blob, uint64_t size, const char *error)
{
    const struct span m = { .kind = SPAN_STORED,
                            .blob = blob,
                            .blob_size = size,
                            .v[F_STORED_ERROR].s = slice_text(error) };

    say(c, TRANSFERS_KERNEL, &m);
}

static void say_ack(struct transfers *c, uint32_t link, const struct span *chunk, uint64_t to,
                    uint64_t had)
{
    const struct span m = { .kind = SPAN_CHUNK_ACK,
                            .blob = chunk->blob,
                            .blob_size = chunk->blob_size,
                            .v[F_CHUNK_ACK_TO].u64 = to,
                            .v[F_CHUNK_ACK_BYTES].u64 = had };

    say(c, link, &m);
}

/* ---- in ---- */

static void refuse(struct transfers *c, uint64_t blob, uint64_t size, const char *why)
{
    log_warn("transfers", "blob %" PRIu64 ": %s", blob, why);
    say_stored(c, blob, size, why);
    c->ops.settled(c->ops.arg, blob, why);
}

/* The blob can't be kept here. The kernel finds another sender for those that were to get it from
 * here. */
static void give_up(struct transfers *c, struct transfer *t, const char *why)
{
    const uint64_t blob = t->blob, size = t->size;

    transfer_table_remove(&c->table, t);
    refuse(c, blob, size, why);
}

/* -1: it would not fit, and *err is for the user. This is checked first, because a control group
 * kills a process that writes too much. */
static int check_space(struct transfers *c, uint64_t size, struct err *err)
{
    const char *limit = NULL;
    const uint64_t space = c->ops.free_memory ? c->ops.free_memory(c->ops.arg, &limit) : UINT64_MAX;

    if (size <= space)
        return 0;
    return err_set(err,
                   "%s has no room for %" PRIu64 " MiB: %" PRIu64
                   " MiB are free (%s); free memory there, send less, or "
                   "choose a node with more",
                   c->ops.node, (uint64_t)MIB_OF(size), space >> 20, limit ? limit : "memory");
}

static int make_file(struct transfers *c, uint64_t size, struct err *err)
{
    return check_space(c, size, err) < 0 ? -1 : blob_create("cellspan-blob", err);
}

static void on_expect(struct transfers *c, const struct span *m)
{
    const struct blob *b = blobs_get(c->blobs, m->blob);
    struct transfer *t = transfer_table_find(&c->table, m->blob);
    struct err err = { "" };
    int fd;

    if (b && b->size == m->blob_size) {
        say_stored(c, m->blob, m->blob_size, "");
        return;
    }
    if (!t) {
        fd = m->blob_size > INT64_MAX
                 ? err_set(&err, "a value of %" PRIu64 " bytes is too large", m->blob_size)
                 : make_file(c, m->blob_size, &err);
        if (fd < 0 || !(t = transfer_table_add(&c->table, m->blob, m->blob_size, 0, fd))) {
            refuse(c, m->blob, m->blob_size, err.text[0] ? err.text : "out of memory");
            return;
        }
        t->since_ns = clock_now(c->ops.clock);
    }
    /* the sender begins only after this answer */
    if (m->v[F_EXPECT_FROM].u64 != TRANSFERS_KERNEL)
        say_ack(c, TRANSFERS_KERNEL, m, 0, t->had);
}

static int keep(struct transfers *c, struct transfer *t, struct err *err)
{
    const int fd = blob_seal(t->fd, err) < 0 ? -1 : fcntl(t->fd, F_DUPFD_CLOEXEC, 3);

    if (fd < 0)
        return err_set(err, "%s: a value can't be kept: %s", c->ops.node, strerror(errno));
    if (blobs_put(c->blobs, t->blob, t->size, fd) < 0)
        return err_set(err, "%s: out of memory", c->ops.node);
    return 0;
}

static void arrive(struct transfers *c, struct transfer *t)
{
    const uint64_t blob = t->blob;
    struct err err = { "" };

    if (keep(c, t, &err) < 0) {
        give_up(c, t, err.text);
        return;
    }
    log_info("transfers", "blob %" PRIu64 ": %" PRIu64 " bytes have come in %.4f s", blob, t->size,
             (double)(clock_now(c->ops.clock) - t->since_ns) / (double)NS_PER_S);
    say_stored(c, blob, t->size, "");
    if (!t->receiver)
        transfer_table_remove(&c->table, t);
    c->ops.settled(c->ops.arg, blob, NULL);
}

static void cannot_write(struct transfers *c, struct transfer *t, int why)
{
    const char *limit = NULL;
    const uint64_t space = c->ops.free_memory ? c->ops.free_memory(c->ops.arg, &limit) : 0;
    struct err err = { "" };

    (void)err_set(&err,
                  "%s can't keep %" PRIu64 " MiB: %s after %" PRIu64 " MiB (%" PRIu64
                  " MiB are free%s%s)",
                  c->ops.node, (uint64_t)MIB_OF(t->size), strerror(why), t->had >> 20, space >> 20,
                  limit ? ", " : "", limit ? limit : "");
    give_up(c, t, err.text);
}

/* Bytes that are here already, from another sender, are skipped. A chunk that would leave a gap is
 * dropped. */
static void on_chunk(struct transfers *c, uint32_t link, const struct span *m)
{
    const uint64_t offset = m->v[F_CHUNK_OFFSET].u64, to = m->v[F_CHUNK_TO].u64;
    struct slice data = m->v[F_CHUNK_DATA].s;
    struct transfer *t = transfer_table_find(&c->table, m->blob);

    if (!t || transfer_is_whole(t)) {
        if (t || blobs_get(c->blobs, m->blob))
            say_ack(c, link, m, to, m->blob_size);
        return;
    }
    if (offset > t->had || data.n > t->size - offset) {
        log_warn("transfers",
                 "blob %" PRIu64 ": a chunk at %" PRIu64 " does not belong at %" PRIu64, m->blob,
                 offset, t->had);
        return;
    }
    if (offset + data.n > t->had) {
        data = slice_of(data.p + (t->had - offset), data.n - (size_t)(t->had - offset));
        if (blob_write(t->fd, data.p, data.n, t->had, NULL) < 0) {
            cannot_write(c, t, errno);
            return;
        }
        t->had += data.n;
    }
    say_ack(c, link, m, to, t->had);
    if (transfer_is_whole(t))
        arrive(c, t);
}

/* ---- out ---- */

/* The transfer of a blob that is here or on its way; NULL: it is neither. */
static struct transfer *transfer_of(struct transfers *c, uint64_t blob, struct err *err)
{
    const struct blob *b = blobs_get(c->blobs, blob);
    struct transfer *t = transfer_table_find(&c->table, blob);
    int fd;

    if (t)
        return t;
    if (!b)
        return err_null(err, "%s does not have that value any more: run the cell again",
                        c->ops.node);
    if ((fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return err_null(err, "%s: no descriptor for a value: %s", c->ops.node, strerror(errno));
    if (!(t = transfer_table_add(&c->table, blob, b->size, b->size, fd)))
        return err_null(err, "%s: out of memory", c->ops.node);
    return t;
}

/* The way may be a new one: bytes on the old way may be lost, so they are sent again. */
static void ship(struct transfers *c, struct transfer *t, uint32_t to, uint32_t link)
{
    struct receiver *r = receiver_find(t, to);

    if (!r && !(r = receiver_add(t, to, link))) {
        c->ops.broken(c->ops.arg, "out of memory for a machine that waits for a value");
        return;
    }
    r->link = link;
    send_window_begin(&r->window, r->window.acked);
    r->since_ns = clock_now(c->ops.clock);
}

/* Gives the kernel the descriptor before the first chunk. If that fails, chunks carry the bytes. */
static void share_fd(struct transfers *c, struct transfer *t)
{
    if (!t->shared && transfer_is_whole(t) && c->ops.share_fd)
        t->shared = c->ops.share_fd(c->ops.arg, t->blob, t->size, t->fd) == 0;
}

static void on_ship(struct transfers *c, const struct span *m)
{
    const uint32_t to = (uint32_t)m->v[F_SHIP_TO].u64;
    struct err err = { "" };
    struct transfer *t = transfer_of(c, m->blob, &err);

    if (!t) {
        say_stored(c, m->blob, m->blob_size, err.text);
        return;
    }
    if (m->v[F_SHIP_THROUGH].u64)
        share_fd(c, t);
    ship(c, t, to, m->v[F_SHIP_THROUGH].u64 ? TRANSFERS_KERNEL : to);
}

static void on_chunk_ack(struct transfers *c, const struct span *m)
{
    struct transfer *t = transfer_table_find(&c->table, m->blob);
    struct receiver *r = receiver_find(t, (uint32_t)m->v[F_CHUNK_ACK_TO].u64);
    const uint64_t bytes = m->v[F_CHUNK_ACK_BYTES].u64;

    if (!r || bytes > t->size)
        return;
    r->since_ns = clock_now(c->ops.clock);
    send_window_acked(&r->window, bytes, r->since_ns);
    if (r->window.acked == t->size)
        receiver_remove(&c->table, t, r);
}

/* How many bytes may be sent to it now. Only the last chunk may be short. */
static size_t due(const struct transfer *t, const struct receiver *r)
{
    const uint64_t there = t->had > r->window.sent ? t->had - r->window.sent : 0;

    if (there == 0 || !send_window_is_due(&r->window) ||
        (there < TRANSFERS_CHUNK && !transfer_is_whole(t)))
        return 0;
    return (size_t)(there < TRANSFERS_CHUNK ? there : TRANSFERS_CHUNK);
}

/* The message with n bytes of the blob. */
static int make_chunk(const struct transfers *c, const struct transfer *t, const struct receiver *r,
                      size_t n, struct buf *msg, struct err *err)
{
    const struct span m = { .kind = SPAN_CHUNK,
                            .blob = t->blob,
                            .blob_size = t->size,
                            .v[F_CHUNK_TO].u64 = r->to,
                            .v[F_CHUNK_OFFSET].u64 = r->window.sent };
    struct err why = { "" };
    char *bytes = begin(msg, n, &why) < 0 ? NULL : span_encode_room(&m, n, msg, &why);

    if (!bytes || blob_read(t->fd, bytes, n, r->window.sent, &why) < 0)
        return err_set(err, "%s: %s", c->ops.node, why.text);
    return 0;
}

/* The kernel is told, and finds another way to this receiver. */
static void cut_off(struct transfers *c, struct transfer *t, struct receiver *r, const char *why)
{
    const struct span m = { .kind = SPAN_OPENED,
                            .blob = t->blob,
                            .blob_size = t->size,
                            .v[F_OPENED_NODE].u64 = r->link,
                            .v[F_OPENED_ERROR].s = slice_text(why) };

    log_warn("transfers", "blob %" PRIu64 ": no way to node %u: %s", t->blob, r->to, why);
    receiver_remove(&c->table, t, r);
    say(c, TRANSFERS_KERNEL, &m);
}

/* Sends one chunk to this receiver. If the kernel sends the bytes itself, the chunk is empty and
 * says where to begin. -1: a receiver or the transfer was removed. */
static int give(struct transfers *c, struct transfer *t, struct receiver *r, size_t n)
{
    const bool by_kernel = t->shared && r->link == TRANSFERS_KERNEL;
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    uint64_t now;

    n = by_kernel ? 0 : n;
    if (make_chunk(c, t, r, n, &msg, &err) < 0) {
        buf_release(&msg);
        give_up(c, t, err.text);
        return -1;
    }
    if (c->ops.send(c->ops.arg, r->link, &msg) < 0) {
        cut_off(c, t, r, "there is no link to it");
        return -1;
    }
    if (by_kernel) {
        receiver_remove(&c->table, t, r);
        return -1;
    }
    now = clock_now(c->ops.clock);
    if (r->window.sent == r->window.acked)
        r->since_ns = now;
    send_window_sent(&r->window, n, now);
    return 0;
}

/* Sends one chunk to each receiver that may get one, at most `most` in all. -1: a receiver was
 * removed, so the round ended early. */
static int give_round(struct transfers *c, unsigned most)
{
    unsigned n = 0;

    for (struct transfer *t = c->table.first; t; t = t->next)
        for (struct receiver *r = t->receiver; r && n < most; r = r->next) {
            const size_t bytes = due(t, r);

            if (bytes && give(c, t, r, bytes) < 0)
                return -1;
            n += bytes != 0;
        }
    return (int)n;
}

bool transfers_work(struct transfers *c)
{
    unsigned left = CHUNKS_PER_TURN;
    int n;

    while (left && (n = give_round(c, left)) != 0)
        left -= n < 0 ? 1 : (unsigned)n;
    return left == 0;
}

/* ---- the rest ---- */

void transfers_message(struct transfers *c, uint32_t link, const struct span *m)
{
    if (m->blob == 0 || m->blob_size == 0)
        return;
    if (m->kind == SPAN_CHUNK)
        on_chunk(c, link, m);
    else if (m->kind == SPAN_CHUNK_ACK)
        on_chunk_ack(c, m);
    else if (m->kind == SPAN_EXPECT && link == TRANSFERS_KERNEL)
        on_expect(c, m);
    else if (m->kind == SPAN_SHIP && link == TRANSFERS_KERNEL)
        on_ship(c, m);
}

void transfers_drop(struct transfers *c, uint64_t blob)
{
    struct transfer *t = transfer_table_find(&c->table, blob);
    const bool expected = t && !transfer_is_whole(t);

    if (t)
        transfer_table_remove(&c->table, t);
    if (expected)
        c->ops.settled(c->ops.arg, blob, "the node that had it is gone");
}

void transfers_unwanted(struct transfers *c, uint64_t blob)
{
    struct transfer *t = transfer_table_find(&c->table, blob);

    if (t && !transfer_is_whole(t))
        give_up(c, t, "nobody waits for it any more");
}

void transfers_resumed(struct transfers *c)
{
    for (struct transfer *t = c->table.first; t; t = t->next) {
        const struct span chunk = { .blob = t->blob, .blob_size = t->size };

        for (struct receiver *r = t->receiver; r; r = r->next)
            if (r->link == TRANSFERS_KERNEL)
                send_window_begin(&r->window, r->window.acked);
        if (!transfer_is_whole(t))
            say_ack(c, TRANSFERS_KERNEL, &chunk, 0, t->had);
    }
}

/* Cuts off the first receiver that matches; false: there is none. */
static bool cut_first(struct transfers *c, uint32_t link, uint64_t before_ns, const char *why)
{
    for (struct transfer *t = c->table.first; t; t = t->next)
        for (struct receiver *r = t->receiver; r; r = r->next)
            if (r->link != TRANSFERS_KERNEL &&
                (r->link == link ||
                 (r->window.sent > r->window.acked && r->since_ns < before_ns))) {
                cut_off(c, t, r, why);
                return true;
            }
    return false;
}

void transfers_unlinked(struct transfers *c, uint32_t link, const char *why)
{
    while (cut_first(c, link, 0, why))
        ;
}

void transfers_stand_still(struct transfers *c)
{
    const uint64_t now = clock_now(c->ops.clock);

    c->checked_ns = now;
    for (struct transfer *t = c->table.first; t; t = t->next)
        for (struct receiver *r = t->receiver; r; r = r->next)
            r->since_ns = now;
}

void transfers_check(struct transfers *c, uint64_t limit_ns)
{
    const uint64_t now = clock_now(c->ops.clock);

    if (now - c->checked_ns > LATE_NS) /* answers may be there that nobody has read */
        transfers_stand_still(c);
    c->checked_ns = now;
    while (now > limit_ns && cut_first(c, TRANSFERS_KERNEL, now - limit_ns, "it does not answer"))
        ;
}
