/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h - what one side of kernel and agent knows about the messages between them, so that
 * these outlive the connection on which they travel. A message's number is its position among those
 * of its sender, from 1; it does not travel. Each side counts what it has received and tells the
 * other, which keeps each message until then. On a new connection, sending goes on behind what the
 * other side says that it has. Pure. */
#ifndef PROTOCOL_SESSION_H
#define PROTOCOL_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* bytes that may be kept; one more message may exceed it */
#define SESSION_KEPT_MAX (UINT64_C(64) << 20)
/* bytes after which the sender is told at once how many messages have arrived */
#define SESSION_TELL_AFTER (UINT64_C(8) << 20)
/* bytes that each message counts beyond its size, on both sides: many small ones need memory, too
 */
#define SESSION_EACH 64u

/* Frees a message that was kept. It must not call the session. */
typedef void (*session_free_f)(void *item);

struct session_item {
    void *item; /* owned */
    size_t size;
};

/* Read-only for others than session.c. */
struct session {
    session_free_f free_item;
    struct session_item *ring; /* owned; number n is at n modulo room, a power of two or 0 */
    size_t room;
    uint64_t acked;    /* the other side has these; 0 <= acked <= handed <= numbered */
    uint64_t handed;   /* to the present connection, or received before it */
    uint64_t numbered; /* in all */
    uint64_t kept;     /* bytes of those above acked */
    uint64_t received; /* messages of the other side */
    uint64_t untold;   /* bytes of those that the other side was not told of */
    bool connected;
};

/* There is no connection yet: begin the first one with session_resume(s, 0). */
void session_init(struct session *s, session_free_f free_item);
void session_release(struct session *s); /* frees all that is kept */

/* ---- to the other side ---- */

/* Gives the message the next number. Takes it, also on failure. It is opaque, so its encoding may
 * be shared with other sessions. -1: memory is out; the message is freed and has no number. */
MUST_USE int session_keep(struct session *s, void *item, size_t size, struct err *err);
/* The next message for the present connection, borrowed until it is acknowledged. NULL: none is
 * left, or there is no connection. */
void *session_next(struct session *s);
/* The message that session_next() gave last could not be sent: it is the next one again. */
void session_take_back(struct session *s);
/* The other side says that it has received n messages: frees these. -1: it never got so many, or
 * has said more before, or there is no connection; nothing has changed. */
MUST_USE int session_acked(struct session *s, uint64_t n, struct err *err);
/* Is as much kept as may be? Then the caller must hold back whatever makes more. */
bool session_is_full(const struct session *s);

/* ---- from the other side ---- */

/* A message with a number has arrived. true: the other side should be told now. */
bool session_received(struct session *s, size_t size);
/* How many have arrived, to be told to the other side at once. */
uint64_t session_tell(struct session *s);

/* ---- connections ---- */

/* The connection has ended. What was handed to it may be lost. */
void session_cut(struct session *s);
/* A new connection, on which the other side says that it has received n messages: sending goes on
 * at n + 1. It may take the place of one that still seems to be there. -1: the other side can't
 * have n; nothing has changed. */
MUST_USE int session_resume(struct session *s, uint64_t n, struct err *err);

#endif
