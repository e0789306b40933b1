/* lent.c - see lent.h. A descriptor is sent before the first chunk that needs it: it is there by
 * then. */
#include "kernel/agents/lent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/rows.h"
#include "protocol/pace.h"
#include "protocol/reader.h"
#include "protocol/span_fields.h"

/* All of it is mapped once: what maps and unmaps a piece for each chunk stops the thread that
 * encrypts, each time. */
struct lent_blob {
    uint64_t number;
    struct slice bytes; /* owned: blob_unmap() */
};

struct lent_taker {
    uint64_t blob;
    uint64_t to; /* as in CHUNK and TAKEN */
    struct pace pace;
};

void lent_release(struct lent *t)
{
    for (size_t i = 0; i < t->n; i++)
        blob_unmap(t->blob[i].bytes);
    free(t->blob);
    free(t->taker);
    *t = (struct lent)LENT_INIT;
}

static struct lent_blob *find(const struct lent *t, uint64_t number)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->blob[i].number == number)
            return &t->blob[i];
    return NULL;
}

static struct lent_taker *find_taker(const struct lent *t, uint64_t blob, uint64_t to)
{
    for (size_t i = 0; i < t->n_takers; i++)
        if (t->taker[i].blob == blob && t->taker[i].to == to)
            return &t->taker[i];
    return NULL;
}

void lent_drop(struct lent *t, uint64_t blob)
{
    struct lent_blob *b = find(t, blob);

    if (!b)
        return;
    for (size_t i = t->n_takers; i-- > 0;)
        if (t->taker[i].blob == blob)
            rows_remove(t->taker, &t->n_takers, sizeof *t->taker, i);
    blob_unmap(b->bytes);
    rows_remove(t->blob, &t->n, sizeof *b, (size_t)(b - t->blob));
}

/* One that is here comes again when it is to be given again. */
static int put(struct lent *t, uint64_t number, uint64_t size, int fd, struct err *err)
{
    struct lent_blob *b = find(t, number);
    struct slice bytes;

    if (b && b->bytes.n == size)
        return 0;
    lent_drop(t, number);
    if (blob_map(fd, (size_t)size, &bytes, err) < 0)
        return -1;
    if (!(b = rows_insert(t->blob, &t->n, &t->room, sizeof *b, t->n, 8))) {
        blob_unmap(bytes);
        return err_set(err, "out of memory");
    }
    t->blob = b;
    t->blob[t->n - 1] = (struct lent_blob){ number, bytes };
    return 0;
}

/* Refuses what its sender could still cut short: its bytes are mapped. */
static int check(uint64_t size, int fd, struct err *err)
{
    uint64_t has = 0;

    if (blob_check(fd, &has, err) < 0)
        return -1;
    return has == size ? 0 : err_set(err, "its file is of another size");
}

/* Whatever has come. */
static void take(struct lent *t, int socket)
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

int lent_begin(struct lent *t, int socket, const struct span *chunk, struct err *err)
{
    const uint64_t to = chunk->v[F_CHUNK_TO].u64, offset = chunk->v[F_CHUNK_OFFSET].u64;
    const struct lent_blob *b;
    struct lent_taker *taker;

    take(t, socket);
    b = find(t, chunk->blob);
    taker = find_taker(t, chunk->blob, to);
    if (!b || b->bytes.n != chunk->blob_size || offset >= chunk->blob_size)
        return err_set(err, "blob %" PRIu64 " was not lent to the kernel", chunk->blob);
    if (!taker) {
        if (!(taker = rows_insert(t->taker, &t->n_takers, &t->room_takers, sizeof *taker,
                                  t->n_takers, 8)))
            return err_set(err, "out of memory for a node that waits for a blob");
        t->taker = taker;
        taker += t->n_takers - 1;
    }
    *taker = (struct lent_taker){ .blob = chunk->blob, .to = to };
    pace_begin(&taker->pace, offset);
    return 0;
}

bool lent_taken(struct lent *t, const struct span *m, uint64_t now_ns)
{
    struct lent_taker *taker = find_taker(t, m->blob, m->v[F_TAKEN_TO].u64);
    const uint64_t bytes = m->v[F_TAKEN_BYTES].u64;

    if (!taker)
        return false;
    if (bytes >= m->blob_size) {
        rows_remove(t->taker, &t->n_takers, sizeof *taker, (size_t)(taker - t->taker));
        return true;
    }
    pace_taken(&taker->pace, bytes, now_ns);
    return true;
}

/* NULL: nobody's next chunk is due. */
static struct lent_taker *next_due(struct lent *t, const struct lent_blob **blob)
{
    for (size_t i = 0; i < t->n_takers; i++) {
        struct lent_taker *taker = &t->taker[(t->turn + i) % t->n_takers];

        *blob = find(t, taker->blob);
        if (taker->pace.sent < (*blob)->bytes.n && pace_is_due(&taker->pace)) {
            t->turn = (size_t)(taker - t->taker) + 1;
            return taker;
        }
    }
    return NULL;
}

bool lent_next(struct lent *t, struct span *m, uint64_t now_ns)
{
    const struct lent_blob *b;
    struct lent_taker *taker = next_due(t, &b);
    size_t at, left;

    if (!taker)
        return false;
    at = (size_t)taker->pace.sent;
    left = b->bytes.n - at;
    *m = (struct span){ .kind = SPAN_CHUNK, .blob = b->number, .blob_size = b->bytes.n };
    m->v[F_CHUNK_TO].u64 = taker->to;
    m->v[F_CHUNK_OFFSET].u64 = at;
    m->v[F_CHUNK_DATA].s = slice_of(b->bytes.p + at, left < SPAN_CHUNK_MAX ? left : SPAN_CHUNK_MAX);
    pace_sent(&taker->pace, m->v[F_CHUNK_DATA].s.n, now_ns);
    return true;
}
