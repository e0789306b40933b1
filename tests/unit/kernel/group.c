/* Groups, and which variables are sent to which rank. */
#include "kernel/group/group.h"

#include <stdlib.h>

#include "kernel/group/vars_bundle.h"
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
        rank_start(&g->rank[k], 100 + k, 0);
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

    ok(group_grow(g, 4, &err) == 0 && g->size == 4, "a group grows");
    ok(g->rank[1].worker == 101 && rank_alive(&g->rank[1]),
       "and its living ranks keep their processes");
    ok(group_missing(g, 4, &missing) == 0 && ranks_format(&missing, &text) == 0,
       "it says who is missing");
    is_text(text.p, "2-3", "the new ones are");
    ok(group_grow(g, GROUP_MAX + 1, &err) < 0 && g->size == 4, "past the limit it stays as it was");
    ok(strstr(err.text, "65537") != NULL, "and the error names the number: %s", err.text);
    ok(group_worker(g, 101) == &g->rank[1] && !group_worker(g, 7) && !group_worker(g, 0),
       "a worker leads to its rank");
    ranks_release(&missing);
    buf_release(&text);
    group_destroy(g);
    group_destroy(NULL);
}

static void dying(void)
{
    struct group *g = living_group(2);

    json_object_set_new(g->rank[0].known, "x", json_integer(1));
    rank_end(&g->rank[0]);
    ok(g->rank[0].state == RANK_DEAD && json_object_size(g->rank[0].known) == 0,
       "a dead rank knows nothing any more");
    g->rank[1].state = RANK_STOPPING;
    rank_end(&g->rank[1]);
    ok(g->rank[1].state == RANK_NONE, "one that was asked to stop did not die");
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
       "a cell run again is written down once");
    is_int(rank_missed(g, &g->rank[1], &text), 0, "who ran everything missed nothing");
    rank_end(&g->rank[1]);
    rank_start(&g->rank[1], 200, 0);
    ok(g->rank[1].is_new && g->rank[1].lives == 2, "a rank started again is new");
    is_int(rank_missed(g, &g->rank[1], &text), 2, "and missed what ran before");
    is_text(text.p, "4, 7", "by the cells' numbers");
    for (unsigned k = 0; k < g->size; k++)
        rank_end(&g->rank[k]);
    group_forget_cells(g);
    buf_clear(&text);
    rank_start(&g->rank[1], 300, 0);
    ok(rank_missed(g, &g->rank[1], &text) == 0, "nobody misses cells from before a start afresh");
    if (group_ran(g, &all, 9) < 0)
        abort();
    rank_start(&g->rank[1], 301, 0);
    ok(rank_missed(g, &g->rank[1], &text) == 1, "but what ran since");
    is_text(text.p, "9", "by its number");
    buf_release(&text);
    ranks_release(&all);
    group_destroy(g);
}

static void shipping(void)
{
    struct err err = { "" };
    struct group *g = living_group(3);
    struct vars_bundles s = SHIPMENTS_INIT;
    struct ranks all = RANKS_INIT;
    json_t *captured = parse(
        "{\"names\": [[\"a\", 1, 8, \"\"], [\"b\", 5, 8, \"\"]], \"assigned\": [[\"c\", 9]]}");
    struct buf text = BUF_INIT;

    if (ranks_add_range(&all, 0, 2) < 0)
        abort();
    ok(vars_bundles_plan(g, &all, captured, &s, &err) == 0 && s.n == 1,
       "ranks that lack the same names get one shipment");
    is_text(s.item[0].names, "a,b", "of all names");
    ok(ledger_bundle_sent(g, &s.item[0], captured) == 0, "it is sent");
    vars_bundles_release(&s);
    ok(vars_bundles_plan(g, &all, captured, &s, &err) == 0 && s.n == 0,
       "what they have does not travel again");
    json_object_del(g->rank[1].known, "a");
    ok(vars_bundles_plan(g, &all, captured, &s, &err) == 0 && s.n == 1, "one rank lacks a name");
    ok(ranks_format(&s.item[0].ranks, &text) == 0, "only it gets a shipment");
    is_text(text.p, "1", "rank 1");
    is_text(s.item[0].names, "a", "of that name alone");
    vars_bundles_release(&s);
    json_array_set_new(json_array_get(json_object_get(captured, "names"), 1), 1, json_integer(6));
    ok(vars_bundles_plan(g, &all, captured, &s, &err) == 0 && s.n == 2,
       "a new version travels to all, with what else each lacks");
    vars_bundles_release(&s);
    ok(group_assigned(g, &all, captured) == 0 &&
           json_integer_value(json_object_get(g->rank[2].known, "c")) == 9,
       "a name that the cell assigns counts as known");
    group_forget_versions(g);
    ok(json_object_size(g->rank[2].known) == 0, "a new home's versions mean something else");
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
    if (ranks_add(&one, 0) < 0 || vars_bundles_plan(g, &one, captured, &plan, &err) < 0 ||
        vars_bundles_ask(g, &one, captured, &ask, &err) < 0 ||
        vars_bundles_touched(g, &one, captured, false, &touched, &err) < 0)
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
        { "[\"a\", 3, 8, \"\", 1, 0]", NULL, "has", "what a rank has, stays" },
        { "[\"a\", 4, 8, \"\", 4, 0]", NULL, "goes", "what home assigned goes unasked" },
        { "[\"a\", 4, 8, \"\", 1, 0]", NULL, "asked",
          "before a change in place the rank is asked" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "same", "goes",
          "it goes over what the rank has not changed" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "gone", "goes", "and where nothing is" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "changed", "clash", "not over what it has changed" },
        { "[\"a\", 4, 8, \"\", 1, 0]", "no reason", "clash", "nor where it can't tell" },
        { "[\"a\", 3, 8, \"\", 1, 1]", "changed", "goes", "--capture goes over that" },
        { "[\"a\", 3, 8, \"\", 1, 1]", "same", "has", "and sends nothing that is there" },
        { "[\"a\", 3, 8, \"\", 1, 2]", NULL, "asked", "of %push nothing goes that is there" },
        { "[\"a\", 3, 8, \"\", 1, 2]", "changed", "goes", "and all that is not" },
        { "[\"a\", 4, 8, \"\", 1, 3]", "changed", "has",
          "what the cell assigns does not need home's" },
        { "[\"a\", 4, 8, \"\", 1, 6]", "changed", "has", "nor what it may assign" },
        { "[\"a\", 4, 8, \"\", 0, 4]", "changed", "has", "what was pulled does not go back" },
        { "[\"a\", 4, 8, \"\", 0, 4]", "gone", "goes", "but to a rank that has none" },
        { "[\"a\", 4, 8, \"\", 0, 0]", "changed", "clash", "home's change of it is one in place" },
        { "[\"a\", 4, 8, \"\", 1, 5]", NULL, "has",
          "what only shares memory stays while nothing goes" },
    };
    struct group *g = living_group(1);

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        json_object_set_new(g->rank[0].known, "a", json_integer(3));
        is_text(lot(g, cases[k].row, cases[k].said), cases[k].want, cases[k].what);
    }
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
        { AS_SENT, ASSIGNED, 0, "changed", false, "a,b", "a", "b", "b", "a name is new" },
        { AS_SENT, ASSIGNED, 4, "changed", false, "a,b", "a", "b", NULL, "home has assigned one" },
        { AS_SENT, OTHER, 4, "changed", true, "a,b", "a,b", NULL, NULL,
          "home has changed the other" },
        { CHANGED, ASSIGNED, 0, "no reason", true, "a,b", "a", "b", "b",
          "home has changed it, and one is new" },
        { PULLED, ASSIGNED, 0, "changed", false, "a,b", "a", "b", "b",
          "home has pulled it, and changed nothing" },
        { AS_SENT, ASSIGNED, 0, "same", false, NULL, NULL, NULL, NULL, "nothing is in the way" },
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
            vars_bundles_touched(g, &all, captured, false, &t, &err) < 0)
            abort();
        ok(t.at_home == cases[k].at_home && t.tied == (cases[k].names != NULL), "%s",
           cases[k].what);
        is_text(t.names, cases[k].names, "what is in conflict");
        is_text(t.theirs, cases[k].theirs, "what ranks have changed");
        is_text(t.anew, cases[k].anew, "what home has new");
        is_text(t.lacked, cases[k].lacked, "what ranks do not have");
        is_int((long)ranks_count(&t.lack), cases[k].lacked ? 2 : 0, "and how many of them");
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
    if (ranks_add(&one, 0) < 0 || vars_bundles_touched(g, &one, captured, false, &t, &err) < 0)
        abort();
    ok(t.at_home && !t.tied && !t.anew, "what home has changed in place is a conflict of its own");
    is_text(t.names, "c", "told without what is only new");
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
    ok(group_assigned(g, &one, captured) == 0 && known(g, 1, "small") == 4 &&
           known(g, 1, "large") == 9 && known(g, 1, "new") == 5,
       "what is to be assigned counts as newer than home's");
    ok(known(g, 1, "perhaps") == 1, "not what only may be");
    ok((names = group_doubtful(g, &one)) != NULL && json_array_size(names) == 3,
       "it is to be told of where a rank had another version");
    json_decref(names);
    rank_answered(&g->rank[1], false, slice_text("new"), slice_text("large,new"));
    ok(known(g, 1, "large") == 9, "what the cell has assigned is so");
    ok(known(g, 1, "small") == 1, "of what it has not the rank has what it had");
    ok(!json_object_get(g->rank[1].known, "new"), "and nothing where the name is gone");
    ok((names = group_doubtful(g, &one)) != NULL && json_array_size(names) == 0,
       "then nothing is in doubt");
    json_decref(names);
    ok(group_assigned(g, &one, captured) == 0, "the next cell assigns them");
    rank_answered(&g->rank[1], false, slice_of("", 0), slice_of("", 0));
    ok(known(g, 1, "small") == 1 && !json_object_get(g->rank[1].known, "new"),
       "it never ran: all is as it was");
    json_decref(captured);
    ranks_release(&one);
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

        ok(vars_bundles_plan(g, &all, captured, &s, &err) < 0 && s.n == 0 && err.text[0],
           "%s is refused", bad[k]);
        json_decref(captured);
    }
    ranks_release(&all);
    group_destroy(g);
}

int main(void)
{
    growing();
    dying();
    ledger();
    shipping();
    rules();
    causes();
    two_causes();
    what_a_cell_assigns();
    nonsense_from_home();
    return plan_done();
}
