/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, and which variables are sent to which rank. */
#include "kernel/group/group.h"

#include <stdlib.h>

#include "kernel/group/vars_plan.h"
#include "tests/unit/tap.h"

static json_t *parse(const char *text)
{
    return json_loads(text, 0, NULL);
}

static struct group *living_group(unsigned n)
{
    struct err err = { "" };
    struct group *g = group_create("default", &err);

    if (!g || group_grow(g, n, &err) < 0)
        abort();
    for (unsigned k = 0; k < n; k++) {
        rank_start(g, k, 100 + k, 0);
        g->rank[k].state = RANK_IDLE;
    }
    return g;
}

static void growing(void)
{
    struct err err = { "" };
    struct group *g = living_group(2);
    struct ranks missing = RANKS_INIT;
    struct buf text = BUF_INIT;

    ok(group_grow(g, 4, &err) == 0 && g->size == 4, "a group grows to four ranks");
    ok(g->rank[1].worker == 101 && rank_alive(&g->rank[1]),
       "when a group grows, living ranks keep their processes");
    ok(group_missing(g, 4, &missing) == 0 && ranks_format(&missing, &text) == 0,
       "the ranks without a process can be listed");
    is_text(text.p, "2-3", "these are the two new ranks");
    ok(group_grow(g, GROUP_MAX + 1, &err) < 0 && g->size == 4,
       "growth over the limit fails and changes nothing");
    ok(strstr(err.text, "65537") != NULL, "the error of that growth names the number: %s",
       err.text);
    ok(group_worker(g, 101) == &g->rank[1] && !group_worker(g, 7) && !group_worker(g, 0),
       "a rank is found by its worker's number, and unknown numbers give none");
    ranks_release(&missing);
    buf_release(&text);
    group_destroy(g);
    group_destroy(NULL);
}

/* Ranks end and start again many times: all that live are found, and no other. */
static void finding(void)
{
    struct err err = { "" };
    struct group *g = living_group(300);
    uint32_t next = 1000, wrong = 0;

    for (unsigned round = 0; round < 50; round++) {
        for (unsigned k = round % 7; k < g->size; k += 1 + round % 5) {
            const uint32_t old = g->rank[k].worker;

            rank_end(&g->rank[k]);
            rank_start(g, k, next += 1 + k % 3, 0);
            wrong += old && group_worker(g, old);
        }
        for (unsigned k = 0; k < g->size; k++)
            wrong += group_worker(g, g->rank[k].worker) != &g->rank[k];
        if (round % 10 == 0 && group_grow(g, g->size + 100, &err) < 0)
            abort();
        for (unsigned k = 0; k < g->size; k++)
            if (!g->rank[k].worker)
                rank_start(g, k, ++next, 0);
    }
    is_int(wrong, 0, "each worker that lives is found, and none that has ended");
    group_destroy(g);
}

static void dying(void)
{
    struct group *g = living_group(2);

    json_object_set_new(g->rank[0].known, "x", json_integer(1));
    rank_end(&g->rank[0]);
    ok(g->rank[0].state == RANK_DEAD && json_object_size(g->rank[0].known) == 0,
       "of a rank that ended, no variables count as known");
    g->rank[1].state = RANK_STOPPING;
    rank_end(&g->rank[1]);
    ok(g->rank[1].state == RANK_NONE,
       "a rank that ended after it was told to is not dead, but has no process");
    group_destroy(g);
}

static void ledger(void)
{
    struct group *g = living_group(3);
    struct ranks all = RANKS_INIT;
    struct buf text = BUF_INIT;
    int rc = ranks_add_range(&all, 0, 2);

    for (unsigned cell = 4; rc == 0 && cell <= 7; cell += 3)
        rc = group_ran(g, &all, cell);
    ok(rc == 0 && group_ran(g, &all, 7) == 0 && json_array_size(g->cells) == 2,
       "a cell that runs twice is recorded once");
    is_int(rank_missed(g, &g->rank[1], 0, &text), 0, "a rank that ran all cells has missed none");
    rank_end(&g->rank[1]);
    rank_start(g, 1, 200, 0);
    ok(g->rank[1].is_new && g->rank[1].lives == 2,
       "a rank that was started again is new and in its second life");
    is_int(rank_missed(g, &g->rank[1], 0, &text), 2,
           "a rank that was started again has missed the earlier cells");
    is_text(text.p, "4, 7", "missed cells are given by their numbers");
    for (unsigned k = 0; k < g->size; k++)
        rank_end(&g->rank[k]);
    group_forget_cells(g);
    buf_clear(&text);
    rank_start(g, 1, 300, 0);
    ok(rank_missed(g, &g->rank[1], 0, &text) == 0,
       "after the cells are forgotten, a new rank has missed none");
    if (group_ran(g, &all, 9) < 0)
        abort();
    rank_start(g, 1, 301, 0);
    ok(rank_missed(g, &g->rank[1], 0, &text) == 1,
       "a rank that starts later has missed the cells since then");
    is_text(text.p, "9", "that cell is given by its number");
    if (group_ran(g, &all, 14) < 0 || group_ran(g, &all, 10) < 0 || group_ran(g, &all, 8) < 0)
        abort();
    buf_clear(&text);
    rank_start(g, 1, 302, 0);
    is_int(rank_missed(g, &g->rank[1], 0, &text), 4, "cells may run in another order than theirs");
    is_text(text.p, "8-10, 14", "they are given in their order");
    buf_release(&text);
    ranks_release(&all);
    group_destroy(g);
}

static void sending(void)
{
    struct err err = { "" };
    struct group *g = living_group(3);
    struct vars_bundles s = VARS_BUNDLES_INIT;
    struct ranks all = RANKS_INIT;
    json_t *captured = parse(
        "{\"names\": [[\"a\", 1, 8, \"\"], [\"b\", 5, 8, \"\"]], \"assigned\": [[\"c\", 9]]}");
    struct buf text = BUF_INIT;

    if (ranks_add_range(&all, 0, 2) < 0)
        abort();
    ok(vars_plan_bundles(g, &all, captured, &s, &err) == 0 && s.n == 1,
       "ranks that lack the same variables share one bundle");
    is_text(s.item[0].names, "a,b", "the bundle has all names");
    ok(ledger_bundle_sent(g, &s.item[0], captured) == 0, "the bundle is recorded as sent");
    vars_bundles_release(&s);
    ok(vars_plan_bundles(g, &all, captured, &s, &err) == 0 && s.n == 0,
       "variables that ranks have are not sent again");
    json_object_del(g->rank[1].known, "a");
    ok(vars_plan_bundles(g, &all, captured, &s, &err) == 0 && s.n == 1,
       "when one rank lacks a name, one bundle is planned");
    ok(ranks_format(&s.item[0].ranks, &text) == 0, "the ranks of that bundle can be formatted");
    is_text(text.p, "1", "the bundle is for rank 1 only");
    is_text(s.item[0].names, "a", "the bundle has only the name that rank 1 lacks");
    vars_bundles_release(&s);
    json_array_set_new(json_array_get(json_object_get(captured, "names"), 1), 1, json_integer(6));
    ok(vars_plan_bundles(g, &all, captured, &s, &err) == 0 && s.n == 2,
       "a new version is sent to all ranks, each with what else it lacks");
    vars_bundles_release(&s);
    ok(ledger_assigned(g, &all, captured) == 0 &&
           json_integer_value(json_object_get(g->rank[2].known, "c")) == 9,
       "a name that the cell assigns counts as known to the ranks");
    group_forget_versions(g);
    ok(json_object_size(g->rank[2].known) == 0,
       "after home is a new process, no versions count as known");
    json_decref(captured);
    ranks_release(&all);
    buf_release(&text);
    group_destroy(g);
}

/* What becomes of a name on rank 0, which has version 3 of it: "has", "goes", "asked", "clash". */
static const char *lot(struct group *g, const char *row, const char *said)
{
    char text[256];
    struct ranks one = RANKS_INIT;
    struct vars_bundles plan, ask;
    struct touched touched;
    struct err err = { "" };
    const char *found;
    json_t *captured;

    snprintf(text, sizeof text, "{\"names\": [%s]}", row);
    captured = parse(text);
    group_forget_said(g);
    if (said)
        json_object_set_new(g->rank[0].said, "a", json_string(said));
    if (ranks_add(&one, 0) < 0 || vars_plan_bundles(g, &one, captured, &plan, &err) < 0 ||
        vars_plan_questions(g, &one, captured, &ask, &err) < 0 ||
        vars_plan_touched(g, &one, captured, false, &touched, &err) < 0)
        abort();
    found = plan.n ? "goes" : ask.n ? "asked" : touched.names ? "clash" : "has";
    vars_bundles_release(&plan);
    vars_bundles_release(&ask);
    touched_release(&touched);
    ranks_release(&one);
    json_decref(captured);
    return found;
}

static void rules(void)
{
    static const struct {
        const char *row, *said, *want, *what;
    } cases[] = {
        { "[\"a\", 3, 8, \"\", 1, 0]", NULL, "has",
          "a name of which the rank has home's version is not sent" },
        { "[\"a\", 4, 8, \"\", 4, 0]", NULL, "goes",
          "a name that home has assigned is sent without a question" },
        { "[\"a\", 4, 8, \"\", 1, 0]", NULL, "asked",
          "after a change in place at home, the rank is asked first" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "same", "goes",
          "home's change replaces a value that the rank has not changed" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "gone", "goes",
          "home's change is sent to a rank that has deleted the name" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "changed", "clash",
          "a change in place on both sides is a conflict" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "no reason", "clash",
          "if the rank can't tell whether it has changed the value, that is a conflict" },
        { "[\"a\", 4, 8, \"\", 1, 0]", ANSWER_CLASS, "goes",
          "home's change goes to a rank that has changed only a class of the value" },
        { "[\"a\", 4, 8, \"\", 1, 0]", ANSWER_CLASS_ARRAYS, "goes",
          "so it does if the class has arrays that no other name shares" },
        { "[\"a\", 4, 8, \"\", 1, 3]", ANSWER_CLASS, "has",
          "a name that the cell assigns is not sent to a rank that has changed its class" },
        { "[\"a\", 4, 8, \"\", 0, 4]", ANSWER_CLASS, "has",
          "a value that home has pulled is not sent back to a rank that has changed its class" },
        { "[\"a\", 3, 8, \"\", 1, 1]", "changed", "goes",
          "--capture replaces a value that the rank has changed" },
        { "[\"a\", 3, 8, \"\", 1, 1]", "same", "has",
          "--capture sends nothing if the rank has the same value" },
        { "[\"a\", 3, 8, \"\", 1, 2]", NULL, "asked",
          "%push asks the rank first whether it has the value" },
        { "[\"a\", 3, 8, \"\", 1, 2]", "changed", "goes",
          "%push replaces a value that the rank has changed" },
        { "[\"a\", 4, 8, \"\", 1, 3]", "changed", "has",
          "a name that the cell assigns is not sent over the rank's own value" },
        { "[\"a\", 4, 8, \"\", 1, 6]", "changed", "has",
          "a name that the cell may assign is not sent over the rank's own value" },
        { "[\"a\", 4, 8, \"\", 4, 7]", NULL, "goes",
          "a name that the cell may mean replaces home's earlier value" },
        { "[\"a\", 4, 8, \"\", 1, 7]", "changed", "has",
          "a name that the cell may mean is not sent over the rank's own value" },
        { "[\"b\", 4, 8, \"\", 4, 7]", NULL, "has",
          "a name that the cell may mean is not sent to a rank that never had it" },
        { "[\"a\", 4, 8, \"\", 0, 4]", "changed", "has",
          "a value that home has pulled is not sent back" },
        { "[\"a\", 4, 8, \"\", 0, 4]", "gone", "goes",
          "a pulled value is sent to a rank that has none" },
        { "[\"a\", 4, 8, \"\", 0, 0]", "changed", "clash",
          "a pulled value that home has changed counts as changed in place" },
        { "[\"a\", 4, 8, \"\", 1, 5]", NULL, "has",
          "a name that is listed only because it shares memory is not sent alone" },
    };
    struct group *g = living_group(1);

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        json_object_set_new(g->rank[0].known, "a", json_integer(3));
        is_text(lot(g, cases[k].row, cases[k].said), cases[k].want, cases[k].what);
    }
    group_destroy(g);
}

static const char *said_of(struct rank *r)
{
    json_t *answer = json_pack("{s:s}", "a", "same");
    const char *said;

    json_object_clear(r->said);
    if (!answer || ledger_said(r, answer) < 0)
        abort();
    said = json_string_value(json_object_get(r->said, "a"));
    json_decref(answer);
    return said;
}

static void pulled_from_one_after_another(void)
{
    static char a[] = "a";
    char *const names[] = { a, NULL };
    struct group *g = living_group(3);
    struct vars_bundle sent = { .names = a, .ranks = RANKS_INIT };
    json_t *captured = parse("{\"names\": [[\"a\", 4, 8, \"\", 0, 0]]}");

    ok(ledger_pulled(g, 0, names) == 0, "home pulls a from rank 0");
    is_text(said_of(&g->rank[0]), "same", "rank 0's value is home's");
    ok(ledger_pulled(g, 1, names) == 0, "home pulls a from rank 1");
    is_text(said_of(&g->rank[0]), "changed",
            "home's value comes from rank 1, so rank 0's is its own");
    is_text(said_of(&g->rank[1]), "same", "rank 1's value is home's");
    is_text(said_of(&g->rank[2]), "same", "nothing was pulled from rank 2");
    ok(ledger_pulled(g, 0, names) == 0, "home pulls a from rank 0 again");
    is_text(said_of(&g->rank[0]), "same", "rank 0's value is home's again");
    is_text(said_of(&g->rank[1]), "changed", "rank 1's is its own");
    if (ranks_add(&sent.ranks, 1) < 0 || ledger_bundle_sent(g, &sent, captured) < 0)
        abort();
    is_text(said_of(&g->rank[1]), "same", "rank 1 was sent home's value");
    group_forget_versions(g);
    is_text(said_of(&g->rank[0]), "changed", "a new home has not pulled rank 0's value");
    json_decref(captured);
    ranks_release(&sent.ranks);
    group_destroy(g);
}

#define AS_SENT  "[\"a\", 3, 8, \"\", 1, 0]"
#define CHANGED  "[\"a\", 6, 8, \"\", 1, 0]"
#define PULLED   "[\"a\", 6, 8, \"\", 0, 4]"
#define ASSIGNED "[\"b\", 5, 8, \"\", 5, 0]"
#define OTHER    "[\"b\", 5, 8, \"\", 1, 0]"

/* What two ranks, of which both have version 3 of a, say of a cell that reads a and b, which share
 * memory. */
static void causes(void)
{
    static const struct {
        const char *a, *b; /* rows */
        json_int_t has_b;  /* the ranks' version of it; 0: they have none */
        const char *said;  /* of both */
        bool at_home;
        const char *names, *theirs, *anew, *lacked, *what;
    } cases[] = {
        { AS_SENT, ASSIGNED, 0, "changed", false, "a,b", "a", "b", "b",
          "conflict: b is new to the ranks and shares memory with a, which they have changed" },
        { AS_SENT, ASSIGNED, 4, "changed", false, "a,b", "a", "b", NULL,
          "conflict: home has assigned b, which shares memory with a, which ranks have changed" },
        { AS_SENT, OTHER, 4, "changed", true, "a,b", "a,b", NULL, NULL,
          "conflict: home has changed b in place, and ranks have changed a and b" },
        { CHANGED, ASSIGNED, 0, "no reason", true, "a,b", "a", "b", "b",
          "conflict: home has changed a in place, ranks can't tell, and b is new" },
        { PULLED, ASSIGNED, 0, "changed", false, "a,b", "a", "b", "b",
          "conflict: home has pulled a, ranks have changed it since, and b is new" },
        { AS_SENT, OTHER, 4, ANSWER_CLASS_ARRAYS, true, "a,b", "a,b", NULL, NULL,
          "conflict: ranks have changed a class whose arrays may be those of the other name" },
        { AS_SENT, OTHER, 4, ANSWER_CLASS, false, NULL, NULL, NULL, NULL,
          "no conflict: ranks have changed a class, which shares nothing" },
        { AS_SENT, ASSIGNED, 0, "same", false, NULL, NULL, NULL, NULL,
          "no conflict: ranks have changed nothing" },
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct group *g = living_group(2);
        struct ranks all = RANKS_INIT;
        struct touched t;
        struct err err = { "" };
        char text[256];
        json_t *captured;

        snprintf(text, sizeof text,
                 "{\"names\": [%s, %s, [\"c\", 1, 8, \"\", 1, 0]], \"tied\": [[\"a\", \"b\"]]}",
                 cases[k].a, cases[k].b);
        captured = parse(text);
        for (unsigned r = 0; r < 2; r++) {
            json_object_set_new(g->rank[r].known, "a", json_integer(3));
            if (cases[k].has_b)
                json_object_set_new(g->rank[r].known, "b", json_integer(cases[k].has_b));
            json_object_set_new(g->rank[r].said, "a", json_string(cases[k].said));
            json_object_set_new(g->rank[r].said, "b", json_string(cases[k].said));
        }
        if (ranks_add_range(&all, 0, 1) < 0 ||
            vars_plan_touched(g, &all, captured, false, &t, &err) < 0)
            abort();
        ok(t.at_home == cases[k].at_home && t.tied == (cases[k].names != NULL), "%s",
           cases[k].what);
        is_text(t.names, cases[k].names, "the names in conflict");
        is_text(t.theirs, cases[k].theirs, "the names that ranks have changed");
        is_text(t.anew, cases[k].anew, "the names that home has assigned or made");
        is_text(t.lacked, cases[k].lacked, "the names that ranks lack");
        is_int((long)ranks_count(&t.lack), cases[k].lacked ? 2 : 0,
               "the number of ranks that lack them");
        touched_release(&t);
        ranks_release(&all);
        json_decref(captured);
        group_destroy(g);
    }
}

/* What home has changed in place is told first, alone. */
static void two_causes(void)
{
    struct group *g = living_group(1);
    struct ranks one = RANKS_INIT;
    struct touched t;
    struct err err = { "" };
    json_t *captured = parse(
        "{\"names\": [[\"a\", 3, 8, \"\", 1, 0], [\"b\", 5, 8, \"\", 5, 0], [\"c\", 4, 8, \"\", 1, 0]], "
        "\"tied\": [[\"a\", \"b\"]]}");

    json_object_update_new(g->rank[0].known, parse("{\"a\": 3, \"c\": 3}"));
    json_object_update_new(g->rank[0].said, parse("{\"a\": \"changed\", \"c\": \"changed\"}"));
    if (ranks_add(&one, 0) < 0 || vars_plan_touched(g, &one, captured, false, &t, &err) < 0)
        abort();
    ok(t.at_home && !t.tied && !t.anew,
       "a name that home has changed in place is told alone, before other conflicts");
    is_text(t.names, "c", "that conflict names only the name that home has changed");
    touched_release(&t);
    ranks_release(&one);
    json_decref(captured);
    group_destroy(g);
}

static json_int_t known(const struct group *g, unsigned rank, const char *name)
{
    return json_integer_value(json_object_get(g->rank[rank].known, name));
}

static void what_a_cell_assigns(void)
{
    static const char text[] =
        "{\"names\": [[\"small\", 4, 8, \"\", 1, 3], [\"perhaps\", 4, 8, \"\", 1, 6]], "
        "\"assigned\": [[\"large\", 9], [\"new\", 5], [\"same\", 2]]}";
    struct group *g = living_group(2);
    struct ranks one = RANKS_INIT;
    json_t *captured = parse(text), *names;

    if (ranks_add(&one, 1) < 0)
        abort();
    json_object_update_new(g->rank[1].known,
                           parse("{\"small\": 1, \"perhaps\": 1, \"large\": 3, \"same\": 2}"));
    ok(ledger_assigned(g, &one, captured) == 0 && known(g, 1, "small") == 4 &&
           known(g, 1, "large") == 9 && known(g, 1, "new") == 5,
       "names that the cell assigns count as newer than home's versions");
    ok(known(g, 1, "perhaps") == 1, "a name that the cell only may assign keeps its version");
    ok((names = ledger_doubtful(g, &one)) != NULL && json_array_size(names) == 3,
       "three names are in doubt until the rank tells whether it has assigned them");
    json_decref(names);
    rank_answered(&g->rank[1], false, slice_text("new"), slice_text("large,new"));
    ok(known(g, 1, "large") == 9, "a name that the cell has assigned keeps the newer version");
    ok(known(g, 1, "small") == 1,
       "a name that the cell has not assigned gets its earlier version back");
    ok(!json_object_get(g->rank[1].known, "new"),
       "a name that is gone on the rank is not known any more");
    ok((names = ledger_doubtful(g, &one)) != NULL && json_array_size(names) == 0,
       "after the rank's answer no name is in doubt");
    json_decref(names);
    ok(ledger_assigned(g, &one, captured) == 0, "the next cell assigns the same names");
    rank_answered(&g->rank[1], false, slice_of("", 0), slice_of("", 0));
    ok(known(g, 1, "small") == 1 && !json_object_get(g->rank[1].known, "new"),
       "if that cell never ran, all earlier versions are back");
    json_decref(captured);
    ranks_release(&one);
    group_destroy(g);
}

/* Home's new value of x, y and z can't be sent. */
static void what_home_can_not_send(void)
{
    struct group *g = living_group(3);
    struct ranks all = RANKS_INIT;
    struct buf unknown = BUF_INIT, who = BUF_INIT;
    struct unsent_name u = UNSENT_NAME_INIT;
    struct vars_bundle s = { (char *)(uintptr_t)"x,y,z", RANKS_INIT };
    json_t *captured = parse("{\"names\": [[\"x\", 1], [\"y\", 2], [\"z\", 3]]}"), *gone, *bound;

    for (unsigned k = 0; k < 2; k++)
        if (ranks_add(&all, k) < 0 || ranks_add(&s.ranks, k) < 0)
            abort();
    if (ranks_add(&all, 2) < 0 || ledger_bundle_sent(g, &s, captured) < 0)
        abort();
    json_decref(captured);
    captured = parse("{\"names\": [], \"unsent\": [[\"x\", \"a lock\", true], "
                     "[\"y\", \"a file\", false], [\"never\", \"a file\", false]]}");
    ok(ledger_find_unsent(g, &all, captured, &u) == 0 && u.name && strcmp(u.name, "x") == 0 &&
           strcmp(u.why, "a lock") == 0,
       "a name of the text whose earlier value ranks have is found");
    ok(ranks_format(&u.ranks, &who) == 0 && strcmp(who.p, "0-1") == 0,
       "with the ranks that have it");
    ranks_release(&u.ranks);
    ok(ledger_bound(g, &g->rank[0], captured, slice_text("x"), &unknown) == 0 &&
           ledger_bound(g, &g->rank[1], captured, slice_text("x,y"), &unknown) == 0 &&
           ledger_find_unsent(g, &all, captured, &u) == 0 && !u.name,
       "what the ranks have bound themselves is no earlier value of home's");
    bound = parse("{\"names\": [[\"z\", 3, 1, \"\", 3, 3]], \"assigned\": [[\"w\", 1]]}");
    ok(ledger_ended_well(&g->rank[0], bound) == 0 && json_object_get(g->rank[0].own, "z") &&
           json_object_get(g->rank[0].own, "w"),
       "what a cell assigns that ended well is the rank's own, even if it is the same object");
    json_decref(bound);
    gone = ledger_delete_unsent(g, &all, captured);
    ok(gone && json_object_size(gone) == 1 && json_object_get(gone, "y"),
       "a name that only functions read goes where a rank has the earlier value");
    json_decref(gone);
    gone = ledger_delete_unsent(g, &all, captured);
    ok(gone && json_object_size(gone) == 1, "ranks are told of it again after a cell that failed");
    json_decref(gone);
    if (ledger_ended_well(&g->rank[0], captured) < 0)
        abort();
    gone = ledger_delete_unsent(g, &all, captured);
    ok(gone && json_object_size(gone) == 0, "and not after one that ended well");
    json_decref(gone);
    json_decref(captured);
    captured = parse("{\"names\": [[\"x\", 5]], \"unsent\": [[\"x\", \"a lock\", true]]}");
    ok(ledger_bundle_sent(g, &s, captured) == 0 && ledger_find_unsent(g, &all, captured, &u) == 0 &&
           u.name && ranks_count(&u.ranks) == 2,
       "what is sent again is home's again");
    ranks_release(&u.ranks);
    rank_answered(&g->rank[0], false, slice_text("x"), slice_text(""));
    ok(ledger_find_unsent(g, &all, captured, &u) == 0 && u.name && ranks_count(&u.ranks) == 1,
       "a rank on which it is gone has no earlier value");
    ranks_release(&u.ranks);
    json_decref(captured);
    ranks_release(&all);
    ranks_release(&s.ranks);
    buf_release(&unknown);
    buf_release(&who);
    group_destroy(g);
}

static void nonsense_from_home(void)
{
    static const char *const bad[] = { "{}",
                                       "[]",
                                       "{\"names\": {}}",
                                       "{\"names\": [1]}",
                                       "{\"names\": [[\"a\"]]}",
                                       "{\"names\": [[1, \"a\"]]}",
                                       "{\"names\": [], \"assigned\": [[]]}" };
    struct group *g = living_group(1);
    struct ranks all = RANKS_INIT;

    if (ranks_add(&all, 0) < 0)
        abort();
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct err err = { "" };
        struct vars_bundles s;
        json_t *captured = parse(bad[k]);

        ok(vars_plan_bundles(g, &all, captured, &s, &err) < 0 && s.n == 0 && err.text[0],
           "%s is refused", bad[k]);
        json_decref(captured);
    }
    ranks_release(&all);
    group_destroy(g);
}

int main(void)
{
    growing();
    finding();
    dying();
    ledger();
    sending();
    rules();
    pulled_from_one_after_another();
    causes();
    two_causes();
    what_a_cell_assigns();
    what_home_can_not_send();
    nonsense_from_home();
    return plan_done();
}
