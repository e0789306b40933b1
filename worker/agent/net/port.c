/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - see port.h. */
#include "worker/agent/net/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/process.h"
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

void ports_reserved_init(struct ports_reserved *r)
{
    r->next = 0;
    for (size_t k = 0; k < PORTS_RESERVED; k++)
        r->fd[k] = -1;
}

void ports_reserved_release(struct ports_reserved *r)
{
    for (size_t k = 0; k < PORTS_RESERVED; k++)
        fd_close(&r->fd[k]);
}

/* false: another agent has reserved the port, or its second one. *fd is -1 where nothing can be
 * reserved. */
static bool reserve(unsigned port, int *fd)
{
#ifdef __linux__
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const unsigned other = port_for_jax(port);
    /* the first byte, which is 0, makes the name abstract */
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cellspan-port-%u",
                           port < other ? port : other);
    const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n;
    int why;

    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (const struct sockaddr *)&name, (socklen_t)size) == 0)
        return true;
    why = errno;
    fd_close(fd);
    return why != EADDRINUSE;
#else
    (void)port;
    *fd = -1;
    return true;
#endif
}

void ports_reserved_add(struct ports_reserved *r, int fd)
{
    fd_close(&r->fd[r->next]);
    r->fd[r->next] = fd;
    r->next = (r->next + 1) % PORTS_RESERVED;
}

int port_find(int *reserved, const uint16_t *taken, size_t n, struct err *err)
{
    unsigned of_another = 0, alone = 0;
    int why = 0, alone_fd = -1;

    *reserved = -1;
    for (int i = 0; i < TRIES; i++) {
        const unsigned port = PORT_FIRST + (unsigned)(random_u64() % (PORT_LAST - PORT_FIRST + 1));

        if (is_taken(port, taken, n) || (why = try_port((uint16_t)port)) != 0)
            continue;
        if ((why = try_port((uint16_t)port_for_jax(port))) != 0)
            alone = alone || !reserve(port, &alone_fd) ? alone : port;
        else if (reserve(port, reserved)) {
            fd_close(&alone_fd);
            return (int)port;
        } else
            of_another = port;
    }
    if (alone) {
        *reserved = alone_fd;
        return (int)alone;
    }
    if (of_another)
        return (int)of_another;
    return err_set(err, "no free TCP port between %u and %u was found in %d tries: %s", PORT_FIRST,
                   PORT_LAST, TRIES, strerror(why));
}
