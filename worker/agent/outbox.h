/* outbox.h - messages that wait until a worker's socket has room. Pure but for the descriptors that it closes.
 *
 * What must not wait behind a large cell (INTERRUPT, EXIT) goes first; both kinds keep their own order. */
#ifndef WORKER_AGENT_OUTBOX_H
#define WORKER_AGENT_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

struct letter {
    struct letter *next;
    int blob_fd; /* owned; -1: none */
    size_t n;
    char p[];
};

struct outbox {
    struct letter *first[2]; /* 0: urgent, 1: the rest */
    struct letter **end[2];
    size_t bytes;            /* of all messages that wait */
};

void outbox_init(struct outbox *o);
void outbox_release(struct outbox *o);
/* Copies msg and takes blob_fd, also when it fails (-1: memory is out). */
MUST_USE int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd);
const struct letter *outbox_first(const struct outbox *o); /* NULL: empty */
void outbox_pop(struct outbox *o);                         /* destroys the first */

#endif
