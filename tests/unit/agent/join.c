/* SPDX-License-Identifier: BSD-3-Clause */
/* How an agent connects to its kernel over tcp: the secret, the endpoint that answers, refusals.
 * With real processes. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "protocol/span_fields.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/hung.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"

static const char *self;

static bool environ_shows(pid_t pid, const char *text)
{
    char path[64], all[65536];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    if ((fd = open(path, O_RDONLY)) < 0)
        return false;
    n = read(fd, all, sizeof all);
    close(fd);
    return n > 0 && memmem(all, (size_t)n, text, strlen(text));
}

static void secrets_leave_no_trace(void)
{
    struct lan l;
    char text[SECRET_TEXT_SIZE];

    lan_open(&l);
    secret_format(&l.secret, text);
    lan_join(&l, 1, LAN_ENVIRONMENT);
    ok(slice_is(l.last.v[F_HELLO_NODE].s, "n1") && l.last.v[F_HELLO_VERSION].u64 == 2,
       "an agent dials with what its environment hands over");
    ok(l.addresses.n > 13 && memcmp(l.addresses.p, "lo=127.0.0.1", 12) == 0,
       "the address that it used comes first: %s", l.addresses.p);
    ok(access("/proc/self/environ", R_OK) < 0 || !environ_shows(l.member[1].pid, text + 70),
       "its environment shows no secret");
    ok(access("/proc/self/environ", R_OK) < 0 || environ_shows(l.member[1].pid, "PATH="),
       "and the rest");
    is_int(lan_end(&l, 1), 0, "it ends with its stdin");
    lan_join(&l, 2, LAN_STDIN);
    ok(l.node == 2, "an agent dials with what its stdin hands over");
    ok(lan_end(&l, 2) == 0 && !lan_wrote(&l, 2, text + 70), "it ends as well");
    lan_close(&l);
}

/* An agent that does not get in ends with status 3 after the time that it may dial, and says so.
 * Where this machine stood still for as long, it could not learn why: it gets more time. */
static bool ends_within(struct lan *l, uint32_t node, const char *endpoints, const char *secret,
                        const char *said)
{
    static const char *const limits[] = { "3", "40" };
    bool told = false;

    for (size_t i = 0; i < sizeof limits / sizeof *limits && !told; i++) {
        setenv("CELLSPAN_DIAL_TIMEOUT", limits[i], 1);
        lan_start(l, node, LAN_STDIN, endpoints, secret);
        told = lan_wait(l, node) == 3 && lan_wrote(l, node, said);
    }
    unsetenv("CELLSPAN_DIAL_TIMEOUT");
    return told;
}

static void wrong_secrets_are_refused(void)
{
    static const char *const wrong[] = {
        "", "1:0011", "2:xyz", "2:00000000000000000000000000000000000000000000000000000000000000:00"
    };
    struct lan l;
    struct keys other;
    char text[SECRET_TEXT_SIZE], longer[1200];

    lan_open(&l);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lan_start(&l, 1, LAN_STDIN, NULL, wrong[i]);
        is_int(lan_wait(&l, 1), 1, "a wrong secret: \"%s\"", wrong[i]);
        ok(lan_wrote(&l, 1, "CELLSPAN_SECRET") && (i < 2 || !lan_wrote(&l, 1, wrong[i])),
           "it is named, and not shown");
    }
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    lan_start(&l, 1, LAN_STDIN, NULL, longer);
    ok(lan_wait(&l, 1) == 1 && lan_wrote(&l, 1, "longer than") && !lan_wrote(&l, 1, "xxx"),
       "a line that is too long");
    lan_start(&l, 1, LAN_ENVIRONMENT, NULL, "2:nonsense");
    ok(lan_wait(&l, 1) == 1 && !lan_wrote(&l, 1, "nonsense"), "a wrong one in the environment");
    keys_create(&other);
    memcpy(l.secret.kernel, other.public, KEY_SIZE);
    secret_format(&l.secret, text);
    ok(ends_within(&l, 1, NULL, text, "another program listens there"),
       "another kernel's key is not talked to, and it says so");
    lan_close(&l);
}

static void reachable_endpoints_are_found(void)
{
    struct lan l;
    char text[SECRET_TEXT_SIZE], list[256], said[256], closed[64];

    lan_open(&l);
    secret_format(&l.secret, text);
    snprintf(closed, sizeof closed, "tcp://127.0.0.1:%u", CLOSED_PORT);
    snprintf(list, sizeof list, "%s,tcp://host.invalid:1,nonsense,tcp://127.0.0.1:%u", closed,
             l.port);
    lan_start(&l, 1, LAN_STDIN, list, text);
    ok(lan_until(&l, SPAN_HELLO, 0), "the one of several endpoints that answers is taken");
    snprintf(list, sizeof list, "%s,tcp://host.invalid:1", closed);
    snprintf(
        said, sizeof said,
        "cellspan-agent on n2 can't reach the kernel: %s (connection refused), tcp://host.invalid:1 (no address",
        closed);
    ok(ends_within(&l, 2, list, text, said) && lan_wrote(&l, 2, "CELLSPAN_INTERFACE"),
       "if none does it ends, and says where it tried, and why not");
    lan_close(&l);
}

static bool is_in(const char *path, const char *text)
{
    char all[16384];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd < 0 ? -1 : read(fd, all, sizeof all);

    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(all, (size_t)n, text, strlen(text));
}

static bool comes_in(const char *path, const char *text)
{
    for (unsigned k = 0; k < 6000 && !is_in(path, text); k++)
        usleep(10000);
    return is_in(path, text);
}

static void a_way_that_opens_late_needs_no_relay(void)
{
    struct lan l;
    char text[SECRET_TEXT_SIZE], log[192], to[224], late[64];

    lan_open(&l);
    secret_format(&l.secret, text);
    snprintf(log, sizeof log, "%s/log", l.dir);
    snprintf(to, sizeof to, "info:%s", log);
    snprintf(late, sizeof late, "tcp://127.0.0.1:%u", l.port);
    must(zmq_unbind(l.router, late) == 0, "unbind");
    setenv("CELLSPAN_LOG", to, 1);
    setenv("CELLSPAN_RELAY_OFFERED", "1", 1);
    lan_start(&l, 1, LAN_STDIN, late, text);
    unsetenv("CELLSPAN_RELAY_OFFERED");
    unsetenv("CELLSPAN_LOG");
    ok(comes_in(log, "a relay is wanted"), "who can't reach the kernel asks for a relay");
    must(zmq_bind(l.router, late) == 0, "bind");
    ok(lan_until(&l, SPAN_HELLO, 0), "but may reach it yet");
    ok(comes_in(log, "the relay is not wanted any more"), "and says that it needs none");
    is_int(lan_end(&l, 1), 0, "it ends with its stdin");
    (void)unlink(log);
    lan_close(&l);
}

static void names_are_looked_up(void)
{
    struct lan l;
    char text[SECRET_TEXT_SIZE], list[128], said[256];

    lan_open(&l);
    secret_format(&l.secret, text);
    snprintf(list, sizeof list, "tcp://host.invalid:1,tcp://localhost:%u", l.port);
    lan_start(&l, 1, LAN_STDIN, list, text);
    ok(lan_until(&l, SPAN_HELLO, 0), "the name of a host is an endpoint");
    is_int(lan_end(&l, 1), 0, "as good as any");
    snprintf(list, sizeof list, "tcp://localhost:%u", CLOSED_PORT);
    snprintf(said, sizeof said, "%s (127.0.0.1: connection refused)", list);
    ok(ends_within(&l, 2, list, text, said), "one that does not answer is told with its address");
    lan_close(&l);
}

/* The limit is far off: who waits for it, waits too long for this test. */
static void refused_connections_are_told_at_once(void)
{
    struct lan l;
    char text[SECRET_TEXT_SIZE], list[256];

    lan_open(&l);
    secret_format(&l.secret, text);
    setenv("CELLSPAN_DIAL_TIMEOUT", "86400", 1);
    snprintf(list, sizeof list, "tcp://127.0.0.1:%u,tcp://localhost:%u", CLOSED_PORT, CLOSED_PORT);
    lan_start(&l, 1, LAN_STDIN, list, text);
    ok(lan_wait(&l, 1) == 3 && lan_wrote(&l, 1, "tcp://127.0.0.1:1 (connection refused)"),
       "if all refuse, it does not wait for the limit");
    lan_start(&l, 2, LAN_STDIN, "nonsense", text);
    ok(lan_wait(&l, 2) == 3 && lan_wrote(&l, 2, "nonsense (tcp://ADDRESS:PORT is wanted)"),
       "nor if there is nothing to try");
    unsetenv("CELLSPAN_DIAL_TIMEOUT");
    lan_close(&l);
}

static void refusals_are_told(void)
{
    struct span m = { .kind = SPAN_REFUSE };
    struct lan l;

    lan_open(&l);
    l.mute = true;
    lan_join(&l, 1, LAN_STDIN);
    m.v[F_REFUSE_TEXT].s = slice_text("update the other side");
    lan_tell(&l, 1, 0xffffffffu, &m);
    ok(lan_wait(&l, 1) == 1 && lan_wrote(&l, 1, "update the other side"),
       "REFUSE ends it, with the kernel's words");
    lan_close(&l);
}

int main(int argc, char **argv)
{
    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    self = argv[0];
    secrets_leave_no_trace();
    wrong_secrets_are_refused();
    reachable_endpoints_are_found();
    a_way_that_opens_late_needs_no_relay();
    names_are_looked_up();
    refused_connections_are_told_at_once();
    refusals_are_told();
    return plan_done();
}
