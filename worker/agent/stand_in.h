/* stand_in.h - messages that the agent writes in place of others: a message to a worker without the
 * blob that did not arrive, and the answer of a worker that was interrupted before the cell reached
 * it. Pure. */
#ifndef WORKER_AGENT_STAND_IN_H
#define WORKER_AGENT_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Writes msg with blob_size 0: a BIND has the reason in `names`, a RETURN becomes an error. */
MUST_USE int stand_in_for_blob(struct slice msg, const char *why, struct buf *out, struct err *err);
/* If there is no memory for that: only sets blob_size to 0. p: a complete encoded message. */
void stand_in_patch(char *p);
/* Writes DONE: the cell was interrupted before it ran. unbound: a BIND of the cell did not reach
 * the worker, either. */
MUST_USE int stand_in_for_cell(uint32_t worker, uint64_t cell, bool unbound, struct buf *out,
                               struct err *err);

#endif
