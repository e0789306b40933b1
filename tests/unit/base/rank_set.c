/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/rank_set.h. */
#include "base/rank_set.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct parse_case {
    const char *spec;
    unsigned size;
    const char *want; /* NULL: refused, */
    const char *says; /* in words that hold this */
};

static const struct parse_case parse_cases[] = {
    { "0", 4, "0", NULL },
    { "1,3-5", 8, "1,3-5", NULL },
    { "-1", 4, "3", NULL },
    { "-4", 4, "0", NULL },
    { "1--1", 4, "1-3", NULL },
    { "all", 4, "0-3", NULL },
    { "all", 0, "", NULL },
    { " 0 , 2 ", 4, "0,2", NULL },
    { "3,1,2,1", 4, "1-3", NULL },
    { "63-65", 128, "63-65", NULL },
    { "4", 4, NULL, "there are 4 ranks, 0 to 3" },
    { "-5", 4, NULL, "rank -5" },
    { "-0", 4, NULL, "rank -0" },
    { "1", 0, NULL, "there are no ranks yet" },
    { "2-1", 4, NULL, "backwards" },
    { "1-9", 4, NULL, "rank 1-9" },
    { "", 4, NULL, "'' is not a rank" },
    { "9-9", 2, NULL, "rank 9-9: there are 2 ranks, 0 to 1" },
    { "0-9", 2, NULL, "rank 0-9: there are 2 ranks, 0 to 1" },
    { "1,,2", 4, NULL, "'' is not a rank" },
    { "1,x", 4, NULL, "'x'" },
    { "1-", 4, NULL, "'1-'" },
    { "1-2-3", 4, NULL, "'1-2-3'" },
    { "0x1", 4, NULL, "'0x1'" },
    { "99999999999999999999", 4, NULL, "there are 4 ranks" },
    { "4294967296", 4, NULL, "there are 4 ranks" },
    { "0", 65537, NULL, "65537" },
};

static void ranks_that_would_be_started_are_not_said_to_be_there(void)
{
    const struct {
        unsigned size;
        const char *says;
    } row[] = { { 1, "rank 9: this would run on rank 0 only; ask for more ranks" },
                { 2, "rank 9: this would run on 2 ranks, 0 to 1; ask for more ranks" } };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct ranks r = RANKS_INIT;
        struct err err = { "" };

        ok(ranks_parse_world(&r, "9", row[i].size, false, &err) < 0, "of %u", row[i].size);
        is_text(err.text, row[i].says, "it says so");
        ranks_release(&r);
    }
}

static void specs_are_read_as_users_write_them(void)
{
    for (size_t i = 0; i < sizeof parse_cases / sizeof parse_cases[0]; i++) {
        const struct parse_case *c = &parse_cases[i];
        struct ranks r = RANKS_INIT;
        struct buf out = BUF_INIT;
        struct err err = { "" };
        const int rc = ranks_parse(&r, c->spec, c->size, &err);

        if (c->want)
            ok(rc == 0 && ranks_format(&r, &out) == 0 && slice_is(buf_slice(&out), c->want),
               "'%s' of %u is '%s' (%s)", c->spec, c->size, c->want, err.text);
        else
            ok(rc < 0 && strstr(err.text, c->says) && ranks_count(&r) == 0,
               "'%s' of %u is refused: %s", c->spec, c->size, err.text);
        ranks_release(&r);
        buf_release(&out);
    }
}

static void a_bad_spec_leaves_the_set_alone(void)
{
    struct ranks r = RANKS_INIT;
    struct err err = { "" };

    ok(ranks_add(&r, 7) == 0 && ranks_parse(&r, "1,2,oops", 8, &err) < 0,
       "a spec with a bad token is refused");
    ok(ranks_count(&r) == 1 && ranks_has(&r, 7), "and adds nothing");
    ranks_release(&r);
}

static bool equal(const struct ranks *a, const struct ranks *b)
{
    struct buf text[2] = { BUF_INIT, BUF_INIT };
    const bool same = ranks_format(a, &text[0]) == 0 && ranks_format(b, &text[1]) == 0 &&
                      slice_equal(buf_slice(&text[0]), buf_slice(&text[1]));

    buf_release(&text[0]);
    buf_release(&text[1]);
    return same;
}

static void sets_behave_as_sets(void)
{
    struct ranks a = RANKS_INIT, b = RANKS_INIT;

    ok(ranks_next(&a, 0) == -1 && ranks_count(&a) == 0 && !ranks_has(&a, 5),
       "an empty set has no members");
    ok(ranks_add(&a, 3) == 0 && ranks_add(&a, 200) == 0 && ranks_add(&b, 3) == 0,
       "members are added");
    ok(!equal(&a, &b) && !equal(&b, &a), "sets with different members differ");
    ranks_remove(&a, 200);
    ranks_remove(&a, 60000);
    ok(equal(&a, &b), "sets are equal whatever they once held");
    ok(ranks_add(&a, RANKS_MAX) < 0 && ranks_add_range(&a, 0, RANKS_MAX) < 0 &&
           ranks_add_range(&a, 2, 1) < 0,
       "no rank may be RANKS_MAX, no range may run backwards");
    ok(ranks_add(&a, RANKS_MAX - 1) == 0 && ranks_next(&a, 4) == (long)RANKS_MAX - 1,
       "the largest rank is a member");
    is_int(ranks_next(&a, RANKS_MAX), -1, "nothing comes after it");
    ok(ranks_copy(&b, &a) == 0 && equal(&a, &b) && ranks_copy(&b, &b) == 0, "a copy is equal");
    ranks_clear(&a);
    ok(ranks_count(&a) == 0 && ranks_count(&b) == 2, "and its own");
    ok(ranks_copy(&b, &a) == 0 && ranks_count(&b) == 0, "copying an empty set empties");
    ok(ranks_add(&a, 200) == 0 && !ranks_overlap(&a, &b), "an empty set has none of another's");
    ok(ranks_add(&b, 3) == 0 && !ranks_overlap(&a, &b) && !ranks_overlap(&b, &a),
       "nor has one with others");
    ok(ranks_add_all(&b, &a) == 0 && ranks_has(&b, 3) && ranks_has(&b, 200) &&
           ranks_count(&b) == 2 && ranks_overlap(&a, &b) && ranks_overlap(&b, &a),
       "all of a set are added to another");
    ranks_release(&a);
    ranks_release(&b);
}

static void any_failed_allocation_is_survived(void)
{
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 20; nth++) {
        struct ranks r = RANKS_INIT;
        struct buf out = BUF_INIT;
        struct err err = { "" };
        int parsed;

        alloc_fail_at(nth);
        parsed = ranks_parse(&r, "1,70-80,-1", 1000, &err);
        rc = parsed < 0 ? -1 : ranks_format(&r, &out);
        alloc_fail_at(-1);
        ok(rc == 0 ? ranks_count(&r) == 13 : parsed == 0 || (ranks_count(&r) == 0 && err.text[0]),
           "allocation %ld: %s", nth, rc == 0 ? "all went well" : "failed");
        ok(rc == 0 || out.n == 0, "nothing half is written");
        ranks_release(&r);
        buf_release(&out);
    }
}

int main(void)
{
    specs_are_read_as_users_write_them();
    ranks_that_would_be_started_are_not_said_to_be_there();
    a_bad_spec_leaves_the_set_alone();
    sets_behave_as_sets();
    any_failed_allocation_is_survived();
    return plan_done();
}
