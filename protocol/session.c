/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/session.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROOM_MIN 16u

void session_init(struct session *s, session_free_f free_item)
{
    *s = (struct session){ .free_item = free_item };
}

static struct session_item *at(const struct session *s, uint64_t number)
{
    return &s->ring[number & (s->room - 1)];
}

/* Frees the messages up to number n. A ring that had to grow is given back when it is empty. */
static void forget(struct session *s, uint64_t n)
{
    while (s->acked < n) {
        struct session_item *row = at(s, ++s->acked);

        s->kept -= row->size + SESSION_EACH;
        s->free_item(row->item);
    }
    if (s->acked < s->numbered || s->room <= ROOM_MIN)
        return;
    free(s->ring);
    s->ring = NULL;
    s->room = 0;
}

void session_release(struct session *s)
{
    forget(s, s->numbered);
    free(s->ring);
    *s = (struct session){ .free_item = s->free_item };
}

/* ---- to the other side ---- */

/* Makes room for one more. */
static int reserve(struct session *s)
{
    struct session old = *s;

    if (s->numbered - s->acked < s->room)
        return 0;
    s->room = s->room ? 2 * s->room : ROOM_MIN;
    if (!(s->ring = calloc(s->room, sizeof *s->ring))) {
        *s = old;
        return -1;
    }
    for (uint64_t n = s->acked + 1; n <= s->numbered; n++)
        *at(s, n) = *at(&old, n);
    free(old.ring);
    return 0;
}

int session_keep(struct session *s, void *item, size_t size, struct err *err)
{
    if (reserve(s) < 0) {
        s->free_item(item);
        return err_set(err, "out of memory for a message of %zu bytes", size);
    }
    *at(s, ++s->numbered) = (struct session_item){ item, size };
    s->kept += size + SESSION_EACH;
    return 0;
}

void *session_next(struct session *s)
{
    if (!s->connected || s->handed == s->numbered)
        return NULL;
    return at(s, ++s->handed)->item;
}

void session_take_back(struct session *s)
{
    if (s->connected && s->handed > s->acked)
        s->handed--;
}

int session_acked(struct session *s, uint64_t n, struct err *err)
{
    if (!s->connected)
        return err_set(err, "it acknowledges messages without a connection");
    if (n < s->acked || n > s->handed)
        return err_set(err,
                       "it acknowledges %" PRIu64 " messages, of %" PRIu64
                       " that were sent; before, it had %" PRIu64,
                       n, s->handed, s->acked);
    forget(s, n);
    return 0;
}

bool session_is_full(const struct session *s)
{
    return s->kept >= SESSION_KEPT_MAX;
}

/* ---- from the other side ---- */

bool session_received(struct session *s, size_t size)
{
    s->received++;
    s->untold += size + SESSION_EACH;
    return s->untold >= SESSION_TELL_AFTER;
}

uint64_t session_tell(struct session *s)
{
    s->untold = 0;
    return s->received;
}

/* ---- connections ---- */

void session_cut(struct session *s)
{
    s->connected = false;
}

int session_resume(struct session *s, uint64_t n, struct err *err)
{
    if (n < s->acked || n > s->numbered)
        return err_set(err,
                       "it has received %" PRIu64 " messages, it says, of %" PRIu64
                       "; before, it had %" PRIu64,
                       n, s->numbered, s->acked);
    forget(s, n);
    s->handed = n;
    s->connected = true;
    return 0;
}
