/* disconnect.h - the TCP connections between workers, so that each can shut its own: a collective
 * that waits for a peer returns then. Connections to anybody else (a database, a tracker) are left
 * alone. */
#ifndef WORKER_AGENT_DISCONNECT_H
#define WORKER_AGENT_DISCONNECT_H

#include <stdint.h>

#include "base/buf.h"

struct agent;
struct span;

/* SEVER: asked, the agent answers ENDS; else each worker is told by CUT which of its sockets to
 * shut (perhaps none), and to abort its communicators. */
void disconnect_workers(struct agent *a, const struct span *m, struct slice workers);

/* ---- pure parts ---- */

struct tcp_end {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
};

struct tcp_row {
    struct tcp_end local, peer;
    uint64_t inode;
    unsigned owner; /* whose socket it is; DISCONNECT_NOBODY */
};

#define DISCONNECT_NOBODY 0u

/* One line of /proc/net/tcp or tcp6. 0: an established connection; -1: anything else. */
MUST_USE int disconnect_parse(const char *line, struct tcp_row *row);
#define DISCONNECT_END_SIZE 36u /* bytes of a connection in ENDS */

/* Appends the connection as ENDS has it. -1: memory is out. */
MUST_USE int disconnect_write(const struct tcp_row *row, struct buf *out);
/* Is the connection's other end in `ends`, as another node told it? */
bool disconnect_is_listed(const struct tcp_row *row, struct slice ends);
/* Is there, among n rows, one of another owner that is the other end of *row? */
bool disconnect_is_between(const struct tcp_row *row, const struct tcp_row *all, size_t n);

#endif
