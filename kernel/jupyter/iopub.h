/* iopub.h - the broadcast channel. A slow subscriber loses nothing: messages that can't leave yet
 * wait here in order. Their bytes are counted, so that programs that print can be slowed down. A
 * subscriber that reads nothing for ten seconds no longer slows down anybody. When it reads again
 * it gets only the last few MiB of streams and displays, but all other messages. */
#ifndef KERNEL_JUPYTER_IOPUB_H
#define KERNEL_JUPYTER_IOPUB_H

#include <stdbool.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct iopub;

/* A client subscribed to the topic (borrowed). */
typedef void (*iopub_subscribed_f)(void *arg, struct slice topic);

/* The limits of front.h: above `high`, programs that print should stop; below `low`
 * iopub_on_drained reports that they may continue. */
struct iopub_marks {
    size_t high, low; /* bytes */
};

/* socket: an XPUB with NODROP, MANUAL and no high-water mark, borrowed. */
struct iopub *iopub_create(struct loop *loop, void *socket, struct iopub_marks marks,
                           iopub_subscribed_f f, void *arg, struct err *err);
/* Call it while the socket is still open. Drops waiting messages (see iopub_flush()). libzmq may
 * still use the byte counts, so call iopub_release() after the context is gone. */
void iopub_stop(struct iopub *p);
void iopub_release(struct iopub *p); /* NULL is fine */

/* Calls iopub_subscribed_f for new subscribers, so that they get the next message. Call it before
 * iopub_send(), and before its frames are made. What is sent within iopub_subscribed_f goes only to
 * the new subscriber. */
void iopub_welcome(struct iopub *p);
/* Sends or queues copies of the frames. The first is the topic, or the delimiter if there is no
 * topic. bulk: a subscriber that does not read may miss it. */
MUST_USE int iopub_send(struct iopub *p, const struct slice *frame, size_t n, bool bulk,
                        struct err *err);
/* Sends waiting messages until none is left or the time is over. Blocks. */
void iopub_flush(struct iopub *p, uint64_t limit_ns);
size_t iopub_waiting(const struct iopub *p); /* bytes */
void iopub_on_drained(struct iopub *p, loop_f drained, void *arg);

#endif
