/* SPDX-License-Identifier: BSD-3-Clause */
/* seen_signatures.c - hash sets of signatures. A signature is the output of an HMAC, so its own
 * bytes serve as the hash. Only verified signatures get here: nobody without the key can cause
 * collisions. */
#include "protocol/jupyter.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u

void seen_signatures_init(struct seen_signatures *h, size_t limit)
{
    memset(h, 0, sizeof *h);
    h->limit = limit;
}

void seen_signatures_release(struct seen_signatures *h)
{
    free(h->young.slot);
    free(h->old.slot);
    memset(h, 0, sizeof *h);
}

/* The slot that holds the key, or else the free slot where it belongs. A set is never full. */
static unsigned char *set_find(const struct signature_set *s, const unsigned char *key)
{
    static const unsigned char nothing[SIGNATURE_KEY];
    uint64_t at;

    memcpy(&at, key, sizeof at);
    for (;; at++) {
        unsigned char *slot = s->slot[at & (s->slots - 1)];

        if (memcmp(slot, key, SIGNATURE_KEY) == 0 || memcmp(slot, nothing, SIGNATURE_KEY) == 0)
            return slot;
    }
}

static int set_has(const struct signature_set *s, const unsigned char *key)
{
    return s->slots && memcmp(set_find(s, key), key, SIGNATURE_KEY) == 0;
}

static int set_grow(struct signature_set *s)
{
    struct signature_set more = { NULL, s->slots ? s->slots * 2 : FIRST_SLOTS, s->used };
    static const unsigned char nothing[SIGNATURE_KEY];

    if (!(more.slot = calloc(more.slots, SIGNATURE_KEY)))
        return -1;
    for (size_t i = 0; i < s->slots; i++)
        if (memcmp(s->slot[i], nothing, SIGNATURE_KEY) != 0)
            memcpy(set_find(&more, s->slot[i]), s->slot[i], SIGNATURE_KEY);
    free(s->slot);
    *s = more;
    return 0;
}

static int set_add(struct signature_set *s, const unsigned char *key)
{
    if (2 * (s->used + 1) > s->slots && set_grow(s) < 0)
        return -1;
    memcpy(set_find(s, key), key, SIGNATURE_KEY);
    s->used++;
    return 0;
}

int seen_signatures_add(struct seen_signatures *h, struct slice signature)
{
    unsigned char key[SIGNATURE_KEY];
    size_t n = 0;

    if (signature.n < sizeof key * 2 ||
        sodium_hex2bin(key, sizeof key, signature.p, sizeof key * 2, NULL, &n, NULL) < 0 ||
        n != sizeof key)
        return 1; /* not a signature at all: refuse it as well */
    if (set_has(&h->young, key) || set_has(&h->old, key))
        return 1;
    if (h->young.used >= h->limit / 2) {
        free(h->old.slot);
        h->old = h->young;
        memset(&h->young, 0, sizeof h->young);
    }
    return set_add(&h->young, key);
}
