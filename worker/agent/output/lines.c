/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/output/lines.h"

#include "base/utf8.h"

#define LINES_KEEP 16384u /* bytes of memory that are kept for the next line */

void lines_release(struct lines *l)
{
    buf_release(&l->held);
}

/* Puts out the first n held bytes and drops them. They are also dropped if out() fails, because it
 * may have sent them. */
static int put_held(struct lines *l, size_t n, unsigned flags)
{
    int rc;

    if (n == 0)
        return 0;
    rc = l->out(l->arg, slice_of(l->held.p, n), flags);
    buf_drop(&l->held, n);
    l->states = l->states > n ? l->states - n : 0;
    l->since_ns = l->touched_ns;
    if (l->held.n == 0 && l->held.cap > LINES_KEEP)
        buf_release(&l->held);
    return rc;
}

/* Do the first n bytes end in a terminal's step up (ESC [ n A)? */
static bool ends_in_step_up(const struct lines *l, size_t n)
{
    if (l->held.p[--n] != 'A')
        return false;
    while (n && l->held.p[n - 1] >= '0' && l->held.p[n - 1] <= '9')
        n--;
    return n > 1 && l->held.p[n - 1] == '[' && l->held.p[n - 2] == '\x1b';
}

/* Looks for ends of states behind the first `old` bytes: carriage returns, and steps up, which end
 * the state of a bar below other bars. A carriage return at the very end may be the first half of
 * "\r\n", so it does not end a state yet. */
static void note_states(struct lines *l, size_t old)
{
    for (size_t i = l->held.n; i > 1 && i > old; i--) {
        if (ends_in_step_up(l, i)) {
            l->states = i;
            return;
        }
        if (l->held.p[i - 2] == '\r') {
            l->states = i - 1;
            return;
        }
    }
}

static size_t last_newline(struct slice s)
{
    for (size_t i = s.n; i > 0; i--)
        if (s.p[i - 1] == '\n')
            return i;
    return 0;
}

static int put_states(struct lines *l, uint64_t now_ns)
{
    if (l->states <= 1 /* a state that begins with its carriage return */ ||
        (l->progress_ns && now_ns - l->progress_ns < LINES_PROGRESS_NS))
        return 0;
    l->progress_ns = now_ns;
    return put_held(l, l->states, LINES_PROGRESS);
}

/* Does not cut through a UTF-8 character. */
static size_t cut_size(const struct buf *held)
{
    return LINE_BYTES_MAX - utf8_torn_tail(slice_of(held->p, LINE_BYTES_MAX));
}

static int put_long(struct lines *l)
{
    while (l->held.n > LINE_BYTES_MAX)
        if (put_held(l, cut_size(&l->held), LINES_WITHIN) < 0)
            return -1;
    return 0;
}

int lines_feed(struct lines *l, struct slice data, uint64_t now_ns)
{
    size_t whole = last_newline(data);

    if (data.n == 0)
        return 0;
    l->touched_ns = now_ns;
    if (whole && l->held.n == 0) { /* the usual case: nothing is copied */
        if (l->out(l->arg, slice_of(data.p, whole), 0) < 0)
            return -1;
        data = slice_of(data.p + whole, data.n - whole);
        whole = 0;
    }
    if (l->held.n == 0)
        l->since_ns = now_ns;
    if (whole)
        whole += l->held.n;
    if (buf_add_slice(&l->held, data) < 0)
        return -1;
    note_states(l, l->held.n - data.n);
    if (put_held(l, whole, 0) < 0 || put_states(l, now_ns) < 0)
        return -1;
    return put_long(l);
}

int lines_flush(struct lines *l)
{
    if (l->held.n && l->held.p[l->held.n - 1] == '\r')
        l->states = l->held.n; /* no newline followed, so it ended a state */
    if (l->states > 1 && put_held(l, l->states, LINES_PROGRESS) < 0)
        return -1;
    return put_held(l, l->held.n, LINES_WITHIN);
}

int lines_tick(struct lines *l, uint64_t now_ns)
{
    if (l->held.n == 0)
        return 0;
    if (now_ns - l->touched_ns >= LINES_HOLD_NS || now_ns - l->since_ns >= LINES_WAIT_NS)
        return lines_flush(l);
    return put_states(l, now_ns);
}

void lines_wait(struct lines *l, uint64_t now_ns)
{
    l->touched_ns = l->since_ns = now_ns;
}

uint64_t lines_due_ns(const struct lines *l)
{
    uint64_t due;

    if (l->held.n == 0)
        return UINT64_MAX;
    due = clock_earlier(l->touched_ns + LINES_HOLD_NS, l->since_ns + LINES_WAIT_NS);
    return l->states > 1 ? clock_earlier(due, l->progress_ns + LINES_PROGRESS_NS) : due;
}
