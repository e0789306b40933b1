/* SPDX-License-Identifier: BSD-3-Clause */
/* advertise.c - reads CELLSPAN_ADVERTISE, the addresses that agents dial instead of those of the
 * kernel's own sockets (declared in listen.h). */
#include "kernel/agents/listen.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>

#include "base/ports.h"

#define PIECES_MAX 16u  /* agents would try more for too long */
#define NAME_MAX   253u /* of DNS */
#define WANTED     "HOST, HOST:PORT or [IPV6]:PORT is wanted, with commas between several"

static int refuse(const char *text, struct slice piece, const char *why, struct err *err)
{
    return err_set(err, "CELLSPAN_ADVERTISE=%.160s: \"%.*s\": %s", text,
                   piece.n < 100 ? (int)piece.n : 100, piece.p, why);
}

static struct slice trim(struct slice s)
{
    while (s.n && s.p[0] == ' ')
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

static bool is_name(struct slice host)
{
    for (size_t i = 0; i < host.n; i++)
        if (!isalnum((unsigned char)host.p[i]) && !strchr("-._", host.p[i]))
            return false;
    return host.n > 0 && host.n <= NAME_MAX;
}

static bool is_ipv6(struct slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (host.n >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", SLICE_ARG(host));
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* Cuts the host, without its brackets, off the piece: ":PORT" or nothing is left. NULL: it was one;
 * else what is wrong. */
static const char *cut_host(struct slice *piece, struct slice *host)
{
    const struct slice whole = *piece;
    size_t n = 0;

    if (slice_holds(whole, "://"))
        return "it is written without tcp://: " WANTED;
    if (whole.n && whole.p[0] == '[') {
        while (n < whole.n && whole.p[n] != ']')
            n++;
        *host = slice_of(whole.p + 1, n - 1);
        if (n == whole.n || !is_ipv6(*host))
            return "there is no IPv6 address in its brackets: write [fd00::1] or [fd00::1]:41000";
        *piece = slice_of(whole.p + n + 1, whole.n - n - 1);
        return NULL;
    }
    if (is_ipv6(whole))
        return "an IPv6 address stands in brackets: write [fd00::1] or [fd00::1]:41000";
    while (n < whole.n && whole.p[n] != ':')
        n++;
    *host = slice_of(whole.p, n);
    *piece = slice_of(whole.p + n, whole.n - n);
    return is_name(*host) ? NULL : "this is no name of a host: " WANTED;
}

static int add_piece(const char *text, struct slice piece, unsigned port, struct buf *out,
                     struct err *err)
{
    struct slice rest = piece, host;
    const char *why = cut_host(&rest, &host);

    if (why)
        return refuse(text, piece, why, err);
    if (rest.n && (rest.p[0] != ':' || !(port = port_read(slice_of(rest.p + 1, rest.n - 1)))))
        return refuse(text, piece, "its port is none: a number from 1 to 65535 is wanted", err);
    return buf_addf(out, slice_has(host, ':') ? "%stcp://[%.*s]:%u" : "%stcp://%.*s:%u",
                    out->n ? "," : "", SLICE_ARG(host), port) < 0
               ? err_set(err, "out of memory")
               : 0;
}

int advertise_endpoints(const char *text, unsigned port, struct buf *out, struct err *err)
{
    struct slice rest = slice_text(text);
    unsigned n = 0;

    for (bool last = false; !last; n++) {
        struct slice piece;

        last = !slice_has(rest, ',');
        piece = trim(slice_cut(&rest, ','));
        if (n == PIECES_MAX)
            return err_set(err, "CELLSPAN_ADVERTISE=%.160s: name at most %u addresses", text,
                           PIECES_MAX);
        if (!piece.n)
            return err_set(err, "CELLSPAN_ADVERTISE=%.160s: piece %u of it is empty: " WANTED, text,
                           n + 1);
        if (add_piece(text, piece, port, out, err) < 0)
            return -1;
    }
    return 0;
}
