/* request.h - what came in, verified: counted, so that a cell keeps its request as long as it runs.
 * Declared for everyone in front.h; this is the part that only the front uses. */
#ifndef KERNEL_JUPYTER_REQUEST_H
#define KERNEL_JUPYTER_REQUEST_H

#include <zmq.h>

#include "kernel/jupyter/front.h"

/* Moves the n frames into a new request and verifies it. On any answer but JUPYTER_FINE *out is
 * NULL; the frames are then empty or untouched, and the caller closes them in either case. */
MUST_USE enum jupyter_fault request_create(enum channel channel, zmq_msg_t *part, size_t n,
                                           struct jupyter_session *session, struct request **out);
/* The frames that lead back to who asked. */
const struct slice *request_identity(const struct request *r, size_t *n);
/* When its work began, as clock_iso8601() has it; "" before request_begin(). */
void request_begin(struct request *r);
const char *request_begun(const struct request *r);
/* parent_header as it came: any bytes. */
struct slice request_parent(const struct request *r);

#endif
