/* haul.h - the blobs that move: into this node, out of it, or both at once, and who gets them from
 * here. Pure but for the descriptors that it closes. What is whole and has no taker left is no haul
 * any more. */
#ifndef WORKER_AGENT_HAUL_H
#define WORKER_AGENT_HAUL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/pace.h"

/* Somebody who gets it from here. */
struct taker {
    struct taker *next;
    uint32_t to;   /* its number in CHUNK and TAKEN */
    uint32_t link; /* by which it gets it: a peer's node, or the kernel */
    struct pace pace;
    uint64_t since_ns; /* since when it owes an answer */
};

struct haul {
    struct haul *next;
    uint64_t blob, size;
    uint64_t had;      /* bytes that are here, from the start */
    uint64_t since_ns; /* since when the rest is expected */
    int fd;            /* owned */
    bool lent;         /* the kernel reads it, and gives it, by itself */
    struct taker *taker;
};

struct hauls {
    struct haul *first;
};

#define HAULS_INIT { NULL }

void hauls_release(struct hauls *list);
struct haul *haul_find(const struct hauls *list, uint64_t blob); /* NULL: it does not move */
/* Takes fd, also when it fails. NULL: memory is out. */
struct haul *haul_add(struct hauls *list, uint64_t blob, uint64_t size, uint64_t had, int fd);
void haul_remove(struct hauls *list, struct haul *h);
bool haul_is_whole(const struct haul *h);

/* NULL: none; h may be NULL */
struct taker *taker_find(const struct haul *h, uint32_t to);
/* NULL: memory is out */
MUST_USE struct taker *taker_add(struct haul *h, uint32_t to, uint32_t link);
/* With the last taker of a whole blob the haul goes, too. */
void taker_remove(struct hauls *list, struct haul *h, struct taker *t);

#endif
