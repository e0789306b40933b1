/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports for ranks where somebody else listens on many. In a network namespace of its own, so nobody
 * else's ports are taken. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <netinet/in.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/process.h"
#include "base/random.h"
#include "protocol/span.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/port.h"

#define ALL  (PORT_LAST - PORT_FIRST + 1)
#define HALF (ALL / 2)

#ifdef __linux__
static int listener[ALL];

static void listen_on(unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        const struct sockaddr_in6 at = { .sin6_family = AF_INET6,
                                         .sin6_port = htons((uint16_t)(PORT_FIRST + i)),
                                         .sin6_addr = IN6ADDR_ANY_INIT };

        listener[i] = socket(AF_INET6, SOCK_STREAM, 0);
        if (listener[i] < 0 || bind(listener[i], (const struct sockaddr *)&at, sizeof at) < 0 ||
            listen(listener[i], 1) < 0)
            abort();
    }
}

static void half_of_them_are_taken(void)
{
    int reserved[100];
    bool good = true;
    struct err err = { "" };

    listen_on(0, HALF);
    for (int i = 0; i < 100; i++) {
        const int port = port_find(&reserved[i], NULL, 0, &err);

        good = good && port >= (int)(PORT_FIRST + HALF) && port <= (int)PORT_LAST;
    }
    ok(good, "where no port has its second one, one is found all the same: %s", err.text);
    ok(reserved[0] >= 0, "and reserved");
    for (int i = 0; i < 100; i++)
        fd_close(&reserved[i]);
}

static void all_of_them_are_taken(void)
{
    struct err err = { "" };
    int reserved;

    listen_on(HALF, HALF);
    ok(port_find(&reserved, NULL, 0, &err) < 0 && reserved < 0 &&
           strstr(err.text, "between 20000 and 29999"),
       "where all are taken, none is found: %s", err.text);
}

static bool may_listen(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < ALL + 200)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
}
#endif

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        return 1;
#ifdef __linux__
    if (may_listen()) {
        half_of_them_are_taken();
        all_of_them_are_taken();
        return plan_done();
    }
#endif
    skip("no network namespace can be made, or not enough sockets");
    return plan_done();
}
