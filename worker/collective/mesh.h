/* SPDX-License-Identifier: BSD-3-Clause */
/* mesh.h - plain tcp connections between the ranks of a check. Each rank listens at the address
 * that the kernel chose for its node. The connections carry test patterns and communicator ids,
 * never users' data, and exist as long as the check.
 *
 * A rank that connects sends a hello (not encrypted): the check's token, the number of the attempt,
 * its own number and that of the rank that it wants. A connection without the right token is closed
 * and counted. So is one that sends nothing while many others wait. The answer is one byte: it
 * proves that the rank itself, not only the system or a firewall, has accepted the connection. */
#ifndef WORKER_COLLECTIVE_MESH_H
#define WORKER_COLLECTIVE_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/collective/deadline.h"

#define MESH_TOKEN     16u /* bytes */
#define MESH_PEERS_MAX 65536u
#define MESH_WHERE     72u /* bytes of "[address]:port" with its NUL */

struct mesh;

struct mesh_peer {
    unsigned rank;
    char where[MESH_WHERE]; /* "10.0.0.3:4242", "[fe80::1]:4242" */
    char error[256];  /* filled by mesh_connect: why it can't be reached from here; "" if it can */
    char silent[256]; /* the same: why nothing came from it; "" if something did */
};

/* Listens at `address` (numeric), at a port that the system chooses. NULL: *err says why. */
struct mesh *mesh_open(const char *address, const uint8_t token[MESH_TOKEN], struct err *err);
void mesh_close(struct mesh *m); /* NULL is fine */
unsigned mesh_port(const struct mesh *m);
/* Closes connections that still wait at the port; no more peers are accepted. Returns how many
 * connections in total did not come from a rank of this check. */
unsigned mesh_strangers(struct mesh *m);

/* Connects to each of the peers and accepts a connection from each, so that both directions are
 * tested. Closes earlier connections to them. Ends when all peers are decided or the limit is over.
 * Returns 0 even if some peers can't be reached (see their `error` and `silent`). -1: out of
 * memory, or interrupted. */
MUST_USE int mesh_connect(struct mesh *m, unsigned self, unsigned attempt, struct mesh_peer *peers,
                          size_t n, const struct deadline *l, struct err *err);

/* The connection to a rank, borrowed; -1: there is none. Of the two connections it is the one that
 * the higher rank opened, unless that one failed. closed: the directions [from, to] that failed;
 * all ranks must pass the same list, so that both ends use the same connection. */
struct mesh_way {
    unsigned from, to;
};
int mesh_to(const struct mesh *m, unsigned self, unsigned rank, const struct mesh_way *closed,
            size_t n);
/* Closes both connections to a rank, so that its waiting calls fail at once. */
void mesh_drop(struct mesh *m, unsigned rank);

#endif
