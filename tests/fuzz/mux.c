/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as the frames of a relay, at both ends, whole and byte by byte: no more than a window
 * of a stream comes, and it makes no difference how the bytes are cut. */
#include <stdlib.h>

#include "base/mux/mux.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/mux-*.hex";
const unsigned fuzz_prefixes = 0;

struct end {
    struct mux mux;
    uint64_t events; /* a sum over all that was told */
    uint64_t left;
};

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void note(struct end *e, uint64_t what)
{
    e->events = (e->events ^ what) * UINT64_C(1099511628211);
}

static bool on_opened(void *arg, uint32_t stream)
{
    note(arg, 1 + ((uint64_t)stream << 8));
    return stream % 3 != 0;
}

/* What has come leaves, of every second stream. */
static void on_data(void *arg, uint32_t stream, struct slice bytes)
{
    struct end *e = arg;

    demand(bytes.n <= MUX_DATA_MAX);
    note(e, 2 + ((uint64_t)stream << 8));
    for (size_t i = 0; i < bytes.n; i++)
        note(e, 3 + ((uint64_t)(uint8_t)bytes.p[i] << 8));
    if (stream % 2)
        demand(mux_left(&e->mux, stream, (uint32_t)bytes.n) == 0);
}

static void on_room(void *arg, uint32_t stream)
{
    struct end *e = arg;

    demand(mux_room(&e->mux, stream) <= MUX_WINDOW);
    note(e, 4 + ((uint64_t)stream << 8));
}

static void on_closed(void *arg, uint32_t stream)
{
    note(arg, 5 + ((uint64_t)stream << 8));
}

/* What all of it gives: in pieces of so many bytes. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t piece, bool accepts)
{
    const struct mux_handler handler = { accepts ? on_opened : NULL, on_data, on_room, on_closed,
                                         NULL };
    struct end e = { .events = 0 };
    int rc = 0;

    mux_init(&e.mux, &handler);
    e.mux.handler.arg = &e;
    if (!accepts)
        demand(mux_open(&e.mux) == 1 && mux_open(&e.mux) == 2);
    for (size_t from = 0; rc == 0 && from < size; from += piece)
        rc = mux_received(&e.mux,
                          slice_of((const char *)data + from,
                                   size - from < piece ? size - from : piece),
                          NULL);
    note(&e, rc == 0 ? 6 : 7);
    note(&e, e.mux.heard_end);
    mux_release(&e.mux);
    return e.events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int accepts = 0; accepts < 2; accepts++)
        demand(read_all(data, size, size ? size : 1, accepts) == read_all(data, size, 1, accepts));
    return 0;
}
