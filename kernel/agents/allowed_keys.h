/* SPDX-License-Identifier: BSD-3-Clause */
/* allowed_keys.h - which keys may connect: those that this kernel has made for the nodes of its
 * engines, each until its agent has said HELLO; then the one that its agent named last. A key is
 * void from the agent's HELLO or RESUME on (from_agents.c), when its node is lost (node_failures.c)
 * and when its engine has ended (allowed_keys_end()). Pure. */
#ifndef KERNEL_AGENTS_ALLOWED_KEYS_H
#define KERNEL_AGENTS_ALLOWED_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/keys.h"

enum key_verdict {
    KEY_ALLOWED,
    /* unknown, but an engine has not said yet how many nodes it has: ask again later */
    KEY_UNKNOWN_YET,
    KEY_MISSING, /* the connection has no CURVE key */
    KEY_UNKNOWN, /* no node has it */
    KEY_VOID,    /* its agent has said HELLO or RESUME, its node is lost, or its engine has ended */
    KEY_VERDICTS
};

struct allowed_key {
    unsigned char public[KEY_SIZE];
    unsigned engine, node; /* engine 0: the place is empty */
    uint8_t is_void;       /* it may not connect any more */
    uint8_t passing;       /* an agent made it itself; it is forgotten when it is void */
};

struct allowed_keys {
    struct allowed_key *key; /* a hash table with open addressing; places is a power of two, or 0 */
    size_t places, n;
    unsigned pending; /* engines that have not said how many nodes they have */
};

#define ALLOWED_KEYS_INIT { NULL, 0, 0, 0 }

void allowed_keys_release(struct allowed_keys *a);
/* Makes room for n more keys. -1: memory is out. */
MUST_USE int allowed_keys_reserve(struct allowed_keys *a, size_t n);
/* Adds a key, for which there must be room. engine is not 0. */
void allowed_keys_add(struct allowed_keys *a, const unsigned char public[KEY_SIZE], unsigned engine,
                      unsigned node);
/* No agent of that engine may connect any more. */
void allowed_keys_end(struct allowed_keys *a, unsigned engine);
/* public: KEY_SIZE bytes; NULL: the connection has shown no CURVE key. KEY_ALLOWED: *node is the
 * node whose key it is. */
enum key_verdict allowed_keys_ask(const struct allowed_keys *a, const unsigned char *public,
                                  unsigned *node);
/* Puts the key `next` in place of `old`, of the same agent: from now on it alone may connect. `old`
 * all zeros: there is none. -1: memory is out, or `next` is not new; nothing has changed. */
MUST_USE int allowed_keys_replace(struct allowed_keys *a, const unsigned char old[KEY_SIZE],
                                  const unsigned char next[KEY_SIZE], unsigned engine,
                                  unsigned node);
/* The key may not connect again. */
void allowed_keys_void(struct allowed_keys *a, const unsigned char public[KEY_SIZE]);
const char *key_verdict_words(enum key_verdict v);

#endif
