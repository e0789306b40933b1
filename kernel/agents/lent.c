/* lent.c - see lent.h. A descriptor is sent before the first chunk that needs it: it is there by then. */
#include "kernel/agents/lent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "protocol/reader.h"
#include "protocol/span_fields.h"

struct lent_blob {
    uint64_t number, size;
    int fd;
};

void lent_release(struct lent *t)
{
    for (size_t i = 0; i < t->n; i++)
        close(t->blob[i].fd);
    free(t->blob);
    buf_release(&t->chunk);
    *t = (struct lent)LENT_INIT;
}

static struct lent_blob *find(const struct lent *t, uint64_t number)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->blob[i].number == number)
            return &t->blob[i];
    return NULL;
}

void lent_drop(struct lent *t, uint64_t blob)
{
    struct lent_blob *b = find(t, blob);

    if (!b)
        return;
    close(b->fd);
    *b = t->blob[--t->n];
    if (t->n == 0)
        buf_release(&t->chunk);
}

/* Takes fd, also when it fails. One that has this number already is another's, or the same once more. */
static int put(struct lent *t, uint64_t number, uint64_t size, int fd)
{
    lent_drop(t, number);
    if (t->n == t->room) {
        const size_t room = t->room ? 2 * t->room : 8;
        struct lent_blob *blob = realloc(t->blob, room * sizeof *blob);

        if (!blob) {
            close(fd);
            return -1;
        }
        t->blob = blob;
        t->room = room;
    }
    t->blob[t->n++] = (struct lent_blob){ number, size, fd };
    return 0;
}

/* Whatever has come. */
static void take(struct lent *t, int socket)
{
    char packet[16];
    int fd;

    while (descriptor_recv(socket, packet, sizeof packet, &fd)) {
        struct reader r = reader_of(packet, sizeof packet);
        const uint64_t number = reader_u64(&r), size = reader_u64(&r);

        if (fd >= 0 && put(t, number, size, fd) < 0)
            log_error("agents", "out of memory for a blob's descriptor");
    }
}

static int read_at(int fd, char *p, size_t n, uint64_t offset, struct err *err)
{
    while (n > 0) {
        const ssize_t k = pread(fd, p, n, (off_t)offset);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return err_set(err, "a blob can't be read: %s", k < 0 ? strerror(errno) : "it is cut short");
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return 0;
}

int lent_fill(struct lent *t, int socket, struct span *chunk, struct err *err)
{
    const uint64_t offset = chunk->v[F_CHUNK_OFFSET].u64;
    const struct lent_blob *b = find(t, chunk->blob);
    size_t n;

    if (!b) {
        take(t, socket);
        b = find(t, chunk->blob);
    }
    if (!b || b->size != chunk->blob_size || offset >= b->size)
        return err_set(err, "blob %" PRIu64 " was not lent to the kernel", chunk->blob);
    n = (size_t)(b->size - offset < SPAN_CHUNK_MAX ? b->size - offset : SPAN_CHUNK_MAX);
    if (buf_reserve(&t->chunk, n) < 0)
        return err_set(err, "out of memory for a chunk");
    if (read_at(b->fd, t->chunk.p, n, offset, err) < 0)
        return -1;
    chunk->v[F_CHUNK_DATA].s = slice_of(t->chunk.p, n);
    return 0;
}
