/* mesh.h - plain tcp connections between the ranks of a check, each rank listening at the one
 * address that the kernel chose for its node. They carry test patterns and communicator ids, never
 * a user's data, and live as long as the check.
 *
 * Who connects says hello (in clear): the check's token, which attempt this is, who it is and whom
 * it wants; who does not know the token is turned away and counted, and so is who says nothing
 * while many wait to be heard. The answer is one byte, so that a connection that only the system
 * (or a firewall) accepted does not pass for one. */
#ifndef WORKER_COLLECTIVE_MESH_H
#define WORKER_COLLECTIVE_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/collective/limit.h"

#define MESH_TOKEN     16u /* bytes */
#define MESH_PEERS_MAX 65536u
#define MESH_WHERE     72u /* bytes of "[address]:port" with its NUL */

struct mesh;

struct mesh_peer {
    unsigned rank;
    char where[MESH_WHERE]; /* "10.0.0.3:4242", "[fe80::1]:4242" */
    /* filled by mesh_connect: why it can't be reached from here; "" where it can */
    char error[256];
    char silent[256]; /* and why nothing came from it; "" where it did */
};

/* Listens at `address` (numeric), at a port that the system chooses. NULL: *err says why. */
struct mesh *mesh_open(const char *address, const uint8_t token[MESH_TOKEN], struct err *err);
void mesh_close(struct mesh *m); /* NULL is fine */
unsigned mesh_port(const struct mesh *m);
/* Turns away who still waits at the port: nobody is met any more. How many connections it were in
 * all, of which none said that it is a rank of this check. */
unsigned mesh_strangers(struct mesh *m);

/* Connects to each of the peers, and takes a connection from each of them: both ways are tried.
 * What was there to them before is closed. Ends when all is settled or the limit is over; 0 also
 * when some can't be reached (their `error` and `silent` say why). -1: out of memory,
 * interrupted. */
MUST_USE int mesh_connect(struct mesh *m, unsigned self, unsigned attempt, struct mesh_peer *peers,
                          size_t n, const struct limit *l, struct err *err);

/* The connection to a rank, borrowed; -1: there is none. Of the two ways, the one that the higher
 * rank opened, unless that one is not there (`closed`: the ways [from, to] that didn't work, which
 * all ranks must give alike). */
struct mesh_way {
    unsigned from, to;
};
int mesh_to(const struct mesh *m, unsigned self, unsigned rank, const struct mesh_way *closed,
            size_t n);
/* Closes both connections to a rank: what it waits for from here fails at once. */
void mesh_drop(struct mesh *m, unsigned rank);

#endif
