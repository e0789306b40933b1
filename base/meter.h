/* SPDX-License-Identifier: BSD-3-Clause */
/* meter.h - does any new data arrive on a connection? Parts of a message count too: a large
 * message over a slow link is not silence. What comes again does not count: the other side is
 * alive, but nothing reaches it, where only this host's packets are lost. */
#ifndef BASE_METER_H
#define BASE_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct meter {
    int fd;         /* borrowed; its owner may close it at any time; -1: none */
    uint64_t inode; /* of the connection: another one may reuse the number fd */
    uint64_t come;  /* bytes received until the last check, and packets beyond a gap */
    bool is_local;  /* to a relay, by a unix socket */
    /* bytes that a relay has received, for the connection that is to it; borrowed; NULL: there is
     * none */
    const _Atomic uint64_t *relayed;
    uint64_t counted; /* of them, until the last check */
};

#define METER_INIT { -1, 0, 0, false, NULL, 0 }

/* Watches this connection from now on (-1: none). The same one again changes nothing. It also
 * changes the socket's retransmissions, so that a bad link is not silent for long: instead of
 * waiting twice as long each time, the system waits equally long a few times while little data is
 * in flight (Linux: TCP_THIN_LINEAR_TIMEOUTS, in its networking/tcp-thin documentation), and at
 * most 3 s (Linux 6.15 and later: TCP_RTO_MAX_MS). The system still gives up the connection after
 * the usual time (TCP_USER_TIMEOUT of tcp(7)). */
void meter_watch(struct meter *m, int fd);
/* Has data arrived, read or not, since the last call or since meter_watch? Always false where the
 * system does not report it (Linux does, in TCP_INFO of tcp(7)). */
bool meter_moved(struct meter *m);

#endif
