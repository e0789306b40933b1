/* knock.h - does anybody listen at a tcp endpoint? A plain connection, closed at once: it tells why
 * there is none. */
#ifndef WORKER_AGENT_KNOCK_H
#define WORKER_AGENT_KNOCK_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct knock;

/* error: 0, or what connect(2) gave. The knock is freed after the call. */
typedef void (*knock_f)(void *arg, int error);

/* NULL: the endpoint is none, or *err says why. */
struct knock *knock_start(struct loop *loop, struct slice endpoint, knock_f f, void *arg,
                          struct err *err);
void knock_stop(struct knock *k); /* f is not called any more; NULL is fine */

#endif
