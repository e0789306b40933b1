/* SPDX-License-Identifier: BSD-3-Clause */
/* inbox.h - reads a socket: frames in, verified requests out. Refused messages are counted and
 * logged by kind; their content is never logged. */
#ifndef KERNEL_JUPYTER_INBOX_H
#define KERNEL_JUPYTER_INBOX_H

#include <zmq.h>

#include "kernel/jupyter/channels.h"

/* ---- request.c ---- */
/* A verified incoming message. It has a reference count, so that a cell can keep its request as
 * long as it runs. channels.h has the public part; this part is only for this folder. */

/* Moves the n frames into a new request and verifies it. If the result is not JUPYTER_FINE, *out is
 * NULL and the frames are empty or unchanged. In any case the caller must close the frames. */
MUST_USE enum jupyter_fault request_create(enum channel channel, zmq_msg_t *part, size_t n,
                                           struct jupyter_session *session, struct request **out);
/* The identity frames, which route a reply back to the client. */
const struct slice *request_identity(const struct request *r, size_t *n);
/* When the work on it began, in the form of clock_iso8601(); "" before request_begin(). */
void request_begin(struct request *r);
const char *request_begun(const struct request *r);

/* How often each fault was seen; all inboxes share it. */
struct refusals {
    unsigned long long count[JUPYTER_FAULTS];
};

struct inbox {
    enum channel channel;
    const char *name;                /* borrowed: the channel's name, for the log */
    void *socket;                    /* borrowed */
    struct jupyter_session *session; /* borrowed */
    struct refusals *refusals;       /* borrowed */
    zmq_msg_t *part;                 /* owned: frames of the message that is being read */
    size_t n, cap;
    uint64_t taken; /* bytes of all messages that were read, as OUT_MESSAGE_ALLOWANCE counts them */
    bool skipping;  /* the message has too many frames: the rest is dropped */
};

void inbox_init(struct inbox *in, enum channel channel, const char *name, void *socket,
                struct jupyter_session *session, struct refusals *refusals);
void inbox_release(struct inbox *in);

/* The next valid request; the caller must unref it. Skips refused messages. Reads at most *budget
 * frames and counts *budget down. NULL: no request, or *budget is 0 and there may be more. */
struct request *inbox_next(struct inbox *in, unsigned *budget);

#endif
