/* SPDX-License-Identifier: BSD-3-Clause */
/* Public keys look random, so their first bytes serve as hash. */
#include "kernel/agents/allowed_keys.h"

#include <stdlib.h>
#include <string.h>

void allowed_keys_release(struct allowed_keys *a)
{
    free(a->key);
    *a = (struct allowed_keys)ALLOWED_KEYS_INIT;
}

static size_t place_of(const unsigned char *public, size_t places)
{
    uint64_t h;

    memcpy(&h, public, sizeof h);
    return (size_t)h & (places - 1);
}

/* The place of the key, or the empty place where it belongs; there is always one. */
static struct allowed_key *seek(struct allowed_key *key, size_t places, const unsigned char *public)
{
    size_t at = place_of(public, places);

    while (key[at].engine && memcmp(key[at].public, public, KEY_SIZE) != 0)
        at = (at + 1) & (places - 1);
    return &key[at];
}

/* Does it stay when the table is built again? */
static bool stays(const struct allowed_key *k, unsigned without)
{
    return k->engine && k->engine != without && !(k->is_void && k->passing);
}

/* Builds the table again, with room for n more keys and without the keys of one engine. Only keys
 * that stay count, else each new key of an agent that resumes over and over would need memory. */
static int rebuild(struct allowed_keys *a, size_t n, unsigned without)
{
    struct allowed_key *key;
    size_t places = 64, left = 0;

    for (size_t i = 0; i < a->places; i++)
        left += stays(&a->key[i], without);
    while (places < 2 * (left + n))
        places *= 2;
    if (!(key = calloc(places, sizeof *key)))
        return -1;
    a->n = left;
    for (size_t i = 0; i < a->places; i++)
        if (stays(&a->key[i], without))
            *seek(key, places, a->key[i].public) = a->key[i];
    free(a->key);
    a->key = key;
    a->places = places;
    return 0;
}

int allowed_keys_reserve(struct allowed_keys *a, size_t n)
{
    return 2 * (a->n + n) <= a->places ? 0 : rebuild(a, n, 0);
}

void allowed_keys_add(struct allowed_keys *a, const unsigned char public[KEY_SIZE], unsigned engine,
                      unsigned node)
{
    struct allowed_key *k = seek(a->key, a->places, public);

    a->n += k->engine == 0;
    *k = (struct allowed_key){ .engine = engine, .node = node };
    memcpy(k->public, public, KEY_SIZE);
}

/* If memory is out, the keys stay in the table, void. */
void allowed_keys_end(struct allowed_keys *a, unsigned engine)
{
    if (!a->places || rebuild(a, 0, engine) == 0)
        return;
    for (size_t i = 0; i < a->places; i++)
        if (a->key[i].engine == engine)
            a->key[i].is_void = 1;
}

enum key_verdict allowed_keys_ask(const struct allowed_keys *a, const unsigned char *public,
                                  unsigned *node)
{
    const struct allowed_key *k;

    if (!public)
        return KEY_MISSING;
    k = a->places ? seek(a->key, a->places, public) : NULL;
    if (!k || !k->engine)
        return a->pending ? KEY_UNKNOWN_YET : KEY_UNKNOWN;
    if (k->is_void)
        return KEY_VOID;
    *node = k->node;
    return KEY_ALLOWED;
}

int allowed_keys_replace(struct allowed_keys *a, const unsigned char old[KEY_SIZE],
                         const unsigned char next[KEY_SIZE], unsigned engine, unsigned node)
{
    static const unsigned char none[KEY_SIZE];
    struct allowed_key *k;

    if (memcmp(next, none, KEY_SIZE) == 0 || allowed_keys_reserve(a, 1) < 0)
        return -1;
    k = seek(a->key, a->places, next);
    if (k->engine)
        return -1;
    allowed_keys_add(a, next, engine, node);
    k->passing = 1;
    allowed_keys_void(a, old);
    return 0;
}

void allowed_keys_void(struct allowed_keys *a, const unsigned char public[KEY_SIZE])
{
    struct allowed_key *k = a->places ? seek(a->key, a->places, public) : NULL;

    if (k && k->engine)
        k->is_void = 1;
}

const char *key_verdict_words(enum key_verdict v)
{
    static const char *const words[KEY_VERDICTS] = {
        [KEY_ALLOWED] = "is admitted",
        [KEY_UNKNOWN_YET] = "has a key that no run has yet",
        [KEY_MISSING] = "has no key",
        [KEY_UNKNOWN] = "has a key that this kernel gave nobody",
        [KEY_VOID] = "has the key of an agent that is here, or was",
    };

    return words[v];
}
