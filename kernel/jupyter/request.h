/* request.h - a verified incoming message. It has a reference count, so that a cell can keep its
 * request as long as it runs. front.h has the public part; this part is only for the front. */
#ifndef KERNEL_JUPYTER_REQUEST_H
#define KERNEL_JUPYTER_REQUEST_H

#include <zmq.h>

#include "kernel/jupyter/front.h"

/* Moves the n frames into a new request and verifies it. If the result is not JUPYTER_FINE, *out is
 * NULL and the frames are empty or unchanged. In any case the caller must close the frames. */
MUST_USE enum jupyter_fault request_create(enum channel channel, zmq_msg_t *part, size_t n,
                                           struct jupyter_session *session, struct request **out);
/* The identity frames, which route a reply back to the client. */
const struct slice *request_identity(const struct request *r, size_t *n);
/* When the work on it began, in the form of clock_iso8601(); "" before request_begin(). */
void request_begin(struct request *r);
const char *request_begun(const struct request *r);
/* The raw parent_header; may be any bytes. */
struct slice request_parent(const struct request *r);

#endif
