/* SPDX-License-Identifier: BSD-3-Clause */
/* network.h - the network between agents and a kernel, and among agents, without sockets and with
 * the caller's clock. A connection is like one of TCP: frames arrive whole, once and in order, or
 * the connection ends. What was sent and had not arrived by then is lost, and nobody is told how
 * much that was. */
#ifndef TESTS_UNIT_NETWORK_NETWORK_H
#define TESTS_UNIT_NETWORK_NETWORK_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/slice.h"
#include "protocol/keys.h"

/* The order of random numbers is that of the seed, on every machine. */
struct dice {
    uint64_t state;
};

uint64_t dice_roll(struct dice *d, uint64_t below);          /* 0 to below - 1; below is not 0 */
bool dice_chance(struct dice *d, unsigned in_thousand);      /* true: so often in a thousand */
void dice_bytes(struct dice *d, unsigned char *p, size_t n); /* random bytes, such as a key's */

/* Who dialed, and who listens: the kernel, or an agent that is another one's parent. */
enum side { SIDE_AGENT, SIDE_KERNEL };

static inline enum side side_other(enum side s)
{
    return s == SIDE_AGENT ? SIDE_KERNEL : SIDE_AGENT;
}

enum frame_kind {
    FRAME_KNOCK,    /* the handshake reaches who listens */
    FRAME_TAKEN,    /* the system there has taken the connection; only made by the network */
    FRAME_ADMITTED, /* the answer: the handshake is done */
    FRAME_REFUSED,  /* or the key may not connect; the connection ends */
    FRAME_SPAN,     /* an envelope as in protocol/README.md */
    FRAME_END       /* the connection has ended; only made by the network */
};

struct frame {
    struct frame *next;
    enum frame_kind kind;
    uint64_t due_ns; /* it arrives not before */
    bool late;       /* the receiver had closed its side when this was sent */
    bool two;        /* ZeroMQ has two frames for it: a route, and a message; else it is a bundle */
    size_t head, n;  /* bytes of the first of two, and of both */
    char bytes[];
};

/* What lies between two ends. Tests set what they like, at any time. */
struct path {
    uint64_t delay_ns, jitter_ns; /* of one way */
    bool cut;                     /* nothing passes; what was sent waits, as TCP sends it again */
    uint64_t open_from_ns;        /* what waited passes from then on: set by path_heal() */
    uint64_t reads_from_ns[2];    /* a side reads nothing before; UINT64_MAX: it is stopped */
    uint64_t slow_ns[2];          /* a slow reader reads one frame in so long; 0: it is not slow */
};

struct wire {
    struct wire *next;
    unsigned number; /* each has another */
    unsigned agent;  /* who dialed */
    unsigned listener;
    uint32_t node; /* whose key it showed to the kernel */
    struct path *path;
    unsigned char key[KEY_SIZE];    /* with which the agent knocked */
    unsigned char server[KEY_SIZE]; /* of a parent, as the agent knows it */
    char user[16];                  /* who the parent says that the agent is; "": nobody yet */
    /* it is not taken yet: when TCP sends its first packet again, and how long it waits after that
     */
    bool connecting;
    uint64_t first_ns, first_wait_ns;
    bool closed[2]; /* that side has it closed, or was told that it has ended */
    bool live;      /* the kernel has taken HELLO or RESUME: for who owns that side */
    bool forgotten; /* something on the way has forgotten it, and tells nobody */
    struct flow {
        struct frame *first, **last;
        uint64_t due_ns; /* of the last one: they stay in order */
        bool ended;      /* the last one is FRAME_END, or was */
    } to[2];             /* by the receiving side */
};

struct network {
    struct wire *first;
    struct dice *dice; /* borrowed */
    unsigned numbers;
    uint64_t sent; /* frames */
};

struct frame *frame_create(enum frame_kind kind, struct slice head, struct slice body);

/* The agent dials: TCP's first packet is on the way, or is lost on a path that is cut, and is sent
 * again a second later, and then after twice as long each time. The knock follows. The wire lives
 * until both sides have closed it. */
struct wire *network_dial(struct network *net, unsigned agent, unsigned listener, struct path *path,
                          const unsigned char *key, uint64_t now);
/* NULL: it is over, and all that came on it is read. */
struct wire *network_wire(const struct network *net, unsigned number);
/* Takes f. `from` has not closed the wire. */
void network_send(struct network *net, struct wire *w, enum side from, struct frame *f,
                  uint64_t now);
/* One side closes it: what it has sent may be lost, and the other side is told, unless the path is
 * cut or the wire forgotten. The caller must not use w any more. */
void network_close(struct network *net, struct wire *w, enum side by, uint64_t now);
void network_reset(struct network *net, struct wire *w, uint64_t now); /* both sides are told */
void network_forget(struct wire *w); /* as a NAT does that has no room: nobody is told */
void path_heal(struct path *p, uint64_t now);

struct arrival {
    struct wire *wire;
    enum side to;
    struct frame *frame; /* the caller's; free() */
};

/* Takes one of those that have arrived by now, at random. false: there is none. */
bool network_take(struct network *net, uint64_t now, struct arrival *a);
uint64_t network_due_ns(const struct network *net); /* of the next arrival; UINT64_MAX: none */
void network_release(struct network *net);

#endif
