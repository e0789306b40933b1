/* admit.c - see admit.h. Public keys are as good as random, so that their first bytes are their
 * hash. */
#include "kernel/agents/admit.h"

#include <stdlib.h>
#include <string.h>

void admit_release(struct admit *a)
{
    free(a->key);
    *a = (struct admit)ADMIT_INIT;
}

static size_t place_of(const unsigned char *public, size_t places)
{
    uint64_t h;

    memcpy(&h, public, sizeof h);
    return (size_t)h & (places - 1);
}

/* Where the key stands, or the empty place where it would; there is always one. */
static struct admit_key *seek(struct admit_key *key, size_t places, const unsigned char *public)
{
    size_t at = place_of(public, places);

    while (key[at].run && memcmp(key[at].public, public, KEY_SIZE) != 0)
        at = (at + 1) & (places - 1);
    return &key[at];
}

/* Makes the table anew with room for n more, without the keys of `without`. */
static int rebuild(struct admit *a, size_t n, unsigned without)
{
    struct admit_key *key;
    size_t places = 64;

    while (places < 2 * (a->n + n))
        places *= 2;
    if (!(key = calloc(places, sizeof *key)))
        return -1;
    a->n = 0;
    for (size_t i = 0; i < a->places; i++)
        if (a->key[i].run && a->key[i].run != without) {
            *seek(key, places, a->key[i].public) = a->key[i];
            a->n++;
        }
    free(a->key);
    a->key = key;
    a->places = places;
    return 0;
}

int admit_reserve(struct admit *a, size_t n)
{
    return 2 * (a->n + n) <= a->places ? 0 : rebuild(a, n, 0);
}

void admit_add(struct admit *a, const unsigned char public[KEY_SIZE], unsigned run, unsigned index)
{
    struct admit_key *k = seek(a->key, a->places, public);

    a->n += k->run == 0;
    *k = (struct admit_key){ .run = run, .index = index };
    memcpy(k->public, public, KEY_SIZE);
}

/* Without memory for a smaller table the keys stay, and are used up. */
void admit_end(struct admit *a, unsigned run)
{
    if (!a->places || rebuild(a, 0, run) == 0)
        return;
    for (size_t i = 0; i < a->places; i++)
        if (a->key[i].run == run)
            a->key[i].used = 1;
}

enum admit_verdict admit_ask(const struct admit *a, const unsigned char *public, unsigned *run,
                             unsigned *index)
{
    const struct admit_key *k;

    if (!public)
        return ADMIT_MECHANISM;
    k = a->places ? seek(a->key, a->places, public) : NULL;
    if (!k || !k->run)
        return a->pending ? ADMIT_LATER : ADMIT_STRANGER;
    if (k->used)
        return ADMIT_USED;
    *run = k->run;
    *index = k->index;
    return ADMIT_YES;
}

void admit_use(struct admit *a, const unsigned char public[KEY_SIZE])
{
    struct admit_key *k = a->places ? seek(a->key, a->places, public) : NULL;

    if (k && k->run)
        k->used = 1;
}

const char *admit_words(enum admit_verdict v)
{
    static const char *const words[ADMIT_N] = {
        [ADMIT_YES] = "is admitted",
        [ADMIT_LATER] = "has a key that no run has yet",
        [ADMIT_MECHANISM] = "has no key",
        [ADMIT_STRANGER] = "has a key that this kernel gave nobody",
        [ADMIT_USED] = "has the key of an agent that is here, or was",
    };

    return words[v];
}
