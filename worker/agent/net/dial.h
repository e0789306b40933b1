/* SPDX-License-Identifier: BSD-3-Clause */
/* dial.h - finds out which of several endpoints leads to the holder of a key. They are tried
 * one shortly after the other, and the first one on which CURVE succeeds is used. So another
 * program at the same port, or a bridge whose address every host has, is not taken for the right
 * server. Once one has taken the connection, it is waited for alone, for a second: as a rule one
 * handshake is made with a key. Endpoints that fail are tried again until the limit, because
 * networks may come up late and lose packets. But if connections to all of them are refused, this
 * is told after a second: the network is there, and nobody listens. */
#ifndef WORKER_AGENT_NET_DIAL_H
#define WORKER_AGENT_NET_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"
#include "protocol/keys.h"
#include "worker/agent/net/address.h"

struct dial;
struct tcp_probe;
struct host_lookup;

#define DIAL_MAX           64u /* endpoints; further ones are not tried */
#define DIAL_ADDRESSES     8u  /* of one name; further ones are not tried */
#define DIAL_ENDPOINT_SIZE 300u
#define DIAL_RELAY         "ipc://"

struct dial_to {
    /* tcp://…, or ipc://…, the socket of a relay that may come later; separated by commas; borrowed
     * for the call */
    struct slice endpoints;
    bool names;             /* names of hosts are looked up; else they are no endpoints */
    void *context;          /* of ZeroMQ; borrowed */
    const struct keys *own; /* copied */
    const unsigned char *server;
    uint64_t limit_ns;
    uint64_t
        more_ns; /* so much longer, if an endpoint has taken the connection by then: it is busy */
    /* each endpoint is tried once, but for dial_beside() and a relay that has not come, and nobody
     * finds out why it does not answer */
    bool once;
};

struct dial_found {
    const char *endpoint;
    void *socket;       /* a DEALER, owned by the callee from now on */
    struct address own; /* this host's address on that connection; size 0: not known */
};

/* Called once. found NULL: no endpoint leads there, and `why` names each with its reason, and this
 * host's addresses: "tcp://10.0.0.1:4321 (connection refused), tcp://gw:4321 (10.1.0.1: timed
 * out); from 10.0.0.7". */
typedef void (*dial_f)(void *arg, const struct dial_found *found, const char *why);

/* The caller must stop the dial, also after f was called. NULL: *err says why. */
struct dial *dial_start(struct loop *loop, const struct dial_to *to, dial_f f, void *arg,
                        struct err *err);
/* In the call of f: at least one endpoint has refused the key. */
bool dial_was_refused(const struct dial *d);
/* In the call of f: time was over in the midst of a handshake. */
bool dial_was_slow(const struct dial *d);
/* Tries these endpoints, too, those of them that are not in the list yet. */
void dial_more(struct dial *d, struct slice endpoints);
/* Tries each endpoint that has not taken the connection with one more socket, beside those that
 * wait: TCP sends the first packet of a connection again only after a second. */
void dial_beside(struct dial *d);
void dial_stop(struct dial *d); /* f is not called any more; NULL is fine */

/* ---- pure parts ---- */
/* Removes the first endpoint from the list. false: the list is empty. */
bool dial_next(struct slice *endpoints, struct slice *endpoint);
const char *dial_words(int error); /* The text for an errno; 0: it did not answer. */

/* ---- tcp_probe.c ---- */
/* Finds out why a tcp endpoint can't be reached, with a plain connection that is closed at once. */

/* error: 0, or the errno of connect(2). The probe is freed after the call. */
typedef void (*tcp_probe_f)(void *arg, int error);

/* NULL: *err says why. */
struct tcp_probe *tcp_probe_start(struct loop *loop, struct slice endpoint, tcp_probe_f f,
                                  void *arg, struct err *err);
void tcp_probe_stop(struct tcp_probe *p); /* f is not called any more; NULL is fine */

/* ---- host_lookup.c ---- */
/* Looks up the name in an endpoint, and goes on as long as name servers don't answer. */

/* The addresses have the endpoint's port. n 0: the name has no address, and host_lookup_why() says
 * why. The lookup is not over by that: whoever started it calls host_lookup_stop(). */
typedef void (*host_lookup_f)(void *arg, const struct address *found, unsigned n);

/* NULL: *err says why. */
struct host_lookup *host_lookup_start(struct loop *loop, struct slice endpoint, host_lookup_f f,
                                      void *arg, struct err *err);
const char *host_lookup_why(const struct host_lookup *l); /* it has no addresses yet */
void host_lookup_stop(struct host_lookup *l); /* f is not called any more; NULL is fine */

#endif
