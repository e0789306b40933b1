/* listen.c - see listen.h. */
#include "kernel/agents/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PLACES_MAX 16u /* addresses; more than that nobody tries */

struct place {
    char interface[IF_NAMESIZE];
    char ip[INET6_ADDRSTRLEN];
    bool six, loopback;
};

struct places {
    struct place place[PLACES_MAX];
    unsigned n;
};

/* false: not an address that another machine could dial. */
static bool place_of(const struct ifaddrs *at, struct place *p)
{
    const struct sockaddr *sa = at->ifa_addr;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (!sa || !(at->ifa_flags & IFF_UP))
        return false;
    *p = (struct place){ .six = sa->sa_family == AF_INET6,
                         .loopback = at->ifa_flags & IFF_LOOPBACK };
    snprintf(p->interface, sizeof p->interface, "%s", at->ifa_name);
    if (sa->sa_family == AF_INET) {
        memcpy(&in, sa, sizeof in);
        return inet_ntop(AF_INET, &in.sin_addr, p->ip, sizeof p->ip) != NULL;
    }
    if (sa->sa_family != AF_INET6)
        return false;
    memcpy(&in6, sa, sizeof in6);
    return !IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
           inet_ntop(AF_INET6, &in6.sin6_addr, p->ip, sizeof p->ip);
}

static bool is_wanted(const struct place *p, const char *interface)
{
    return !interface || !*interface || strcmp(p->interface, interface) == 0 ||
           strcmp(p->ip, interface) == 0;
}

/* Those that are wanted, IPv4 first, loopback last. */
static void choose(struct places *out, const struct ifaddrs *all, const char *interface)
{
    for (int round = 0; round < 4; round++)
        for (const struct ifaddrs *at = all; at && out->n < PLACES_MAX; at = at->ifa_next) {
            struct place p;

            if (place_of(at, &p) && is_wanted(&p, interface) && 2 * p.loopback + p.six == round)
                out->place[out->n++] = p;
        }
}

static int complain(const struct ifaddrs *all, const char *interface, struct err *err)
{
    struct places there = { .n = 0 };
    struct buf list = BUF_INIT;

    choose(&there, all, NULL);
    for (unsigned i = 0; i < there.n; i++)
        if (buf_addf(&list, "%s%s (%s)", i ? ", " : "", there.place[i].interface,
                     there.place[i].ip) < 0)
            break;
    err_set(
        err,
        "CELLSPAN_INTERFACE=%.64s: this machine has no such interface or address; there are: %s",
        interface, list.n ? list.p : "none");
    buf_release(&list);
    return -1;
}

static int add_endpoint(const struct place *p, unsigned port, struct buf *out)
{
    return buf_addf(out, p->six ? "%stcp://[%s]:%u" : "%stcp://%s:%u", out->n ? "," : "", p->ip,
                    port);
}

/* Every wanted address by itself; all at the port that the first one got. */
static int bind_each(struct router *r, const struct places *places, struct err *err)
{
    for (unsigned i = 0; i < places->n; i++) {
        const struct place *p = &places->place[i];
        char endpoint[INET6_ADDRSTRLEN + 32], port[16] = "*";

        if (i > 0)
            snprintf(port, sizeof port, "%u", router_port(r));
        snprintf(endpoint, sizeof endpoint, p->six ? "tcp://[%s]:%s" : "tcp://%s:%s", p->ip, port);
        if (router_bind(r, endpoint, err) < 0)
            return -1;
    }
    return 0;
}

static int bind_and_list(struct router *r, const struct ifaddrs *all, const char *interface,
                         struct buf *endpoints, struct err *err)
{
    struct places places = { .n = 0 };
    const bool some = interface && *interface;

    choose(&places, all, interface);
    if (places.n == 0)
        return some ? complain(all, interface, err)
                    : err_set(err, "this machine has no network address");
    if ((some ? bind_each(r, &places, err) : router_bind(r, "tcp://*:*", err)) < 0)
        return -1;
    for (unsigned i = 0; i < places.n; i++)
        if (add_endpoint(&places.place[i], router_port(r), endpoints) < 0)
            return err_set(err, "out of memory");
    return 0;
}

int listen_bind(struct router *r, const char *interface, struct buf *endpoints, struct err *err)
{
    struct ifaddrs *all;
    int rc;

    if (getifaddrs(&all) < 0)
        return err_set(err, "this machine's addresses can't be listed: %s", strerror(errno));
    rc = bind_and_list(r, all, interface, endpoints, err);
    freeifaddrs(all);
    return rc;
}
