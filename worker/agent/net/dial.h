/* dial.h - which of several tcp endpoints leads to the holder of a key: they are tried one shortly
 * after the other, and the first on which CURVE succeeds wins. So neither a port that somebody else
 * has on this host nor a bridge's address that every host has is taken for the right one. What
 * refuses is tried again until the limit, for networks come up late and links lose packets. */
#ifndef WORKER_AGENT_NET_DIAL_H
#define WORKER_AGENT_NET_DIAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "worker/agent/net/address.h"

#define DIAL_MAX           64u /* endpoints; what is beyond them is not tried */
#define DIAL_ENDPOINT_SIZE 300u

struct dial;

struct dial_to {
    struct slice endpoints; /* tcp://…, separated by commas; borrowed for the call */
    void *context;          /* of ZeroMQ; borrowed */
    const struct keys *own; /* copied */
    const unsigned char *server;
    uint64_t limit_ns;
};

struct dial_found {
    const char *endpoint;
    void *socket;       /* a DEALER, the callee's from now on */
    struct address own; /* by which this host reached it; size 0: not known */
};

/* Called once. found NULL: there is none, and `why` says for each one why not, and from where to
 * where: "tcp://10.0.0.1:4321 (connection refused), tcp://10.1.0.1:4321 (timed out); from
 * 10.0.0.7". */
typedef void (*dial_f)(void *arg, const struct dial_found *found, const char *why);

/* The dial is the caller's to stop, also after f was called. NULL: *err says why. */
struct dial *dial_start(struct loop *loop, const struct dial_to *to, dial_f f, void *arg,
                        struct err *err);
void dial_stop(struct dial *d); /* f is not called any more; NULL is fine */

/* ---- pure parts ---- */

/* Takes the first of the list off. false: none is left. */
bool dial_next(struct slice *endpoints, struct slice *endpoint);
/* In words; 0: it has not answered. */
const char *dial_words(int error);

#endif
