/* dial.h - which of several tcp endpoints can be reached from here: all are tried at once, the first that answers wins. One that
 * refuses or has no route is tried again until the limit, for networks come up late and links lose packets. */
#ifndef WORKER_AGENT_DIAL_H
#define WORKER_AGENT_DIAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "worker/agent/address.h"

#define DIAL_MAX 64u             /* endpoints; what is beyond them is not tried */
#define DIAL_ENDPOINT_SIZE 300u

struct dial;

/* It is over, and the dial is freed after the call. endpoint NULL: none answered, and `why` says for each one why not, and
 * from where: "tcp://10.0.0.1:4321 (connection refused), tcp://10.1.0.1:4321 (timed out); from 10.0.0.7". */
typedef void (*dial_f)(void *arg, const char *endpoint, const struct address *own, const char *why);

/* endpoints: tcp://…, separated by commas. NULL: there is none among them. */
struct dial *dial_start(struct loop *loop, struct slice endpoints, uint64_t limit_ns, dial_f f, void *arg, struct err *err);
void dial_stop(struct dial *d); /* f is not called any more; NULL is fine */

/* ---- pure parts ---- */

/* Takes the first of the list off. false: none is left. */
bool dial_next(struct slice *endpoints, struct slice *endpoint);
/* In words; 0: it has not answered. */
const char *dial_words(int error);
/* Is it worth another try? */
bool dial_may_change(int error);

#endif
