/* SPDX-License-Identifier: BSD-3-Clause */
/* Blobs that an agent on this machine lends to the kernel, which sends them to other nodes. */
#include "kernel/blobs/local_blobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/descriptor.h"
#include "protocol/span_fields.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/tap.h"

#define LENT (2 * SPAN_CHUNK_WINDOW)

static void share_fd(int socket, uint64_t blob, uint64_t size, int fd, size_t packet)
{
    const uint64_t words[2] = { blob, size };

    ok(descriptor_send(socket, words, packet, fd) == 0, "the agent lends %llu bytes",
       (unsigned long long)size);
}

static void what_was_not_shared(void)
{
    struct span m = { .kind = SPAN_CHUNK, .blob = 5, .blob_size = 10 };
    const unsigned files = open_descriptors();
    int socket[2], fd = blob_of("test", "only these", 10, NULL), soft = blob_create("test", NULL);
    struct local_blobs t = LOCAL_BLOBS_INIT;
    struct err err = { "" };

    ok(fd >= 0 && descriptor_pair(socket) == 0, "a blob");
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && strstr(err.text, "not on this machine"),
       "nothing was local: %s", err.text);
    share_fd(socket[1], 5, 10, fd, 9);
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && t.n == 0, "a packet that is too short");
    share_fd(socket[1], 5, 11, fd, 16);
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && t.n == 0,
       "a blob that is shorter than its holder says");
    ok(blob_write(soft, "only these", 10, 0, NULL) == 0, "one that is not sealed");
    share_fd(socket[1], 5, 10, soft, 16);
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && t.n == 0, "could still be cut short");
    share_fd(socket[1], 5, 10, fd, 16);
    m.v[F_CHUNK_OFFSET].u64 = 10;
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && t.n == 1, "an offset behind the end");
    m.blob_size--;
    m.v[F_CHUNK_OFFSET].u64 = 0;
    ok(local_blobs_begin(&t, socket[0], &m, &err) < 0 && !local_blobs_next(&t, &m, 0),
       "another size");
    local_blobs_drop(&t, 5);
    local_blobs_drop(&t, 5);
    close(fd);
    close(soft);
    close(socket[0]);
    close(socket[1]);
    is_int(open_descriptors(), files, "no descriptor is left");
    local_blobs_release(&t);
}

static bool next_is(struct local_blobs *t, uint64_t to, uint64_t offset)
{
    struct span m = { .kind = 0 };

    return local_blobs_next(t, &m, 0) && m.kind == SPAN_CHUNK && m.v[F_CHUNK_TO].u64 == to &&
           m.v[F_CHUNK_OFFSET].u64 == offset && m.v[F_CHUNK_DATA].s.n == SPAN_CHUNK_MAX &&
           m.v[F_CHUNK_DATA].s.p[3] == 'z';
}

static bool takes(struct local_blobs *t, uint64_t to, uint64_t bytes)
{
    const struct span m = { .kind = SPAN_CHUNK_ACK,
                            .blob = 5,
                            .blob_size = LENT,
                            .v[F_CHUNK_ACK_TO].u64 = to,
                            .v[F_CHUNK_ACK_BYTES].u64 = bytes };

    return local_blobs_acked(t, &m, 0);
}

static bool ships_again(struct local_blobs *t, uint64_t to, uint64_t through)
{
    struct span m = { .kind = SPAN_SHIP, .blob = 5, .blob_size = LENT };

    m.v[F_SHIP_TO].u64 = to;
    m.v[F_SHIP_THROUGH].u64 = through;
    return local_blobs_again(t, &m);
}

static void what_was_shared(void)
{
    const uint64_t mib = SPAN_CHUNK_MAX, size = LENT;
    struct span m = { .kind = SPAN_CHUNK, .blob = 5, .blob_size = size, .v[F_CHUNK_TO].u64 = 2 };
    char *bytes = malloc(size);
    struct local_blobs t = LOCAL_BLOBS_INIT;
    struct err err = { "" };
    bool in_turns = true;
    int socket[2], fd;

    memset(bytes, 'z', size);
    fd = blob_of("test", bytes, size, NULL);
    free(bytes);
    ok(fd >= 0 && descriptor_pair(socket) == 0, "a blob of two windows");
    share_fd(socket[1], 5, size, fd, 16);
    ok(local_blobs_begin(&t, socket[0], &m, &err) == 0, "is given to one node");
    m.v[F_CHUNK_TO].u64 = 3;
    ok(local_blobs_begin(&t, socket[0], &m, &err) == 0, "and to another");
    for (uint64_t at = 0; at < 2 * mib; at += mib)
        in_turns = in_turns && next_is(&t, 2, at) && next_is(&t, 3, at);
    ok(in_turns && !local_blobs_next(&t, &m, 0), "in turns, and no more than its pace allows each");
    ok(takes(&t, 3, mib) && next_is(&t, 3, 2 * mib) && next_is(&t, 3, 3 * mib) &&
           next_is(&t, 3, 4 * mib) && !local_blobs_next(&t, &m, 0),
       "who has taken some gets more");
    ok(takes(&t, 2, size - mib) && next_is(&t, 2, size - mib) && !local_blobs_next(&t, &m, 0),
       "what somebody has from elsewhere is not sent");
    ok(!takes(&t, 4, mib), "others are not ours");
    ok(!ships_again(&t, 4, 1) && !ships_again(&t, 3, 0) && !local_blobs_next(&t, &m, 0),
       "nor is any other SHIP");
    ok(ships_again(&t, 3, 1) && next_is(&t, 3, mib) && next_is(&t, 3, 2 * mib) &&
           !local_blobs_next(&t, &m, 0),
       "whose connection is a new one gets again what it has not taken, and nothing before it");
    ok(takes(&t, 2, size) && !takes(&t, 2, size) && t.n_receivers == 1, "who has all gets no more");
    share_fd(socket[1], 5, size, fd, 16);
    m = (struct span){ .kind = SPAN_CHUNK, .blob = 5, .blob_size = size, .v[F_CHUNK_TO].u64 = 3 };
    ok(local_blobs_begin(&t, socket[0], &m, &err) == 0 && t.n == 1 && next_is(&t, 3, 0),
       "shared once more it begins anew");
    local_blobs_drop(&t, 5);
    ok(t.n == 0 && t.n_receivers == 0 && !local_blobs_next(&t, &m, 0), "dropped it goes to nobody");
    local_blobs_release(&t);
    close(fd);
    close(socket[0]);
    close(socket[1]);
}

int main(void)
{
    what_was_not_shared();
    what_was_shared();
    return plan_done();
}
