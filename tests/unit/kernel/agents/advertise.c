/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of CELLSPAN_ADVERTISE. */
#include "kernel/agents/listen.h"
#include "tests/unit/tap.h"

#define EIGHT "a,b,c,d,e,f,g,h"

static void addresses_become_endpoints(void)
{
    static const struct {
        const char *text, *endpoints;
    } good[] = {
        { "gw.example:443", "tcp://gw.example:443" },
        { "gw.example", "tcp://gw.example:41000" },
        { "198.51.100.7:1", "tcp://198.51.100.7:1" },
        { "[fd00::1]", "tcp://[fd00::1]:41000" },
        { "[::ffff:10.0.0.1]:65535", "tcp://[::ffff:10.0.0.1]:65535" },
        { "my_host-2:7,10.0.0.5, [fd00::1]:8",
          "tcp://my_host-2:7,tcp://10.0.0.5:41000,tcp://[fd00::1]:8" },
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct buf out = BUF_INIT;
        struct err err = { "" };

        is_int(advertise_endpoints(good[i].text, 41000, &out, &err), 0, "%s", good[i].text);
        is_text(out.p ? out.p : "", good[i].endpoints, "is what agents dial");
        buf_release(&out);
    }
}

static void what_is_wrong_is_named(void)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "gw:0", "\"gw:0\": its port is none: a number from 1 to 65535 is wanted" },
        { "gw:65536", "\"gw:65536\": its port is none" },
        { "gw:ssh", "\"gw:ssh\": its port is none" },
        { "gw:", "\"gw:\": its port is none" },
        { "gw:41000-41100", "\"gw:41000-41100\": its port is none" },
        { "a,gw:1:2,b", "\"gw:1:2\": its port is none" },
        { "[fd00::1]41000", "\"[fd00::1]41000\": its port is none" },
        { "[fd00::1]:x", "\"[fd00::1]:x\": its port is none" },
        { "a,,b", "piece 2 of it is empty: HOST, HOST:PORT or [IPV6]:PORT is wanted" },
        { ",a", "piece 1 of it is empty" },
        { "a:1,", "piece 2 of it is empty" },
        { " ", "piece 1 of it is empty" },
        { "fd00::1", "\"fd00::1\": an IPv6 address stands in brackets: write [fd00::1]" },
        { "[fd00::1", "\"[fd00::1\": there is no IPv6 address in its brackets" },
        { "[gw]:1", "\"[gw]:1\": there is no IPv6 address in its brackets" },
        { "[]", "\"[]\": there is no IPv6 address in its brackets" },
        { "tcp://gw:1", "\"tcp://gw:1\": it is written without tcp://: HOST" },
        { ":443", "\":443\": this is no name of a host" },
        { "me@gw:22", "\"me@gw:22\": this is no name of a host" },
        { "gw/x", "\"gw/x\": this is no name of a host" },
        { "a b", "\"a b\": this is no name of a host" },
        { EIGHT "," EIGHT ",i", "name at most 16 addresses" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = BUF_INIT;
        struct err err = { "" };

        ok(advertise_endpoints(bad[i].text, 41000, &out, &err) < 0 &&
               strncmp(err.text, "CELLSPAN_ADVERTISE=", 19) == 0 && strstr(err.text, bad[i].why),
           "%s", err.text);
        buf_release(&out);
    }
}

int main(void)
{
    addresses_become_endpoints();
    what_is_wrong_is_named();
    return plan_done();
}
