/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - see address.h. Ports are drawn at random, so two agents of a host rarely choose the
 * same. */
#include "worker/agent/net/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "protocol/span.h"

#define TRIES 200

/* 0: the port can be bound and listened on; else the errno. */
static int try_bind(int family, const struct sockaddr *address, socklen_t size)
{
    const int fd = socket(family, SOCK_STREAM, 0);
    const int one = 1;
    int why = 0;

    if (fd < 0)
        return errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, address, size) < 0 || listen(fd, 1) < 0)
        why = errno;
    close(fd);
    return why;
}

/* Tries all interfaces, with IPv6 (which includes IPv4) and with IPv4 alone. */
static int try_port(uint16_t port)
{
    const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                      .sin6_port = htons(port),
                                      .sin6_addr = IN6ADDR_ANY_INIT };
    const struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    const int why = try_bind(AF_INET6, (const struct sockaddr *)&six, sizeof six);

    if (why && why != EAFNOSUPPORT && why != EADDRNOTAVAIL)
        return why;
    return try_bind(AF_INET, (const struct sockaddr *)&four, sizeof four);
}

/* Is it one of these ports, or that of JAX's of one? */
static bool is_taken(unsigned port, const uint16_t *taken, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (port == taken[k] || port == port_for_jax(taken[k]))
            return true;
    return false;
}

int port_find(const uint16_t *taken, size_t n, struct err *err)
{
    int why = 0;

    for (int i = 0; i < TRIES; i++) {
        const unsigned port = PORT_FIRST + (unsigned)(random_u64() % (PORT_LAST - PORT_FIRST + 1));

        if (!is_taken(port, taken, n) && (why = try_port((uint16_t)port)) == 0 &&
            (why = try_port((uint16_t)port_for_jax(port))) == 0)
            return (int)port;
    }
    return err_set(err, "no free TCP port between %u and %u was found in %d tries: %s", PORT_FIRST,
                   PORT_LAST, TRIES, strerror(why));
}
