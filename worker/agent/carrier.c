/* carrier.c - see carrier.h. */
#include "worker/agent/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/haul.h"

#define CHUNKS_PER_TURN 4u
#define HEAD_MAX        128u /* more than a CHUNK takes beside its data */
#define MIB_OF(bytes)   (((bytes) + (1u << 20) - 1) >> 20)

struct carrier {
    struct blobs *blobs; /* borrowed */
    struct carrier_doors doors;
    struct hauls hauls;
};

struct carrier *carrier_create(struct blobs *blobs, const struct carrier_doors *doors,
                               struct err *err)
{
    struct carrier *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->blobs = blobs;
    c->doors = *doors;
    return c;
}

void carrier_destroy(struct carrier *c)
{
    if (!c)
        return;
    hauls_release(&c->hauls);
    free(c);
}

bool carrier_expects(const struct carrier *c, uint64_t blob)
{
    const struct haul *h = haul_find(&c->hauls, blob);

    return h && !haul_is_whole(h);
}

bool carrier_is_idle(const struct carrier *c)
{
    return !c->hauls.first;
}

/* ---- messages ---- */

/* The room for an envelope, and `more` bytes of room behind it. */
static int begin(struct buf *msg, size_t more, struct err *err)
{
    static const char room[CARRIER_ROOM];

    if (buf_reserve(msg, sizeof room + HEAD_MAX + more) < 0 || buf_add(msg, room, sizeof room) < 0)
        return err_set(err, "out of memory");
    return 0;
}

static void say(struct carrier *c, uint32_t link, const struct span *m)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    int rc = begin(&msg, 0, &err) < 0 || span_encode(m, &msg, &err) < 0 ? -1 : 0;

    if (rc < 0)
        buf_release(&msg);
    else
        rc = c->doors.send(c->doors.arg, link, &msg);
    /* On a link to another node its end, or its silence, tells the giver, and there is another
     * way. */
    if (rc < 0 && link == CARRIER_KERNEL)
        c->doors.broken(c->doors.arg,
                        err.text[0] ? err.text : "a message about a blob could not be sent");
}

static void say_held(struct carrier *c, uint64_t blob, uint64_t size, const char *error)
{
    const struct span m = {
        .kind = SPAN_HELD, .blob = blob, .blob_size = size, .v[F_HELD_ERROR].s = slice_text(error)
    };

    say(c, CARRIER_KERNEL, &m);
}

static void say_taken(struct carrier *c, uint32_t link, const struct span *chunk, uint64_t to,
                      uint64_t had)
{
    const struct span m = { .kind = SPAN_TAKEN,
                            .blob = chunk->blob,
                            .blob_size = chunk->blob_size,
                            .v[F_TAKEN_TO].u64 = to,
                            .v[F_TAKEN_BYTES].u64 = had };

    say(c, link, &m);
}

/* ---- in ---- */

static void refuse(struct carrier *c, uint64_t blob, uint64_t size, const char *why)
{
    log_warn("carrier", "blob %" PRIu64 ": %s", blob, why);
    say_held(c, blob, size, why);
    c->doors.settled(c->doors.arg, blob, why);
}

/* It can't be kept: who gets it from here must get it elsewhere, as the kernel will see to. */
static void give_up(struct carrier *c, struct haul *h, const char *why)
{
    const uint64_t blob = h->blob, size = h->size;

    haul_remove(&c->hauls, h);
    refuse(c, blob, size, why);
}

/* -1: it would not fit, and *err is for the user. Asked before, for a cgroup kills whoever writes
 * what does not fit. */
static int check_space(struct carrier *c, uint64_t size, struct err *err)
{
    const char *limit = NULL;
    const uint64_t space = c->doors.space ? c->doors.space(c->doors.arg, &limit) : UINT64_MAX;

    if (size <= space)
        return 0;
    return err_set(err,
                   "%s has no room for %" PRIu64 " MiB: %" PRIu64
                   " MiB are free (%s); free memory there, send less, or "
                   "choose a node with more",
                   c->doors.node, (uint64_t)MIB_OF(size), space >> 20, limit ? limit : "memory");
}

static int make_file(struct carrier *c, uint64_t size, struct err *err)
{
    return check_space(c, size, err) < 0 ? -1 : blob_create("cellspan-blob", err);
}

static void on_expect(struct carrier *c, const struct span *m)
{
    const struct blob *b = blobs_get(c->blobs, m->blob);
    struct haul *h = haul_find(&c->hauls, m->blob);
    struct err err = { "" };
    int fd;

    if (b && b->size == m->blob_size) {
        say_held(c, m->blob, m->blob_size, "");
        return;
    }
    if (!h) {
        fd = m->blob_size > INT64_MAX ? err_set(&err, "a blob of %" PRIu64 " bytes", m->blob_size)
                                      : make_file(c, m->blob_size, &err);
        if (fd < 0 || !(h = haul_add(&c->hauls, m->blob, m->blob_size, 0, fd))) {
            refuse(c, m->blob, m->blob_size, err.text[0] ? err.text : "out of memory");
            return;
        }
        h->since_ns = clock_now(c->doors.clock);
    }
    /* the giver must not begin before we are ready */
    if (m->v[F_EXPECT_FROM].u64 != CARRIER_KERNEL)
        say_taken(c, CARRIER_KERNEL, m, 0, h->had);
}

static int keep(struct carrier *c, struct haul *h, struct err *err)
{
    const int fd = blob_seal(h->fd, err) < 0 ? -1 : fcntl(h->fd, F_DUPFD_CLOEXEC, 3);

    if (fd < 0)
        return err_set(err, "%s: a blob can't be kept: %s", c->doors.node, strerror(errno));
    if (blobs_put(c->blobs, h->blob, h->size, fd) < 0)
        return err_set(err, "%s: out of memory", c->doors.node);
    return 0;
}

static void arrive(struct carrier *c, struct haul *h)
{
    const uint64_t blob = h->blob;
    struct err err = { "" };

    if (keep(c, h, &err) < 0) {
        give_up(c, h, err.text);
        return;
    }
    log_info("carrier", "blob %" PRIu64 ": %" PRIu64 " bytes have come in %.4f s", blob, h->size,
             (double)(clock_now(c->doors.clock) - h->since_ns) / (double)NS_PER_S);
    say_held(c, blob, h->size, "");
    if (!h->taker)
        haul_remove(&c->hauls, h);
    c->doors.settled(c->doors.arg, blob, NULL);
}

static void cannot_write(struct carrier *c, struct haul *h, int why)
{
    const char *limit = NULL;
    const uint64_t space = c->doors.space ? c->doors.space(c->doors.arg, &limit) : 0;
    struct err err = { "" };

    (void)err_set(&err,
                  "%s can't keep %" PRIu64 " MiB: %s after %" PRIu64 " MiB (%" PRIu64
                  " MiB are free%s%s)",
                  c->doors.node, (uint64_t)MIB_OF(h->size), strerror(why), h->had >> 20,
                  space >> 20, limit ? ", " : "", limit ? limit : "");
    give_up(c, h, err.text);
}

/* What comes twice, from a second giver, is taken once; what leaves a gap, not at all. */
static void on_chunk(struct carrier *c, uint32_t link, const struct span *m)
{
    const uint64_t offset = m->v[F_CHUNK_OFFSET].u64, to = m->v[F_CHUNK_TO].u64;
    struct slice data = m->v[F_CHUNK_DATA].s;
    struct haul *h = haul_find(&c->hauls, m->blob);

    if (!h || haul_is_whole(h)) {
        if (h || blobs_get(c->blobs, m->blob))
            say_taken(c, link, m, to, m->blob_size);
        return;
    }
    if (offset > h->had || data.n > h->size - offset) {
        log_warn("carrier", "blob %" PRIu64 ": a chunk at %" PRIu64 " does not belong at %" PRIu64,
                 m->blob, offset, h->had);
        return;
    }
    if (offset + data.n > h->had) {
        data = slice_of(data.p + (h->had - offset), data.n - (size_t)(h->had - offset));
        if (blob_write(h->fd, data.p, data.n, h->had, NULL) < 0) {
            cannot_write(c, h, errno);
            return;
        }
        h->had += data.n;
    }
    say_taken(c, link, m, to, h->had);
    if (haul_is_whole(h))
        arrive(c, h);
}

/* ---- out ---- */

/* The haul of a blob that is here or on its way. NULL: it is not. */
static struct haul *haul_of(struct carrier *c, uint64_t blob, struct err *err)
{
    const struct blob *b = blobs_get(c->blobs, blob);
    struct haul *h = haul_find(&c->hauls, blob);
    int fd;

    if (h)
        return h;
    if (!b)
        return err_null(err, "%s has no such blob any more", c->doors.node);
    if ((fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return err_null(err, "%s: no descriptor for a blob: %s", c->doors.node, strerror(errno));
    if (!(h = haul_add(&c->hauls, blob, b->size, b->size, fd)))
        return err_null(err, "%s: out of memory", c->doors.node);
    return h;
}

/* By another way than before, maybe: what was on the old one may be lost, and comes again. */
static void ship(struct carrier *c, struct haul *h, uint32_t to, uint32_t link)
{
    struct taker *t = taker_find(h, to);

    if (!t && !(t = taker_add(h, to, link))) {
        c->doors.broken(c->doors.arg, "out of memory for a node that waits for a blob");
        return;
    }
    t->link = link;
    pace_begin(&t->pace, t->pace.taken);
    t->since_ns = clock_now(c->doors.clock);
}

/* Before the first chunk; where it can't be, the chunks bring the bytes. */
static void lend(struct carrier *c, struct haul *h)
{
    if (!h->lent && haul_is_whole(h) && c->doors.lend)
        h->lent = c->doors.lend(c->doors.arg, h->blob, h->size, h->fd) == 0;
}

static void on_ship(struct carrier *c, const struct span *m)
{
    const uint32_t to = (uint32_t)m->v[F_SHIP_TO].u64;
    struct err err = { "" };
    struct haul *h = haul_of(c, m->blob, &err);

    if (!h) {
        say_held(c, m->blob, m->blob_size, err.text);
        return;
    }
    if (m->v[F_SHIP_THROUGH].u64)
        lend(c, h);
    ship(c, h, to, m->v[F_SHIP_THROUGH].u64 ? CARRIER_KERNEL : to);
}

static void on_taken(struct carrier *c, const struct span *m)
{
    struct haul *h = haul_find(&c->hauls, m->blob);
    struct taker *t = taker_find(h, (uint32_t)m->v[F_TAKEN_TO].u64);
    const uint64_t bytes = m->v[F_TAKEN_BYTES].u64;

    if (!t || bytes > h->size)
        return;
    t->since_ns = clock_now(c->doors.clock);
    pace_taken(&t->pace, bytes, t->since_ns);
    if (t->pace.taken == h->size)
        taker_remove(&c->hauls, h, t);
}

/* How many bytes may go to it now; only whole chunks, but for the last. */
static size_t due(const struct haul *h, const struct taker *t)
{
    const uint64_t there = h->had > t->pace.sent ? h->had - t->pace.sent : 0;

    if (there == 0 || !pace_is_due(&t->pace) || (there < CARRIER_CHUNK && !haul_is_whole(h)))
        return 0;
    return (size_t)(there < CARRIER_CHUNK ? there : CARRIER_CHUNK);
}

/* The message with n bytes of the blob. */
static int make_chunk(const struct carrier *c, const struct haul *h, const struct taker *t,
                      size_t n, struct buf *msg, struct err *err)
{
    const struct span m = { .kind = SPAN_CHUNK,
                            .blob = h->blob,
                            .blob_size = h->size,
                            .v[F_CHUNK_TO].u64 = t->to,
                            .v[F_CHUNK_OFFSET].u64 = t->pace.sent };
    struct err why = { "" };
    char *bytes = begin(msg, n, &why) < 0 ? NULL : span_encode_room(&m, n, msg, &why);

    if (!bytes || blob_read(h->fd, bytes, n, t->pace.sent, &why) < 0)
        return err_set(err, "%s: %s", c->doors.node, why.text);
    return 0;
}

/* The taker gets it by another way, once the kernel knows. */
static void cut_off(struct carrier *c, struct haul *h, struct taker *t, const char *why)
{
    const struct span m = { .kind = SPAN_OPENED,
                            .blob = h->blob,
                            .blob_size = h->size,
                            .v[F_OPENED_NODE].u64 = t->link,
                            .v[F_OPENED_ERROR].s = slice_text(why) };

    log_warn("carrier", "blob %" PRIu64 ": no way to node %u: %s", h->blob, t->to, why);
    taker_remove(&c->hauls, h, t);
    say(c, CARRIER_KERNEL, &m);
}

/* One chunk for this taker; where the kernel gives, one without bytes says from where. -1: takers
 * or hauls are gone. */
static int give(struct carrier *c, struct haul *h, struct taker *t, size_t n)
{
    const bool by_kernel = h->lent && t->link == CARRIER_KERNEL;
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    uint64_t now;

    n = by_kernel ? 0 : n;
    if (make_chunk(c, h, t, n, &msg, &err) < 0) {
        buf_release(&msg);
        give_up(c, h, err.text);
        return -1;
    }
    if (c->doors.send(c->doors.arg, t->link, &msg) < 0) {
        cut_off(c, h, t, "there is no link to it");
        return -1;
    }
    if (by_kernel) {
        taker_remove(&c->hauls, h, t);
        return -1;
    }
    now = clock_now(c->doors.clock);
    if (t->pace.sent == t->pace.taken)
        t->since_ns = now;
    pace_sent(&t->pace, n, now);
    return 0;
}

/* One chunk for each that is due, at most `most`. -1: a taker is gone, so that the round ends
 * early. */
static int give_round(struct carrier *c, unsigned most)
{
    unsigned n = 0;

    for (struct haul *h = c->hauls.first; h; h = h->next)
        for (struct taker *t = h->taker; t && n < most; t = t->next) {
            const size_t bytes = due(h, t);

            if (bytes && give(c, h, t, bytes) < 0)
                return -1;
            n += bytes != 0;
        }
    return (int)n;
}

bool carrier_work(struct carrier *c)
{
    unsigned left = CHUNKS_PER_TURN;
    int n;

    while (left && (n = give_round(c, left)) != 0)
        left -= n < 0 ? 1 : (unsigned)n;
    return left == 0;
}

/* ---- the rest ---- */

void carrier_message(struct carrier *c, uint32_t link, const struct span *m)
{
    if (m->blob == 0 || m->blob_size == 0)
        return;
    switch (m->kind) {
    case SPAN_CHUNK:
        on_chunk(c, link, m);
        break;
    case SPAN_TAKEN:
        on_taken(c, m);
        break;
    case SPAN_EXPECT:
        link == CARRIER_KERNEL ? on_expect(c, m) : (void)0;
        break;
    case SPAN_SHIP:
        link == CARRIER_KERNEL ? on_ship(c, m) : (void)0;
        break;
    default:
        break;
    }
}

void carrier_drop(struct carrier *c, uint64_t blob)
{
    struct haul *h = haul_find(&c->hauls, blob);
    const bool expected = h && !haul_is_whole(h);

    if (h)
        haul_remove(&c->hauls, h);
    if (expected)
        c->doors.settled(c->doors.arg, blob, "the node that had it is gone");
}

void carrier_unwanted(struct carrier *c, uint64_t blob)
{
    struct haul *h = haul_find(&c->hauls, blob);

    if (h && !haul_is_whole(h))
        give_up(c, h, "nobody waits for it any more");
}

/* Cuts off the first taker for whom it is time; false: there is none. */
static bool cut_first(struct carrier *c, uint32_t link, uint64_t before_ns, const char *why)
{
    for (struct haul *h = c->hauls.first; h; h = h->next)
        for (struct taker *t = h->taker; t; t = t->next)
            if (t->link != CARRIER_KERNEL &&
                (t->link == link || (t->pace.sent > t->pace.taken && t->since_ns < before_ns))) {
                cut_off(c, h, t, why);
                return true;
            }
    return false;
}

void carrier_unlinked(struct carrier *c, uint32_t link, const char *why)
{
    while (cut_first(c, link, 0, why))
        ;
}

void carrier_check(struct carrier *c, uint64_t limit_ns)
{
    const uint64_t now = clock_now(c->doors.clock);

    while (now > limit_ns && cut_first(c, CARRIER_KERNEL, now - limit_ns, "it does not answer"))
        ;
}
