/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/ports.h. */
#include "base/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/tap.h"

static void ranges_are_read(void)
{
    static const struct {
        const char *text;
        unsigned first, last;
    } good[] = {
        { "1", 1, 1 },   { "41000", 41000, 41000 }, { "41000-41100", 41000, 41100 },
        { "7-7", 7, 7 }, { "1-65535", 1, 65535 },
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct port_range r = { 0, 0 };
        struct err err = { "" };

        ok(port_range_read(good[i].text, &r, &err) == 0 && r.first == good[i].first &&
               r.last == good[i].last,
           "%s", good[i].text);
    }
}

static void what_is_no_range_is_named(void)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "ssh", "ssh: a port or a range of ports is wanted, as 41000 or 41000-41100" },
        { "41000-", "41000-: a port or a range of ports is wanted" },
        { "-41000", "-41000: a port or a range of ports is wanted" },
        { "-", "-: a port or a range of ports is wanted" },
        { "41000 - 41100", "41000 - 41100: a port or a range of ports is wanted" },
        { "41000-41100-41200", "41000-41100-41200: a port or a range of ports is wanted" },
        { "41000,41001", "41000,41001: a port or a range of ports is wanted" },
        { "+41000", "+41000: a port or a range of ports is wanted" },
        { "0xa028", "0xa028: a port or a range of ports is wanted" },
        { "0", "0: ports are numbers from 1 to 65535, as 41000" },
        { "0-41000", "0-41000: ports are numbers from 1 to 65535" },
        { "41000-65536", "41000-65536: ports are numbers from 1 to 65535" },
        { "4294967297", "4294967297: ports are numbers from 1 to 65535" },
        { "99999999999999999999999", "99999999999999999999999: ports are numbers from 1 to 65535" },
        { "41100-41000", "41100-41000: this range is reversed: write 41000-41100" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct port_range r = { 5, 6 };
        struct err err = { "" };

        ok(port_range_read(bad[i].text, &r, &err) < 0 &&
               strncmp(err.text, "CELLSPAN_PORT=", 14) == 0 &&
               strncmp(err.text + 14, bad[i].why, strlen(bad[i].why)) == 0,
           "%s", err.text);
        ok(r.first == 5 && r.last == 6, "and the range stays as it was");
    }
}

/* ---- ports of this machine ---- */

struct held {
    int fd;
    unsigned calls, port;
    int fails; /* with this errno, whatever the port */
};

static int hold(void *arg, unsigned port)
{
    struct held *h = arg;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    socklen_t size = sizeof at;

    h->calls++;
    if (h->fails)
        return h->fails;
    h->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(h->fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(h->fd, 1) < 0) {
        const int why = errno;

        close(h->fd);
        h->fd = -1;
        return why;
    }
    (void)getsockname(h->fd, (struct sockaddr *)&at, &size);
    h->port = ntohs(at.sin_port);
    return 0;
}

static void set(const char *format, unsigned first, unsigned last)
{
    char text[64];

    snprintf(text, sizeof text, format, first, last);
    setenv("CELLSPAN_PORT", text, 1);
}

/* Two ports beside each other that are free now. */
static unsigned free_pair(struct held pair[2])
{
    for (unsigned port = 20011; port < 29000; port += 2) {
        pair[0] = pair[1] = (struct held){ .fd = -1 };
        if (hold(&pair[0], port) == 0 && hold(&pair[1], port + 1) == 0)
            return port;
        close(pair[0].fd);
    }
    return 0;
}

static void a_free_port_is_found(void)
{
    struct held pair[2], mine = { .fd = -1 };
    const unsigned port = free_pair(pair);
    struct err err = { "" };

    close(pair[1].fd);
    set("%u-%u", port, port + 1);
    ok(ports_listen(hold, &mine, &err) == 0 && mine.port == port + 1 && mine.calls == 2,
       "the first free one of the range");
    close(mine.fd);
    close(pair[0].fd);
    mine = (struct held){ .fd = -1 };
    ok(ports_listen(hold, &mine, &err) == 0 && mine.port == port && mine.calls == 1,
       "the first one, if it is free");
    close(mine.fd);
    unsetenv("CELLSPAN_PORT");
    mine = (struct held){ .fd = -1 };
    ok(ports_listen(hold, &mine, &err) == 0 && mine.port > 0, "without the setting, any");
    close(mine.fd);
}

static void who_holds_them_is_told(void)
{
    struct held pair[2], mine = { .fd = -1 };
    const unsigned port = free_pair(pair);
    char want[256];
    struct err err = { "" };

    set("%u-%u", port, port + 1);
    snprintf(want, sizeof want,
             "CELLSPAN_PORT=%u-%u: all ports of this range are taken (%u by ports.t, process %ld; "
             "%u by ports.t, process %ld): give it more ports or others, or end what holds them",
             port, port + 1, port, (long)getpid(), port + 1, (long)getpid());
    ok(ports_listen(hold, &mine, &err) < 0 && mine.calls == 2, "all of them are tried");
    if (access("/proc/net/tcp", R_OK) == 0)
        is_text(err.text, want, "and who holds them is told");
    else
        ok(strstr(err.text, "are taken:") != NULL, "%s", err.text);
    set("%u", port, 0);
    err = (struct err){ "" };
    ok(ports_listen(hold, &mine, &err) < 0 && strstr(err.text, ": this port is taken"), "%s",
       err.text);
    close(pair[0].fd);
    close(pair[1].fd);
}

static void other_failures_are_told(void)
{
    struct held mine = { .fd = -1, .fails = EACCES };
    struct err err = { "" };

    setenv("CELLSPAN_PORT", "80-82", 1);
    ok(ports_listen(hold, &mine, &err) < 0 && mine.calls == 3 &&
           strstr(err.text, "CELLSPAN_PORT=80-82") && strstr(err.text, "choose higher ones"),
       "%s", err.text);
    mine = (struct held){ .fd = -1, .fails = EMFILE };
    err = (struct err){ "" };
    ok(ports_listen(hold, &mine, &err) < 0 && mine.calls == 1 && strstr(err.text, "open files"),
       "what other ports would not change is told at once: %s", err.text);
    setenv("CELLSPAN_PORT", "82-80", 1);
    mine = (struct held){ .fd = -1 };
    err = (struct err){ "" };
    ok(ports_listen(hold, &mine, &err) < 0 && mine.calls == 0, "no port is opened instead");
    is_text(err.text, "CELLSPAN_PORT=82-80: this range is reversed: write 80-82",
            "of a wrong value");
    unsetenv("CELLSPAN_PORT");
    mine = (struct held){ .fd = -1, .fails = EADDRINUSE };
    err = (struct err){ "" };
    ok(ports_listen(hold, &mine, &err) < 0 && mine.calls > 1, "any: tried more than once: %s",
       err.text);
}

int main(void)
{
    ranges_are_read();
    what_is_no_range_is_named();
    a_free_port_is_found();
    who_holds_them_is_told();
    other_failures_are_told();
    return plan_done();
}
