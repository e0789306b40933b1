/* SPDX-License-Identifier: BSD-3-Clause */
/* cut_ranks.h - finds the TCP connections between workers, so that each worker can shut its own:
 * then a collective that waits for a peer returns. Connections to other programs (a database, a
 * tracker) are left alone. */
#ifndef WORKER_AGENT_CUT_RANKS_H
#define WORKER_AGENT_CUT_RANKS_H

#include <stdint.h>

#include "base/buf.h"

struct agent;
struct span;

/* CUT_RANKS. If it asks, the agent answers with CONNECTIONS. Else it tells each worker by
 * CUT_SOCKETS which of its sockets to shut, and to abort its communicators. */
void cut_ranks_on_message(struct agent *a, const struct span *m, struct slice workers);

/* ---- pure parts ---- */

struct tcp_end {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
};

struct tcp_row {
    struct tcp_end local, peer;
    uint64_t inode;
    unsigned owner; /* whose socket it is; or CUT_RANKS_NOBODY */
    bool cut;       /* it is to be shut */
};

#define CUT_RANKS_NOBODY 0u

/* One line of /proc/net/tcp or tcp6. 0: an established connection; -1: anything else. */
MUST_USE int cut_ranks_parse(const char *line, struct tcp_row *row);
#define CUT_RANKS_END_SIZE 36u /* bytes of a connection in CONNECTIONS */

/* Appends the connection as CONNECTIONS has it. -1: memory is out. */
MUST_USE int cut_ranks_write(const struct tcp_row *row, struct buf *out);
/* Both sort for the searches below, which take no longer for many connections. */
void cut_ranks_sort(struct tcp_row *row, size_t n);
void cut_ranks_sort_listed(struct buf *connections);
/* Is the other end of the connection in `connections`, which another node sent? */
bool cut_ranks_is_listed(const struct tcp_row *row, struct slice connections);
/* Is the other end of *row among these n rows, with another owner? */
bool cut_ranks_is_between(const struct tcp_row *row, const struct tcp_row *all, size_t n);

#endif
