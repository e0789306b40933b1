/* SPDX-License-Identifier: BSD-3-Clause */
/* dial_private.h - what dial.c knows of each endpoint, for dial_text.c. */
#ifndef WORKER_AGENT_NET_DIAL_PRIVATE_H
#define WORKER_AGENT_NET_DIAL_PRIVATE_H

#include <string.h>

#include "base/buf.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/knock.h"

#define DIAL_KNOCKS 3u /* at one endpoint, beside each other */

struct attempt {
    struct dial *dial;
    char endpoint[DIAL_ENDPOINT_SIZE];
    char named[DIAL_ENDPOINT_SIZE]; /* with the host's name, if it had one */
    struct host_lookup *lookup;     /* of this name; not NULL: it can't be tried yet */
    char words[160];                /* why the endpoint can't be tried; "": it can */
    bool started;
    struct knock *knock[DIAL_KNOCKS]; /* those that wait, the oldest first */
    unsigned knocks;
    uint64_t began;      /* which of all knocks the last one here was */
    struct watch *again; /* for the next one */
    uint64_t pause_ns;   /* before it */
    bool held;           /* it has been waited for alone */
    bool connected;      /* at least once */
    bool failed;         /* at least once, before it was connected */
    bool refused;        /* our key was refused there */
    bool strange;        /* another program listens there */
    bool ended;          /* the connection has ended, or could not be made */
    struct tcp_probe *probe;
    int error; /* the errno that the probe found; 0: none */
};

static inline bool try_is_relay(const struct attempt *t)
{
    return strncmp(t->endpoint, DIAL_RELAY, strlen(DIAL_RELAY)) == 0;
}

/* The address that its name has, with that port. */
void try_address(struct attempt *t, const struct address *a, const char *port);
/* No other answer is to be expected from this endpoint. IPv6 may be unreachable because this host
 * has none. */
bool try_is_refused(const struct attempt *t);
/* Adds why the n endpoints lead nowhere, as dial_f gets it. */
MUST_USE int dial_why(const struct attempt *tries, unsigned n, struct buf *out);

#endif
