/* allowed_keys.h - which keys may connect: those that this kernel made for the agents of runs that
 * it asked for, each until it has said HELLO. Pure: agents_zap.c asks. */
#ifndef KERNEL_AGENTS_ALLOWED_KEYS_H
#define KERNEL_AGENTS_ALLOWED_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/keys.h"

enum key_verdict {
    KEY_ALLOWED,
    /* not known, but a run has not said yet how many agents it has: the agent may try again */
    KEY_UNKNOWN_YET,
    KEY_MISSING, /* not with a CURVE key */
    KEY_UNKNOWN, /* with a key that is nobody's */
    KEY_USED,    /* with the key of an agent that has said HELLO */
    KEY_VERDICTS
};

struct allowed_key {
    unsigned char public[KEY_SIZE];
    unsigned run, node; /* run 0: an empty place */
    uint8_t used;
};

struct allowed_keys {
    struct allowed_key *key; /* a hash table with open addressing; places is a power of two, or 0 */
    size_t places, n;
    unsigned pending; /* runs that have not said how many agents they have */
};

#define ALLOWED_KEYS_INIT { NULL, 0, 0, 0 }

void allowed_keys_release(struct allowed_keys *a);
/* Room for so many more. -1: memory is out. */
MUST_USE int allowed_keys_reserve(struct allowed_keys *a, size_t n);
/* One that there is room for. run is not 0. */
void allowed_keys_add(struct allowed_keys *a, const unsigned char public[KEY_SIZE], unsigned run,
                      unsigned node);
/* Nobody is admitted for that run any more. */
void allowed_keys_end(struct allowed_keys *a, unsigned run);
/* public: KEY_SIZE bytes; NULL: the connection has shown no CURVE key. KEY_ALLOWED: *node is the
 * node whose key it is. */
enum key_verdict allowed_keys_ask(const struct allowed_keys *a, const unsigned char *public,
                                  unsigned *node);
/* It has said HELLO: its key admits nobody from now on. */
void allowed_keys_use(struct allowed_keys *a, const unsigned char public[KEY_SIZE]);
const char *key_verdict_words(enum key_verdict v);

#endif
