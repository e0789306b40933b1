/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/meter.h, with tcp over the loopback. */
#include "config.h"

#include "base/meter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/tap.h"

/* The two ends of a connection. */
static bool connect_pair(int end[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof at;
    bool there;

    end[0] = socket(AF_INET, SOCK_STREAM, 0);
    there = bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr *)&at, &size) == 0 &&
            connect(end[0], (struct sockaddr *)&at, sizeof at) == 0 &&
            (end[1] = accept(listener, NULL, NULL)) >= 0;
    close(listener);
    return there;
}

/* When they have come. */
static bool pass(int from, int to, const char *bytes)
{
    struct pollfd readable = { .fd = to, .events = POLLIN };

    return send(from, bytes, strlen(bytes), 0) == (ssize_t)strlen(bytes) &&
           poll(&readable, 1, -1) == 1;
}

static void bytes_that_nobody_reads_count(void)
{
    struct meter m = METER_INIT;
    socklen_t size = sizeof(int);
    int end[2], steady = 0;

    if (!ok(connect_pair(end), "a connection"))
        return;
    ok(pass(end[0], end[1], "before"), "bytes come");
    meter_watch(&m, end[1]);
    ok(!meter_moved(&m), "what came before it is watched does not count");
#ifdef TCP_THIN_LINEAR_TIMEOUTS
    ok(getsockopt(end[1], IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &steady, &size) == 0 &&
           steady == 1,
       "what is lost of the answer is sent again at one pace");
#endif
#ifdef __linux__
    /* TCP_RTO_MAX_MS: since Linux 6.15 */
    if (getsockopt(end[0], IPPROTO_TCP, 44, &steady, &size) == 0)
        ok(getsockopt(end[1], IPPROTO_TCP, 44, &steady, &size) == 0 && steady == 3000 &&
               getsockopt(end[1], IPPROTO_TCP, TCP_USER_TIMEOUT, &steady, &size) == 0 &&
               steady == 924000,
           "and after 3 s at most, which does not end the connection earlier");
#endif
    ok(recv(end[1], (char[8]){ "" }, 8, 0) == 6 && pass(end[0], end[1], "more"), "more come");
    meter_watch(&m, end[1]);
#ifdef HAVE_TCP_BYTES_RECEIVED
    ok(meter_moved(&m), "which counts, also when it is watched once more");
#endif
    ok(!meter_moved(&m), "once");
    ok(recv(end[1], (char[8]){ "" }, 8, 0) == 4 && !meter_moved(&m), "reading them is nothing new");
    ok(send(end[1], "x", 1, 0) == 1 && !meter_moved(&m), "nor is what goes the other way");
    close(end[0]);
    close(end[1]);
}

static void a_number_that_is_used_again_is_another_connection(void)
{
    struct meter m = METER_INIT;
    int end[2], other[2];

    if (!ok(connect_pair(end) && connect_pair(other), "two connections"))
        return;
    meter_watch(&m, end[1]);
    ok(pass(other[0], other[1], "for another") && dup2(other[1], end[1]) == end[1],
       "one gets the other's number");
    ok(!meter_moved(&m) && m.fd == -1, "its bytes don't count");
    meter_watch(&m, end[1]);
    close(end[1]);
    ok(!meter_moved(&m) && m.fd == -1, "nor does a closed one");
    close(end[0]);
    close(other[0]);
    close(other[1]);
}

static void what_is_not_tcp_has_no_count(void)
{
    struct meter m = METER_INIT;
    int pair[2];

    ok(!meter_moved(&m), "none");
    if (!ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a pair of unix sockets"))
        return;
    meter_watch(&m, pair[1]);
    ok(pass(pair[0], pair[1], "bytes") && !meter_moved(&m) && m.fd == pair[1], "has no count");
    meter_watch(&m, -1);
    ok(!meter_moved(&m), "and may be left");
    close(pair[0]);
    close(pair[1]);
}

static void only_the_connection_to_a_relay_is_relayed(void)
{
    _Atomic uint64_t relayed = 7;
    struct meter m = METER_INIT;
    int tcp[2], local[2];

    m.relayed = &relayed;
    if (!ok(connect_pair(tcp) && socketpair(AF_UNIX, SOCK_STREAM, 0, local) == 0,
            "a connection by tcp, and one to a relay"))
        return;
    meter_watch(&m, local[1]);
    (void)meter_moved(&m);
    ok(!meter_moved(&m), "a relay at rest is no sign of life");
    relayed++;
    ok(meter_moved(&m) && !meter_moved(&m), "what it receives is one, once");
    meter_watch(&m, tcp[1]);
    relayed++;
    ok(!meter_moved(&m), "but not of who is connected without it");
    for (int i = 0; i < 2; i++) {
        close(tcp[i]);
        close(local[i]);
    }
}

int main(void)
{
    bytes_that_nobody_reads_count();
    a_number_that_is_used_again_is_another_connection();
    what_is_not_tcp_has_no_count();
    only_the_connection_to_a_relay_is_relayed();
    return plan_done();
}
