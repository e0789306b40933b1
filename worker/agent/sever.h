/* sever.h - the TCP connections between workers, so that each can shut its own: a collective that waits for a peer
 * returns then. Connections to anybody else (a database, a tracker) are left alone. */
#ifndef WORKER_AGENT_SEVER_H
#define WORKER_AGENT_SEVER_H

#include <stdint.h>

#include "base/buf.h"

struct agent;

void sever_workers(struct agent *a, struct slice workers);

/* ---- pure parts ---- */

struct sever_end {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
};

struct sever_row {
    struct sever_end local, peer;
    uint64_t inode;
    unsigned owner; /* whose socket it is; SEVER_NOBODY */
};

#define SEVER_NOBODY 0u

/* One line of /proc/net/tcp or tcp6. 0: an established connection; -1: anything else. */
MUST_USE int sever_parse(const char *line, struct sever_row *row);
/* Is there, among n rows, one of another owner that is the other end of *row? */
bool sever_is_between(const struct sever_row *row, const struct sever_row *all, size_t n);

#endif
