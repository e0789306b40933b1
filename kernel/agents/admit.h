/* admit.h - which keys may connect: those that this kernel made for the agents of runs that it
 * asked for, each until it has said HELLO. Pure: gate.c asks. */
#ifndef KERNEL_AGENTS_ADMIT_H
#define KERNEL_AGENTS_ADMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/keys.h"

enum admit_verdict {
    ADMIT_YES,
    /* not known, but a run has not said yet how many agents it has: the agent may try again */
    ADMIT_LATER,
    ADMIT_MECHANISM, /* not with a CURVE key */
    ADMIT_STRANGER,  /* with a key that is nobody's */
    ADMIT_USED,      /* with the key of an agent that has said HELLO */
    ADMIT_N
};

struct admit_key {
    unsigned char public[KEY_SIZE];
    unsigned run, index; /* run 0: an empty place */
    uint8_t used;
};

struct admit {
    struct admit_key *key; /* a hash table with open addressing; places is a power of two, or 0 */
    size_t places, n;
    unsigned pending; /* runs that have not said how many agents they have */
};

#define ADMIT_INIT { NULL, 0, 0, 0 }

void admit_release(struct admit *a);
/* Room for so many more. -1: memory is out. */
MUST_USE int admit_reserve(struct admit *a, size_t n);
/* One that there is room for. run is not 0. */
void admit_add(struct admit *a, const unsigned char public[KEY_SIZE], unsigned run, unsigned index);
/* Nobody is admitted for that run any more. */
void admit_end(struct admit *a, unsigned run);
/* public: KEY_SIZE bytes; NULL when it has shown no CURVE key. ADMIT_YES: who it is goes to run and
 * index. */
enum admit_verdict admit_ask(const struct admit *a, const unsigned char *public, unsigned *run,
                             unsigned *index);
/* It has said HELLO: its key admits nobody from now on. */
void admit_use(struct admit *a, const unsigned char public[KEY_SIZE]);
const char *admit_words(enum admit_verdict v);

#endif
