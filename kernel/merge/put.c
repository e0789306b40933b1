/* SPDX-License-Identifier: BSD-3-Clause */
/* put.c - passes the text of a source on to the queues (declared in private.h). */
#include <stdlib.h>

#include "kernel/merge/private.h"

#define PARTIAL_MAX 8192u  /* bytes; a longer start of a line does not wait */
#define SHARED_MAX  65536u /* the same for all ranks together, if others show lines, too */

void put_clear(struct merge *m, struct source *s)
{
    m->partial_bytes -= s->partial.n;
    if (s->partial.cap > 4 * (size_t)PARTIAL_MAX)
        buf_release(&s->partial);
    buf_clear(&s->partial);
    if (!s->frame.n)
        source_unqueue(&m->waits, s);
}

static uint64_t equal_due_ns(const struct merge *m, uint64_t now)
{
    return m->mode == PLAN_FOLD ? now + EQUAL_NS : now;
}

/* Lines and bars of a rank keep their order, also where they are in different queues. */
static int drain_other(struct merge *m, const struct source *s, unsigned flags, uint64_t now)
{
    struct line_queue *other = &m->queues[flags & LINE_BAR ? 1 : 0];

    return s->stream == 2 && fold_has(other->fold, s->rank) && (flags & LINE_BAR || s->below)
               ? line_queue_drain(other, DRAIN_RANK, s->rank, now)
               : 0;
}

static int queue_put(struct merge *m, struct source *s, struct slice text, unsigned flags,
                     uint64_t due_ns, uint64_t now)
{
    struct line_queue *q = &m->queues[flags & LINE_BAR ? 0 : s->stream - 1];

    if (drain_other(m, s, flags, now) < 0)
        return -1;
    s->below = flags & LINE_BAR;
    if (s->below && s->stream == 2 && !m->out.plain_bars)
        flags |= LINE_ERR;
    return line_queue_put(q, s->rank, text, flags & ~LINE_BAR, due_ns, now);
}

/* Passes the rows of the frame on, as one line of the queue. */
int put_frame(struct merge *m, struct source *s, uint64_t now)
{
    const struct slice rows = buf_slice(&s->frame);
    int rc;

    if (!rows.n)
        return 0;
    rc = queue_put(m, s, rows,
                   (memchr(rows.p, '\n', rows.n) ? LINE_FRAME : 0) | (s->framed ? LINE_BAR : 0),
                   equal_due_ns(m, now), now);
    m->partial_bytes -= rows.n;
    if (s->frame.cap > 4 * (size_t)PARTIAL_MAX)
        buf_release(&s->frame);
    buf_clear(&s->frame);
    if (!s->partial.n || !m->starts)
        source_unqueue(&m->waits, s);
    return rc;
}

int put_piece(struct merge *m, struct source *s, struct slice text, unsigned flags, uint64_t due_ns,
              uint64_t now)
{
    if (put_frame(m, s, now) < 0)
        return -1;
    if (s->open)
        flags |= LINE_CONT;
    s->open = flags & LINE_OPEN;
    return queue_put(m, s, text, flags, due_ns, now);
}

/* Passes a whole line on, unless it is a row of a frame: that waits for the frame's last row. */
int put_line(struct merge *m, struct source *s, struct slice text, unsigned flags, uint64_t now)
{
    const enum frame_row row = s->open || frame_is_text(text) ? FRAME_NONE
                                                              : frame_row(text, s->frame.n > 0);

    if (row == FRAME_NONE)
        return put_piece(m, s, text, flags, equal_due_ns(m, now), now);
    if (row == FRAME_FIRST && put_frame(m, s, now) < 0)
        return -1;
    if (buf_reserve(&s->frame, text.n + 1) < 0)
        return -1;
    m->partial_bytes += text.n + (s->frame.n > 0);
    if ((s->frame.n && buf_add_text(&s->frame, "\n") < 0) || buf_add_slice(&s->frame, text) < 0)
        return -1;
    s->framed = flags & LINE_BAR;
    source_queue(&m->waits, s, now);
    return row == FRAME_LAST || s->frame.n > FRAME_MAX ? put_frame(m, s, now) : 0;
}

/* Does the text only set colours, and show nothing? */
static bool only_colours(struct slice text)
{
    size_t n = 0;

    while (n + 2 < text.n && text.p[n] == '\x1b' && text.p[n + 1] == '[') {
        for (n += 2; n < text.n && ((text.p[n] >= '0' && text.p[n] <= '9') || text.p[n] == ';');)
            n++;
        if (n == text.n || text.p[n++] != 'm')
            return false;
    }
    return text.n && n == text.n;
}

/* Passes on the start of a line, whose end did not come in time, or which is too long to wait. */
int put_partial(struct merge *m, struct source *s, uint64_t now)
{
    const bool small = s->partial.n <= PARTIAL_MAX && m->mode == PLAN_FOLD;
    const bool bare = !s->open && only_colours(buf_slice(&s->partial));
    int rc;

    if (!s->partial.n)
        return put_frame(m, s, now);
    rc = put_piece(m, s, buf_slice(&s->partial), bare ? LINE_BARE : m->starts,
                   small ? s->since_ns + EQUAL_NS : now, now);
    put_clear(m, s);
    return rc;
}

int put_start(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    if (!text.n)
        return 0;
    if (buf_add_slice(&s->partial, text) < 0)
        return -1;
    m->partial_bytes += text.n;
    if (only_colours(buf_slice(&s->partial)))
        return 0; /* it is invisible, so it can wait for what follows */
    if (m->starts)
        source_queue(&m->waits, s, now);
    if ((m->starts ? s->partial.n > PARTIAL_MAX : m->partial_bytes > SHARED_MAX) ||
        (s->open && show_is_open(&m->show, s->stream, s->rank)))
        return put_partial(m, s, now);
    return 0;
}

/* Passes on a line of which the start may have waited. */
int put_whole(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    int rc;

    if (!s->partial.n)
        return put_line(m, s, text, 0, now);
    if (buf_add_slice(&s->partial, text) < 0)
        return -1;
    m->partial_bytes += text.n;
    rc = put_line(m, s, buf_slice(&s->partial), 0, now);
    put_clear(m, s);
    return rc;
}
