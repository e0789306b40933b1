/* SPDX-License-Identifier: BSD-3-Clause */
/* lan.h - a kernel with several agents over tcp with CURVE, for tests: real agents on one machine.
 */
#ifndef TESTS_UNIT_AGENT_LAN_H
#define TESTS_UNIT_AGENT_LAN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "protocol/keys.h"
#include "protocol/span.h"

/* Where nobody listens, nor will: the system gives it to nobody who asks for any. */
#define CLOSED_PORT 1u
#define LAN_MAX     8u

struct member {
    pid_t pid;
    int in;          /* its stdin */
    char errors[80]; /* the file of its stderr */
    char id[64];     /* on the router, of the link that it dialed */
    size_t id_size;
    uint32_t by;       /* by way of which node its last message came; 0: none has */
    int fd;            /* of the link that it dialed */
    uint64_t received; /* its messages that have a number */
};

struct lan {
    void *context, *router;
    unsigned port;
    char dir[64];
    struct keys keys;
    struct secret secret;
    struct member member[LAN_MAX]; /* by node; 0 is nobody */
    uint64_t timeout_ms;           /* for WELCOME */
    bool mute;                     /* HELLO and RESUME get no answer */
    int fd;                        /* by which the bundle came */
    struct buf bundle, msg;
    size_t taken;
    uint32_t via;         /* whose link the bundle came by */
    uint32_t node;        /* of the last message */
    struct span last;     /* borrows from msg */
    struct buf addresses; /* of the last HELLO */
};

/* NO_STDIN: as under an MPI, all in the environment. SIGTERM: the same, and it is a notice. SLURM:
 * in a job that srun has made for it. */
enum lan_how { LAN_ENVIRONMENT, LAN_STDIN, LAN_NO_STDIN, LAN_SIGTERM, LAN_SLURM };

void lan_open(struct lan *l);
/* Starts node's agent with `secret` as it stands there, NULL: with none yet; endpoints NULL: ours.
 */
void lan_start(struct lan *l, uint32_t node, enum lan_how how, const char *endpoints,
               const char *secret);
/* And waits until it is welcome. */
void lan_join(struct lan *l, uint32_t node, enum lan_how how);
/* its exit status; -1: a signal, or nothing within a minute */
int lan_wait(struct lan *l, uint32_t node);
void lan_reset(struct lan *l, uint32_t node); /* ends the link that it dialed */
void lan_leave(struct lan *l);                /* nobody can connect any more */
int lan_end(struct lan *l, uint32_t node);    /* by the end of its stdin */
bool lan_wrote(const struct lan *l, uint32_t node, const char *text); /* to stderr */
void lan_close(struct lan *l);

/* m to the agents of these nodes (n_workers 0), or to one worker of each, by way of the member
 * `via`. */
void lan_send(struct lan *l, uint32_t via, const uint32_t *nodes, const uint32_t *workers, size_t n,
              const struct span *m);
void lan_tell(struct lan *l, uint32_t via, uint32_t node, const struct span *m); /* to one agent */
/* A rank on node 1, with this program as its Python. */
void lan_start_rank(struct lan *l, const char *python, uint32_t worker);
/* Takes messages until one of this kind from this node (0: any) is there; false after a minute. */
bool lan_until(struct lan *l, enum span_kind kind, uint32_t node);
/* The same within ms: for what should not come. */
bool lan_comes(struct lan *l, enum span_kind kind, uint32_t node, int ms);

#endif
