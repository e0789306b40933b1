/* outbox.h - messages that wait until a worker's socket has room, or until the blob that rides on
 * one of them is here. Pure but for the descriptors that it closes.
 *
 * What must not wait behind a large cell (INTERRUPT, EXIT) goes first; both kinds keep their own
 * order. */
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
    uint64_t waits; /* the number of the blob that it waits for; 0: none */
    size_t n;
    char p[];
};

struct outbox {
    struct outbox_message *first[2]; /* 0: urgent, 1: the rest */
    struct outbox_message **end[2];
    size_t bytes; /* of all messages that wait */
};

void outbox_init(struct outbox *o);
void outbox_release(struct outbox *o);
/* Copies msg and takes blob_fd, also when it fails (-1: memory is out). */
MUST_USE int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd);
/* The same, of what is not urgent and whose blob is on its way. */
MUST_USE int outbox_add_waiting(struct outbox *o, struct slice msg, uint64_t blob);
/* The next that may leave. NULL: there is none, or it waits for its blob, and with it what stands
 * behind it. */
const struct outbox_message *outbox_first(const struct outbox *o);
void outbox_pop(struct outbox *o); /* destroys what outbox_first gives */
bool outbox_is_empty(const struct outbox *o);

/* The first that waits for this blob; NULL: none. */
struct outbox_message *outbox_waiting(const struct outbox *o, uint64_t blob);
/* it waits no more; takes blob_fd (-1: it goes without) */
void outbox_ready(struct outbox_message *m, int blob_fd);
/* Puts msg in its place, which waits no more. -1: memory is out, and it is as it was. */
MUST_USE int outbox_replace(struct outbox *o, struct outbox_message *m, struct slice msg);

/* The message of that kind and cell, if it waits and is not urgent; NULL: it does not. */
struct outbox_message *outbox_find(const struct outbox *o, enum span_kind kind, uint64_t cell);
void outbox_remove(struct outbox *o,
                   struct outbox_message *m); /* destroys one that is not urgent */

#endif
