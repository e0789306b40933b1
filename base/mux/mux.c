/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mux/mux.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"

#define TELL_AFTER (MUX_WINDOW / 4) /* bytes that have left, for one MUX_CREDIT */

void mux_init(struct mux *m, const struct mux_handler *handler)
{
    *m = (struct mux){ .handler = *handler };
}

void mux_release(struct mux *m)
{
    buf_release(&m->in);
    buf_release(&m->out);
    *m = (struct mux){ .handler = m->handler };
}

/* NULL: no such stream is open. */
static struct mux_stream *find(const struct mux *m, uint32_t number)
{
    for (unsigned i = 0; number && i < MUX_STREAMS_MAX; i++)
        if (m->stream[i].number == number)
            return (struct mux_stream *)&m->stream[i];
    return NULL;
}

/* NULL: there are as many as may be. */
static struct mux_stream *begin(struct mux *m, uint32_t number)
{
    for (unsigned i = 0; i < MUX_STREAMS_MAX; i++)
        if (!m->stream[i].number) {
            m->stream[i] = (struct mux_stream){ .number = number, .room = MUX_WINDOW };
            m->last = number;
            return &m->stream[i];
        }
    return NULL;
}

/* ---- out ---- */

static int say(struct mux *m, enum mux_kind kind, uint32_t stream, uint32_t n, struct slice bytes)
{
    uint8_t head[MUX_HEADER_SIZE] = { (uint8_t)kind };

    if (m->said_end)
        return 0;
    le_put(head + 1, 4, stream);
    le_put(head + 5, 4, n);
    if (buf_reserve(&m->out, sizeof head + bytes.n) < 0 || buf_add(&m->out, head, sizeof head) < 0)
        return -1;
    return buf_add_slice(&m->out, bytes);
}

uint32_t mux_open(struct mux *m)
{
    struct mux_stream *s;

    if (m->handler.opened || m->last == UINT32_MAX || !(s = begin(m, m->last + 1)))
        return 0;
    if (say(m, MUX_OPEN, s->number, 0, slice_text("")) == 0)
        return s->number;
    m->last--;
    s->number = 0;
    return 0;
}

uint32_t mux_room(const struct mux *m, uint32_t stream)
{
    const struct mux_stream *s = find(m, stream);

    return s ? s->room : 0;
}

int mux_send(struct mux *m, uint32_t stream, struct slice bytes)
{
    struct mux_stream *s = find(m, stream);
    const size_t frames = bytes.n / MUX_DATA_MAX + 1;

    if (!s || bytes.n > s->room || buf_reserve(&m->out, bytes.n + frames * MUX_HEADER_SIZE) < 0)
        return -1;
    s->room -= (uint32_t)bytes.n;
    while (bytes.n > 0) {
        const uint32_t n = bytes.n < MUX_DATA_MAX ? (uint32_t)bytes.n : MUX_DATA_MAX;

        if (say(m, MUX_DATA, stream, n, slice_of(bytes.p, n)) < 0)
            return -1; /* not after buf_reserve() */
        bytes = slice_of(bytes.p + n, bytes.n - n);
    }
    return 0;
}

int mux_left(struct mux *m, uint32_t stream, uint32_t n)
{
    struct mux_stream *s = find(m, stream);

    if (!s)
        return 0;
    n = n < s->unread ? n : s->unread;
    s->unread -= n;
    s->left += n;
    if (s->left < TELL_AFTER)
        return 0;
    n = s->left;
    s->left = 0;
    return say(m, MUX_CREDIT, stream, n, slice_text(""));
}

int mux_close(struct mux *m, uint32_t stream)
{
    struct mux_stream *s = find(m, stream);

    if (!s)
        return 0;
    s->number = 0;
    return say(m, MUX_CLOSE, stream, 0, slice_text(""));
}

int mux_ping(struct mux *m)
{
    return say(m, MUX_PING, 0, 0, slice_text(""));
}

int mux_end(struct mux *m)
{
    const int rc = say(m, MUX_END, 0, 0, slice_text(""));

    m->said_end = true;
    return rc;
}

/* ---- in ---- */

static int take_open(struct mux *m, uint32_t number, struct err *err)
{
    if (!m->handler.opened || number != m->last + 1)
        return err_set(err, "it opens stream %" PRIu32 " after %" PRIu32, number, m->last);
    if (!begin(m, number))
        return err_set(err, "it opens more than %u streams", MUX_STREAMS_MAX);
    if (m->handler.opened(m->handler.arg, number))
        return 0;
    return mux_close(m, number) < 0 ? err_set(err, "out of memory") : 0;
}

static int take_data(struct mux *m, struct mux_stream *s, struct slice bytes, struct err *err)
{
    if (!s)
        return 0; /* it was closed here, which the other end had not read yet */
    if (bytes.n > MUX_WINDOW - s->unread - s->left)
        return err_set(err, "stream %" PRIu32 " has more bytes on their way than it may",
                       s->number);
    s->unread += (uint32_t)bytes.n;
    m->handler.data(m->handler.arg, s->number, bytes);
    return 0;
}

static int take_credit(struct mux *m, struct mux_stream *s, uint32_t n, struct err *err)
{
    if (!s)
        return 0;
    if (n > MUX_WINDOW - s->room)
        return err_set(err, "it gives stream %" PRIu32 " more credit than it took", s->number);
    s->room += n;
    m->handler.room(m->handler.arg, s->number);
    return 0;
}

static int take_frame(struct mux *m, uint8_t kind, uint32_t stream, uint32_t n, struct slice bytes,
                      struct err *err)
{
    struct mux_stream *s = find(m, stream);

    if (kind != MUX_OPEN && stream > m->last)
        return err_set(err, "it speaks of stream %" PRIu32 ", which nobody opened", stream);
    switch (kind) {
    case MUX_OPEN:
        return take_open(m, stream, err);
    case MUX_DATA:
        return take_data(m, s, bytes, err);
    case MUX_CREDIT:
        return take_credit(m, s, n, err);
    case MUX_CLOSE:
        if (s) {
            s->number = 0;
            m->handler.closed(m->handler.arg, stream);
        }
        return 0;
    case MUX_PING:
        return 0;
    case MUX_END:
        m->heard_end = true;
        return 0;
    default:
        return err_set(err, "it sends what is no frame: kind %u", kind);
    }
}

/* How long the frame at the start of these bytes is; 0: its start has not come whole. */
static size_t frame_size(struct slice bytes)
{
    if (bytes.n < MUX_HEADER_SIZE)
        return 0;
    return MUX_HEADER_SIZE + (bytes.p[0] == MUX_DATA ? (size_t)le_get(bytes.p + 5, 4) : 0);
}

int mux_received(struct mux *m, struct slice bytes, struct err *err)
{
    struct slice rest;
    size_t size, taken = 0;
    int rc = 0;

    if (buf_add_slice(&m->in, bytes) < 0)
        return err_set(err, "out of memory for %zu bytes", bytes.n);
    while (rc == 0 && !m->heard_end) {
        rest = slice_of(m->in.p + taken, m->in.n - taken);
        size = frame_size(rest);
        if (size > MUX_HEADER_SIZE + MUX_DATA_MAX)
            rc = err_set(err, "it sends a frame of %zu bytes", size);
        else if (size == 0 || size > rest.n)
            break;
        else
            rc = take_frame(m, (uint8_t)rest.p[0], (uint32_t)le_get(rest.p + 1, 4),
                            (uint32_t)le_get(rest.p + 5, 4),
                            slice_of(rest.p + MUX_HEADER_SIZE, size - MUX_HEADER_SIZE), err);
        taken += size;
    }
    buf_drop(&m->in, taken < m->in.n ? taken : m->in.n);
    if (m->in.n == 0)
        buf_release(&m->in); /* an idle connection needs no memory */
    return rc;
}
