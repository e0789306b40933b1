/* stand_in.h - messages that the agent writes in the place of others: a worker's message without
 * the blob that could not be had, and the answer of a worker that was interrupted before its cell
 * had reached it. Pure. */
#ifndef WORKER_AGENT_STAND_IN_H
#define WORKER_AGENT_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* msg with blob_size 0: a BIND has the reason in `names`, a RETURN is an error. */
MUST_USE int stand_in_for_blob(struct slice msg, const char *why, struct buf *out, struct err *err);
/* No memory for that: at least no more is promised than comes. p: an encoded message, whole. */
void stand_in_patch(char *p);
/* DONE: the cell was interrupted before it ran; unbound: and a BIND of it before it could reach the
 * worker. */
MUST_USE int stand_in_for_cell(uint32_t worker, uint64_t cell, bool unbound, struct buf *out,
                               struct err *err);

#endif
