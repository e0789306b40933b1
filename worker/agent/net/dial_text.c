/* SPDX-License-Identifier: BSD-3-Clause */
/* dial_text.c - texts of endpoints: their list, their addresses, and why none of them leads to the
 * holder of the key (declared in dial.h and dial_private.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "worker/agent/net/dial_private.h"

bool dial_next(struct slice *endpoints, struct slice *endpoint)
{
    while (endpoints->n > 0) {
        *endpoint = slice_cut(endpoints, ',');
        if (endpoint->n > 0)
            return true;
    }
    return false;
}

const char *dial_words(int error)
{
    switch (error) {
    case 0:
    case ETIMEDOUT:
        return "timed out";
    case ECONNREFUSED:
        return "connection refused";
    case EHOSTUNREACH:
        return "no route to host";
    case ENETUNREACH:
        return "network is unreachable";
    case ECONNRESET:
        return "connection reset";
    default:
        return strerror(error);
    }
}

void try_address(struct attempt *t, const struct address *a, const char *port)
{
    char ip[ADDRESS_TEXT_SIZE];

    address_text(a, ip);
    snprintf(t->endpoint, sizeof t->endpoint, strchr(ip, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s", ip,
             port);
}

bool try_is_refused(const struct attempt *t)
{
    return t->words[0] || t->error == ECONNREFUSED ||
           (strchr(t->endpoint, '[') && (t->error == ENETUNREACH || t->error == EADDRNOTAVAIL));
}

static int tell_from(struct buf *out)
{
    struct buf list = BUF_INIT;
    struct slice rest, one;
    int rc = address_list(NULL, &list);
    unsigned n = 0;

    rest = buf_slice(&list);
    while (rc == 0 && dial_next(&rest, &one)) {
        if (slice_has(one, '='))
            (void)slice_cut(&one, '=');
        if (n++ < 8)
            rc = buf_addf(out, "%s%.*s", n == 1 ? "; from " : ", ", SLICE_ARG(one));
    }
    buf_release(&list);
    return rc;
}

static const char *words_of(const struct attempt *t)
{
    if (t->words[0])
        return t->words;
    if (try_is_relay(t) && !t->connected)
        return "it has not come up";
    if (t->lookup)
        return host_lookup_why(t->lookup);
    if (t->refused)
        return "it does not let this agent in: its run is over, or its key was used before";
    if (t->strange)
        return "connected, but the encrypted handshake failed: another program listens there, or another kernel, or the link is bad";
    return t->connected ? "connected, but it does not answer" : dial_words(t->error);
}

/* "tcp://10.0.0.1:4321 (timed out)"; one that had a name, "tcp://gw:4321 (10.0.0.1: timed out)". */
static int tell_try(struct buf *out, const struct attempt *t)
{
    const char *const words = words_of(t);
    char ip[ADDRESS_TEXT_SIZE] = "";
    struct address a;
    struct err err = { "" };

    if (try_is_relay(t))
        return buf_addf(out, "the launcher's relay (%s)", words);
    if (!t->named[0])
        return buf_addf(out, "%s (%s)", t->endpoint, words);
    if (address_parse(slice_text(t->endpoint), &a, &err) == 0)
        address_text(&a, ip);
    return buf_addf(out, "%s (%s: %s)", t->named, ip[0] ? ip : "no address", words);
}

/* This host knows no way there at all, as to a bridge of the kernel's machine. */
static bool is_no_way(const struct attempt *t)
{
    return !t->words[0] && !t->lookup && !try_is_relay(t) && !t->connected &&
           t->error == ENETUNREACH;
}

/* Those that say more come first, since long texts are cut. */
int dial_why(const struct attempt *tries, unsigned n, struct buf *out)
{
    const char *between = "";
    int rc = 0;

    for (unsigned no_way = 0; no_way < 2; no_way++)
        for (unsigned i = 0; i < n && rc == 0; i++) {
            if (is_no_way(&tries[i]) != (no_way == 1))
                continue;
            rc = buf_add_text(out, between) < 0 ? -1 : tell_try(out, &tries[i]);
            between = ", ";
        }
    return rc == 0 ? tell_from(out) : rc;
}
