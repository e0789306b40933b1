/* SPDX-License-Identifier: BSD-3-Clause */
/* outbox.h - messages that wait until a worker's socket has room, or until the blob that belongs to
 * one of them is here. Pure, but it closes descriptors.
 *
 * Urgent messages (INTERRUPT, DEBUG, EXIT, FIND) leave first, so that they do not wait behind a
 * large cell. Both kinds keep their own order. */
#ifndef WORKER_AGENT_PROCESSES_OUTBOX_H
#define WORKER_AGENT_PROCESSES_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "protocol/span.h"

struct outbox_message {
    struct outbox_message *next;
    int blob_fd;    /* owned; -1: none */
    uint64_t waits; /* number of the blob that it waits for; 0: none */
    size_t n;
    char p[];
};

struct outbox {
    struct outbox_message *first[2]; /* 0: urgent, 1: the rest */
    struct outbox_message **end[2];
};

void outbox_init(struct outbox *o);
void outbox_release(struct outbox *o);
/* Copies msg and takes blob_fd, also on failure. -1: memory is out. */
MUST_USE int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd);
/* The same for a message that is not urgent and whose blob is on its way. */
MUST_USE int outbox_add_waiting(struct outbox *o, struct slice msg, uint64_t blob);
/* The next message that may leave. NULL: there is none, or it waits for its blob. Messages behind
 * it wait, too. */
const struct outbox_message *outbox_first(const struct outbox *o);
void outbox_pop(struct outbox *o); /* destroys the message that outbox_first returns */
bool outbox_is_empty(const struct outbox *o);
bool outbox_has_urgent(const struct outbox *o);

/* The first message that waits for this blob; NULL: none. */
struct outbox_message *outbox_waiting(const struct outbox *o, uint64_t blob);
/* The message may leave now; takes blob_fd (-1: it leaves without a blob). */
void outbox_ready(struct outbox_message *m, int blob_fd);
/* Replaces it by msg, which may leave now. -1: memory is out, and nothing has changed. */
MUST_USE int outbox_replace(struct outbox *o, struct outbox_message *m, struct slice msg);

/* The waiting message of that kind and cell, if it is not urgent; NULL: there is none. */
struct outbox_message *outbox_find(const struct outbox *o, enum span_kind kind, uint64_t cell);
void outbox_remove(struct outbox *o,
                   struct outbox_message *m); /* destroys a message that is not urgent */

#endif
