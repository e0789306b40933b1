/* Which keys may connect. */
#include <stdlib.h>

#include "base/random.h"
#include "kernel/agents/admit.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static struct secret secret_of(unsigned run)
{
    struct secret s = { { 0 }, { 0 } };

    s.seed[0] = (unsigned char)run;
    return s;
}

static struct keys keys_of(unsigned run, unsigned index)
{
    const struct secret s = secret_of(run);
    struct keys k;

    keys_derive(&k, &s, index);
    return k;
}

static int add(struct admit *a, unsigned run, unsigned n)
{
    if (admit_reserve(a, n) < 0)
        return -1;
    for (unsigned i = 0; i < n; i++)
        admit_add(a, keys_of(run, i).public, run, i);
    return 0;
}

static enum admit_verdict ask(const struct admit *a, const struct keys *k, unsigned *run,
                              unsigned *index)
{
    return admit_ask(a, k->public, run, index);
}

static enum admit_verdict verdict(const struct admit *a, unsigned run, unsigned index)
{
    const struct keys k = keys_of(run, index);
    unsigned r = 0, i = 0;
    const enum admit_verdict v = ask(a, &k, &r, &i);

    if (v == ADMIT_YES && (r != run || i != index))
        return ADMIT_N;
    return v;
}

static void only_those_asked_for(void)
{
    struct admit a = ADMIT_INIT;
    unsigned run, index;

    is_int(verdict(&a, 1, 0), ADMIT_STRANGER, "nobody before a run");
    ok(add(&a, 1, 40) == 0 && add(&a, 2, 200) == 0, "two runs");
    is_int(verdict(&a, 1, 0), ADMIT_YES, "the first agent of the first run");
    is_int(verdict(&a, 1, 39), ADMIT_YES, "and its last");
    is_int(verdict(&a, 2, 199), ADMIT_YES, "the last of the second");
    is_int(verdict(&a, 1, 40), ADMIT_STRANGER, "nobody beyond");
    is_int(verdict(&a, 3, 0), ADMIT_STRANGER, "nobody of a run that was not asked for");
    is_int(admit_ask(&a, NULL, &run, &index), ADMIT_MECHANISM, "not without a key");
    admit_release(&a);
}

static void once_each(void)
{
    struct admit a = ADMIT_INIT;
    unsigned wrong = 0;

    ok(add(&a, 1, 10) == 0, "a run");
    is_int(verdict(&a, 1, 3), ADMIT_YES, "admitted before HELLO");
    is_int(verdict(&a, 1, 3), ADMIT_YES, "and again: its first connection may have failed");
    admit_use(&a, keys_of(1, 3).public);
    is_int(verdict(&a, 1, 3), ADMIT_USED, "not after HELLO");
    admit_use(&a, keys_of(9, 9).public);
    for (unsigned i = 0; i < 10; i++)
        wrong += verdict(&a, 1, i) != (i == 3 ? ADMIT_USED : ADMIT_YES);
    is_int(wrong, 0, "the others are not touched by that");
    ok(add(&a, 2, 1000) == 0, "the table grows");
    is_int(verdict(&a, 1, 3), ADMIT_USED, "and nobody's key is fresh again");
    admit_release(&a);
}

static void runs_end(void)
{
    struct admit a = ADMIT_INIT;
    unsigned wrong = 0;

    ok(add(&a, 1, 100) == 0 && add(&a, 2, 100) == 0 && add(&a, 3, 100) == 0, "three runs");
    admit_end(&a, 2);
    for (unsigned i = 0; i < 100; i++)
        wrong += verdict(&a, 1, i) != ADMIT_YES || verdict(&a, 2, i) != ADMIT_STRANGER ||
                 verdict(&a, 3, i) != ADMIT_YES;
    is_int(wrong, 0, "one ends: its keys are strangers', the others' are not");
    admit_end(&a, 2);
    admit_end(&a, 1);
    alloc_fail_at(0);
    admit_end(&a, 3);
    alloc_fail_at(-1);
    is_int(verdict(&a, 3, 50), ADMIT_USED, "without memory the keys are at least used up");
    a.pending = 1;
    is_int(verdict(&a, 7, 0), ADMIT_LATER,
           "while a run has not said its size, strangers may be early");
    is_int(verdict(&a, 3, 50), ADMIT_USED, "used is used all the same");
    admit_release(&a);
}

static void words_name_every_verdict(void)
{
    for (unsigned v = 0; v < ADMIT_N; v++)
        ok(admit_words((enum admit_verdict)v) && *admit_words((enum admit_verdict)v),
           "verdict %u has words", v);
}

static void without_memory_nobody(void)
{
    struct admit a = ADMIT_INIT;

    alloc_fail_at(0);
    is_int(admit_reserve(&a, 5), -1, "no memory is said");
    alloc_fail_at(-1);
    is_int(verdict(&a, 1, 0), ADMIT_STRANGER, "and nobody is admitted");
    admit_release(&a);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        return 1;
    only_those_asked_for();
    once_each();
    runs_end();
    words_name_every_verdict();
    without_memory_nobody();
    return plan_done();
}
