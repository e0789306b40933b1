/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

int address_split(struct slice endpoint, char host[static ADDRESS_HOST_SIZE],
                  char port[static ADDRESS_PORT_SIZE], struct err *err)
{
    static const char scheme[] = "tcp://";
    const size_t n = sizeof scheme - 1;
    struct slice h, p;

    if (!slice_begins(endpoint, scheme) ||
        !slice_host_port(slice_of(endpoint.p + n, endpoint.n - n), &h, &p) || p.n > 5 ||
        h.n >= ADDRESS_HOST_SIZE)
        return err_set(err, "%.*s is no endpoint: tcp://ADDRESS:PORT is wanted",
                       SLICE_ARG(endpoint));
    snprintf(host, ADDRESS_HOST_SIZE, "%.*s", SLICE_ARG(h));
    snprintf(port, ADDRESS_PORT_SIZE, "%.*s", SLICE_ARG(p));
    return 0;
}

int address_parse(struct slice endpoint, struct address *a, struct err *err)
{
    const struct addrinfo want = { .ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
    struct addrinfo *found;
    char host[ADDRESS_HOST_SIZE], port[ADDRESS_PORT_SIZE];
    int rc;

    if (address_split(endpoint, host, port, err) < 0)
        return -1;
    if ((rc = getaddrinfo(host, port, &want, &found)) == EAI_NONAME)
        return err_set(err, "%.*s: no address: names are not looked up", SLICE_ARG(endpoint));
    if (rc != 0)
        return err_set(err, "%.*s: %s", SLICE_ARG(endpoint), gai_strerror(rc));
    memset(a, 0, sizeof *a);
    memcpy(&a->socket, found->ai_addr, found->ai_addrlen);
    a->size = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

void address_text(const struct address *a, char out[static ADDRESS_TEXT_SIZE])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->socket;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->socket;
    const char *text = NULL;

    if (a->socket.ss_family == AF_INET)
        text = inet_ntop(AF_INET, &v4->sin_addr, out, ADDRESS_TEXT_SIZE);
    else if (a->socket.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        text = inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, out, ADDRESS_TEXT_SIZE);
    else if (a->socket.ss_family == AF_INET6)
        text = inet_ntop(AF_INET6, &v6->sin6_addr, out, ADDRESS_TEXT_SIZE);
    if (!text)
        out[0] = '\0';
}

/* ---- interfaces ---- */

/* Is this an address for other machines? Link-local addresses are not: they need the name of an
 * interface. */
static bool take(const struct ifaddrs *i, int family, struct address *a)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
        return false;
    memset(a, 0, sizeof *a);
    a->size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&a->socket, i->ifa_addr, a->size);
    return family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)&a->socket)->sin6_addr);
}

static int add(struct buf *out, size_t begin, const char *ifname, const char *ip)
{
    return buf_addf(out, "%s%s=%s", out->n > begin ? "," : "", ifname, ip);
}

static int add_first(struct ifaddrs *all, const char *ip, bool *loops, size_t begin,
                     struct buf *out)
{
    struct address a;
    char text[ADDRESS_TEXT_SIZE];

    for (const struct ifaddrs *i = all; i && ip[0]; i = i->ifa_next) {
        if (!i->ifa_addr || !take(i, i->ifa_addr->sa_family == AF_INET ? AF_INET : AF_INET6, &a))
            continue;
        address_text(&a, text);
        if (strcmp(text, ip) != 0)
            continue;
        *loops = (i->ifa_flags & IFF_LOOPBACK) != 0;
        return add(out, begin, i->ifa_name, ip);
    }
    return 0;
}

static int add_others(struct ifaddrs *all, int family, const char *first, bool loops, size_t begin,
                      struct buf *out)
{
    struct address a;
    char text[ADDRESS_TEXT_SIZE];
    int rc = 0;

    for (const struct ifaddrs *i = all; i && rc == 0; i = i->ifa_next) {
        if (!take(i, family, &a) || (!loops && (i->ifa_flags & IFF_LOOPBACK)))
            continue;
        address_text(&a, text);
        if (text[0] && strcmp(text, first) != 0)
            rc = add(out, begin, i->ifa_name, text);
    }
    return rc;
}

int address_list(const struct address *first, struct buf *out)
{
    const size_t begin = out->n;
    char ip[ADDRESS_TEXT_SIZE] = "";
    struct ifaddrs *all;
    bool loops = false;
    int rc;

    if (first)
        address_text(first, ip);
    if (getifaddrs(&all) < 0)
        return 0; /* the list stays as it is */
    rc = add_first(all, ip, &loops, begin, out);
    if (rc == 0)
        rc = add_others(all, AF_INET, ip, loops, begin, out);
    if (rc == 0)
        rc = add_others(all, AF_INET6, ip, loops, begin, out);
    freeifaddrs(all);
    return rc;
}

void address_first(struct slice list, struct slice *ifname, struct slice *ip)
{
    struct slice first = slice_cut(&list, ',');

    *ifname = *ip = slice_text("");
    if (!slice_has(first, '='))
        return;
    *ifname = slice_cut(&first, '=');
    *ip = first;
}
