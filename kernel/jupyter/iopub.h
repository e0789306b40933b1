/* iopub.h - the broadcast channel. Nothing is lost to a subscriber that is merely slow: what can't
 * leave waits here in order and is counted in bytes, so that whoever prints can be slowed down. A
 * subscriber that takes nothing for ten seconds holds nobody up from then on: of streams and
 * displays it gets the last few MiB when it reads again, and of all other messages every one. */
#ifndef KERNEL_JUPYTER_IOPUB_H
#define KERNEL_JUPYTER_IOPUB_H

#include <stdbool.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct iopub;

/* A client subscribed to the topic (borrowed). */
typedef void (*iopub_subscribed_f)(void *arg, struct slice topic);

/* The marks of front_waiting(): over `high` whoever prints should stop, under `low` it is told to
 * go on. */
struct iopub_marks {
    size_t high, low; /* bytes */
};

/* socket: an XPUB with NODROP, MANUAL and no high-water mark, borrowed. */
struct iopub *iopub_create(struct loop *loop, void *socket, struct iopub_marks marks,
                           iopub_subscribed_f f, void *arg, struct err *err);
/* Call while the socket is still open. What waits is dropped: see iopub_flush(). The counts within
 * live until iopub_release(), which must follow once the context is gone. */
void iopub_stop(struct iopub *p);
void iopub_release(struct iopub *p); /* NULL is fine */

/* Who has subscribed by now gets the next message: it is told of, by iopub_subscribed_f, before.
 * Call it ahead of iopub_send(), and before the frames are made. What is sent within
 * iopub_subscribed_f goes to the new one alone. */
void iopub_welcome(struct iopub *p);
/* Sends or queues copies of the frames, the first of which is the topic, or the delimiter where
 * there is none. bulk: a subscriber that does not read may miss it. */
MUST_USE int iopub_send(struct iopub *p, const struct slice *frame, size_t n, bool bulk,
                        struct err *err);
/* Sends what waits until there is nothing or the time is over; blocks. */
void iopub_flush(struct iopub *p, uint64_t limit_ns);
size_t iopub_waiting(const struct iopub *p); /* bytes */
void iopub_on_drained(struct iopub *p, loop_f drained, void *arg);

#endif
