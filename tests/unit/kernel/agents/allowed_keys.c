/* SPDX-License-Identifier: BSD-3-Clause */
/* Which keys may connect. */
#include <stdlib.h>

#include "base/random.h"
#include "kernel/agents/allowed_keys.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static struct secret secret_of(unsigned run)
{
    struct secret s = { .own = false };

    s.seed[0] = (unsigned char)run;
    return s;
}

static struct keys keys_of(unsigned run, unsigned index)
{
    const struct secret s = secret_of(run);
    struct keys k;

    keys_derive(&k, &s, index, 0);
    return k;
}

static int add(struct allowed_keys *a, unsigned run, unsigned n)
{
    if (allowed_keys_reserve(a, n) < 0)
        return -1;
    for (unsigned i = 0; i < n; i++)
        allowed_keys_add(a, keys_of(run, i).public, run, 1000 * run + i);
    return 0;
}

static enum key_verdict verdict(const struct allowed_keys *a, unsigned run, unsigned index)
{
    const struct keys k = keys_of(run, index);
    unsigned node = 0;
    const enum key_verdict v = allowed_keys_ask(a, k.public, &node);

    if (v == KEY_ALLOWED && node != 1000 * run + index)
        return KEY_VERDICTS;
    return v;
}

static void only_those_asked_for(void)
{
    struct allowed_keys a = ALLOWED_KEYS_INIT;
    unsigned node;

    is_int(verdict(&a, 1, 0), KEY_UNKNOWN, "nobody before a run");
    ok(add(&a, 1, 40) == 0 && add(&a, 2, 200) == 0, "two runs");
    is_int(verdict(&a, 1, 0), KEY_ALLOWED, "the first agent of the first run");
    is_int(verdict(&a, 1, 39), KEY_ALLOWED, "and its last");
    is_int(verdict(&a, 2, 199), KEY_ALLOWED, "the last of the second");
    is_int(verdict(&a, 1, 40), KEY_UNKNOWN, "nobody beyond");
    is_int(verdict(&a, 3, 0), KEY_UNKNOWN, "nobody of a run that was not asked for");
    is_int(allowed_keys_ask(&a, NULL, &node), KEY_MISSING, "not without a key");
    allowed_keys_release(&a);
}

static void once_each(void)
{
    struct allowed_keys a = ALLOWED_KEYS_INIT;
    unsigned wrong = 0;

    ok(add(&a, 1, 10) == 0, "a run");
    is_int(verdict(&a, 1, 3), KEY_ALLOWED, "admitted before HELLO");
    is_int(verdict(&a, 1, 3), KEY_ALLOWED, "and again: its first connection may have failed");
    allowed_keys_void(&a, keys_of(1, 3).public);
    is_int(verdict(&a, 1, 3), KEY_VOID, "not after HELLO");
    allowed_keys_void(&a, keys_of(9, 9).public);
    for (unsigned i = 0; i < 10; i++)
        wrong += verdict(&a, 1, i) != (i == 3 ? KEY_VOID : KEY_ALLOWED);
    is_int(wrong, 0, "the others are not touched by that");
    ok(add(&a, 2, 1000) == 0, "the table grows");
    is_int(verdict(&a, 1, 3), KEY_VOID, "and nobody's key is fresh again");
    allowed_keys_release(&a);
}

static void runs_end(void)
{
    struct allowed_keys a = ALLOWED_KEYS_INIT;
    unsigned wrong = 0;

    ok(add(&a, 1, 100) == 0 && add(&a, 2, 100) == 0 && add(&a, 3, 100) == 0, "three runs");
    allowed_keys_end(&a, 2);
    for (unsigned i = 0; i < 100; i++)
        wrong += verdict(&a, 1, i) != KEY_ALLOWED || verdict(&a, 2, i) != KEY_UNKNOWN ||
                 verdict(&a, 3, i) != KEY_ALLOWED;
    is_int(wrong, 0, "one ends: its keys are strangers', the others' are not");
    allowed_keys_end(&a, 2);
    allowed_keys_end(&a, 1);
    alloc_fail_at(0);
    allowed_keys_end(&a, 3);
    alloc_fail_at(-1);
    is_int(verdict(&a, 3, 50), KEY_VOID, "without memory the keys are at least void");
    a.pending = 1;
    is_int(verdict(&a, 7, 0), KEY_UNKNOWN_YET,
           "while a run has not said its size, strangers may be early");
    is_int(verdict(&a, 3, 50), KEY_VOID, "void is void all the same");
    allowed_keys_release(&a);
}

/* The pair that the agent of `index` in run 1 names at its turn `turn`. */
static struct keys turn_of(unsigned index, unsigned turn)
{
    const struct secret s = secret_of(100 + index);
    struct keys k;

    keys_derive(&k, &s, turn, 1);
    return k;
}

static enum key_verdict ask(const struct allowed_keys *a, const struct keys *k, unsigned want)
{
    unsigned node = 0;
    const enum key_verdict v = allowed_keys_ask(a, k->public, &node);

    return v == KEY_ALLOWED && node != want ? KEY_VERDICTS : v;
}

static int replace(struct allowed_keys *a, const unsigned char *old, const struct keys *next)
{
    return allowed_keys_replace(a, old, next->public, 1, 1003);
}

static void one_key_takes_the_place_of_another(void)
{
    static const struct keys none;
    const struct keys first = keys_of(1, 3), other = keys_of(1, 4), next = turn_of(3, 0),
                      last = turn_of(3, 1);
    struct allowed_keys a = ALLOWED_KEYS_INIT;

    ok(add(&a, 1, 10) == 0 && replace(&a, first.public, &next) == 0, "an agent names its next key");
    is_int(ask(&a, &first, 1003), KEY_VOID, "its first one is void then");
    is_int(ask(&a, &next, 1003), KEY_ALLOWED, "the next is that of its node");
    is_int(verdict(&a, 1, 4), KEY_ALLOWED, "the others' are as before");
    is_int(replace(&a, next.public, &none), -1, "nobody can name zeros");
    is_int(replace(&a, next.public, &other), -1, "or the key of another");
    is_int(replace(&a, next.public, &next), -1, "or the same once more");
    is_int(replace(&a, next.public, &first), -1, "or one that is void");
    is_int(ask(&a, &next, 1003), KEY_ALLOWED, "which changes nothing");
    is_int(verdict(&a, 1, 4), KEY_ALLOWED, "not for the other one either");
    ok(replace(&a, none.public, &last) == 0, "an agent may have had no key");
    ok(replace(&a, next.public, &last) < 0, "a key belongs to one place");
    allowed_keys_end(&a, 1);
    is_int(ask(&a, &next, 1003), KEY_UNKNOWN, "with its engine it ends");
    allowed_keys_release(&a);
}

static void who_resumes_for_ever_needs_no_more_memory(void)
{
    struct allowed_keys a = ALLOWED_KEYS_INIT;
    struct keys held = keys_of(1, 3), next = held;
    unsigned wrong = 0;
    size_t places;

    ok(add(&a, 1, 10) == 0, "a run");
    places = a.places;
    for (unsigned k = 0; k < 3000; k++) {
        next = turn_of(3, k);
        wrong += replace(&a, held.public, &next) < 0 || ask(&a, &next, 1003) != KEY_ALLOWED ||
                 ask(&a, &held, 1003) == KEY_ALLOWED;
        held = next;
    }
    is_int(wrong, 0, "3000 keys, one after the other");
    is_int(a.places, places, "have the room of a few");
    is_int(verdict(&a, 1, 3), KEY_VOID, "the engine's key is not forgotten: it stays void");
    is_int(verdict(&a, 1, 4), KEY_ALLOWED, "nor are the others");
    for (unsigned k = 3000; a.n + 1 <= a.places / 2; k++) { /* until the table is full */
        next = turn_of(3, k);
        wrong += replace(&a, held.public, &next) < 0;
        held = next;
    }
    next = turn_of(3, 9999);
    alloc_fail_at(0);
    is_int(replace(&a, held.public, &next), -1, "without memory");
    alloc_fail_at(-1);
    is_int(ask(&a, &held, 1003), KEY_ALLOWED, "the agent has the key that it had");
    is_int(ask(&a, &next, 1003), KEY_UNKNOWN, "and not the next");
    allowed_keys_release(&a);
}

static void words_name_every_verdict(void)
{
    for (unsigned v = 0; v < KEY_VERDICTS; v++)
        ok(key_verdict_words((enum key_verdict)v) && *key_verdict_words((enum key_verdict)v),
           "verdict %u has words", v);
}

static void without_memory_nobody(void)
{
    struct allowed_keys a = ALLOWED_KEYS_INIT;

    alloc_fail_at(0);
    is_int(allowed_keys_reserve(&a, 5), -1, "no memory is said");
    alloc_fail_at(-1);
    is_int(verdict(&a, 1, 0), KEY_UNKNOWN, "and nobody is admitted");
    allowed_keys_release(&a);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        return 1;
    only_those_asked_for();
    once_each();
    runs_end();
    one_key_takes_the_place_of_another();
    who_resumes_for_ever_needs_no_more_memory();
    words_name_every_verdict();
    without_memory_nobody();
    return plan_done();
}
