/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds variables that both home and ranks have changed, before home's values overwrite the ranks'
 * values. vars_plan.c decides which these are. Ranks are asked only about names that would be
 * overwritten. All of them answer before any of them gets a value. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_before.h"

/* ---- asking ---- */

static json_t *question(const char *names)
{
    json_t *list = json_array();

    for (struct slice rest = slice_text(names); rest.n;) {
        const struct slice one = slice_cut(&rest, ',');

        json_array_append_new(list, json_stringn(one.p, one.n));
    }
    return json_pack("{s:o}", "names", list);
}

/* -1: the cell has failed. */
static int ask(struct cell *c, const struct vars_bundle *s)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    struct buf content = BUF_INIT;
    int rc = text_json(&content, question(s->names));

    for (long k = ranks_next(&s->ranks, 0); rc == 0 && k >= 0;
         k = ranks_next(&s->ranks, (unsigned)k + 1))
        rc = ranks_add(&c->send.comparing, (unsigned)k);
    if (rc < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_PROBE_WHAT].s = slice_text("compare");
        m.v[F_PROBE_CONTENT].s = buf_slice(&content);
        rc = cell_send_ranks(c, &s->ranks, &m);
    }
    buf_release(&content);
    return rc;
}

/* ---- the error's text ---- */

static bool is_held(const struct touched *t)
{
    return t->why && text_begins(t->why, ANSWER_HELD);
}

/* Is it no name of the user's, but the arguments of a call? */
static bool is_of_call(struct slice name)
{
    static const char own[] = "_cellspan_";

    return name.n >= sizeof own - 1 && memcmp(name.p, own, sizeof own - 1) == 0;
}

/* "a, b and c" of "a,b,c". */
static int add_enumeration(const char *names, struct buf *out)
{
    const char *before = "";

    for (struct slice rest = slice_text(names); rest.n;) {
        const struct slice one = slice_cut(&rest, ',');
        const struct slice shown = is_of_call(one) ? slice_text("an argument of the call") : one;

        if (buf_addf(out, "%s%.*s", before, SLICE_ARG(shown)) < 0)
            return -1;
        before = memchr(rest.p, ',', rest.n) ? ", " : " and ";
    }
    return 0;
}

/* "opt and ddp on ranks 0-1 use theirs": names that the ranks have made and that share
 * memory with the values that would be replaced. */
static int add_holders(const struct touched *t, const char *before, struct buf *out)
{
    if (buf_addf(out, "%s", before) < 0 || add_enumeration(t->why + strlen(ANSWER_HELD), out) < 0 ||
        buf_addf(out, " on ") < 0 || ranks_format_words(&t->unsure, out) < 0)
        return -1;
    return buf_addf(out, " %s theirs", strchr(t->why, ',') ? "use" : "uses");
}

/* "rank 3 can't tell whether they changed it (why)", after `before` */
static int add_unsure(const struct touched *t, const char *before, struct buf *out)
{
    if (ranks_count(&t->unsure) == 0)
        return 0;
    if (is_held(t))
        return add_holders(t, before, out);
    if (buf_addf(out, "%s", before) < 0 || ranks_format_words(&t->unsure, out) < 0)
        return -1;
    return buf_addf(out, " can't tell whether they changed it (%s)", t->why ? t->why : "");
}

/* "a and b, which share memory, were changed in place at home and by ranks 0-2" */
static int add_change(const struct touched *t, struct buf *out)
{
    const bool many = strchr(t->names, ',') != NULL, by_ranks = ranks_count(&t->changed) > 0;

    if (add_enumeration(t->names, out) < 0 ||
        buf_addf(out, "%s %s changed in place at home", t->tied ? ", which share memory," : "",
                 many ? "were" : "was") < 0)
        return -1;
    if (by_ranks && (buf_addf(out, " and by ") < 0 || ranks_format_words(&t->changed, out) < 0))
        return -1;
    return add_unsure(t, by_ranks ? "; " : ", and ", out);
}

/* "b is new to ranks 0-2 and shares memory with a, which ranks 0-2 have changed" */
static int add_anew(const struct touched *t, struct buf *out)
{
    const char *names = t->lacked ? t->lacked : t->anew, *theirs = t->theirs ? t->theirs : t->names;
    const bool many = strchr(names, ',') != NULL, by_ranks = ranks_count(&t->changed) > 0;
    const bool of_call = is_of_call(slice_text(names));

    if (buf_addf(out, "%s", t->lacked || of_call ? "" : "home has assigned ") < 0 ||
        add_enumeration(names, out) < 0)
        return -1;
    if (t->lacked && !of_call &&
        (buf_addf(out, " %s new to ", many ? "are" : "is") < 0 ||
         ranks_format_words(&t->lack, out) < 0))
        return -1;
    if (buf_addf(out, "%s share%s memory with ",
                 of_call     ? ""
                 : t->lacked ? " and"
                             : ", which",
                 many ? "" : "s") < 0 ||
        add_enumeration(theirs, out) < 0)
        return -1;
    if (by_ranks &&
        (buf_addf(out, ", which ") < 0 || ranks_format_words(&t->changed, out) < 0 ||
         buf_addf(out, " %s changed", ranks_count(&t->changed) > 1 ? "have" : "has") < 0))
        return -1;
    return add_unsure(t, by_ranks ? "; " : ", and ", out);
}

/* " a b" of "a,b,c" without "c" */
static int add_list(const char *names, const char *without, struct buf *out)
{
    for (struct slice rest = slice_text(names); rest.n;) {
        const struct slice one = slice_cut(&rest, ',');

        if (!is_of_call(one) && !names_hold(without, one) &&
            buf_addf(out, " %.*s", SLICE_ARG(one)) < 0)
            return -1;
    }
    return 0;
}

/* "`%pull a b -r 0` fetches rank 0's", of what that rank has. */
static int add_pull(const struct touched *t, struct buf *out)
{
    const long who = ranks_next(ranks_count(&t->changed) ? &t->changed : &t->unsure, 0);

    if (buf_addf(out, ", `%%pull") < 0 || add_list(t->names, t->lacked, out) < 0)
        return -1;
    return buf_addf(out, " -r %ld` fetches rank %ld's", who, who);
}

/* Adds what the user can do: %push home's value, or %pull the rank's. A variable that ranks lack
 * and that shares memory with a changed one can't be sent alone: the user makes it on the ranks, or
 * again at home after %pull. */
static int add_ways_out(const struct touched *t, bool in_place, struct buf *out)
{
    const char *made = t->lacked ? t->lacked : in_place ? NULL : t->anew;

    if (buf_addf(out, ": `%%push") < 0 || add_list(t->names, NULL, out) < 0 ||
        buf_addf(out, "` sends home's") < 0)
        return -1;
    if (is_held(t) &&
        (buf_addf(out, ", after which ") < 0 ||
         add_enumeration(t->why + strlen(ANSWER_HELD), out) < 0 ||
         buf_addf(out, " %s to be made again", strchr(t->why, ',') ? "have" : "has") < 0))
        return -1;
    if ((in_place || !t->lacked) && add_pull(t, out) < 0)
        return -1;
    if (!made)
        return 0;
    if (is_of_call(slice_text(made)))
        return buf_addf(out, ", and a copy as argument shares nothing");
    if (buf_addf(out, in_place ? ", of which " : ", and making ") < 0 ||
        add_enumeration(made, out) < 0)
        return -1;
    if (!in_place)
        return buf_addf(out, " in a `%%%%distribute` cell keeps theirs");
    return buf_addf(out, " %s to be made again", strchr(made, ',') ? "have" : "has");
}

static void refuse(struct cell *c, const struct touched *t)
{
    const bool in_place = t->at_home || !t->anew;
    struct buf text = BUF_INIT;

    if ((in_place ? add_change(t, &text) : add_anew(t, &text)) < 0 ||
        add_ways_out(t, in_place, &text) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        cell_fail(c, "VariableConflict", "%s", text.p);
    buf_release(&text);
}

static void note_overwritten(struct cell *c, const struct touched *t)
{
    struct buf names = BUF_INIT, who = BUF_INIT;
    struct ranks all = RANKS_INIT;

    RANKS_EACH (k, &c->to)
        if ((ranks_has(&t->changed, (unsigned)k) || ranks_has(&t->unsure, (unsigned)k)) &&
            ranks_add(&all, (unsigned)k) < 0)
            break;
    if (add_enumeration(t->names, &names) == 0 && ranks_format_words(&all, &who) == 0)
        output_note(c, "--capture replaces %s on %s, which they %s changed", names.p, who.p,
                    ranks_count(&t->unsure) ? "may have" : "had");
    buf_release(&names);
    buf_release(&who);
    ranks_release(&all);
}

static int note_answer(struct rank *r, const struct span *m)
{
    json_t *said = text_parse(m->v[F_PROBED_CONTENT].s);
    const bool failed = !slice_is(m->v[F_PROBED_STATUS].s, "ok") || !json_is_object(said);
    int rc = failed ? -1 : ledger_said(r, said);

    json_decref(said);
    return rc;
}

/* ---- what home can't send ---- */

/* The cell's text reads a name whose new value home can't send, and ranks have the earlier one. */
static void refuse_unsent(struct cell *c, const struct unsent_name *u)
{
    struct buf who = BUF_INIT;

    if (ranks_format_words(&u->ranks, &who) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        cell_fail(c, "CaptureError",
                  "%s can't be sent, and %s %s home's earlier value of it: %s. Make it in a "
                  "distributed cell, or --no-capture runs this one with what the ranks have",
                  u->name, who.p, ranks_count(&u->ranks) > 1 ? "have" : "has",
                  u->why ? u->why : "");
    buf_release(&who);
}

/* -1: the cell has failed. */
static int check_unsent(struct cell *c)
{
    struct unsent_name u = UNSENT_NAME_INIT;

    if (ledger_find_unsent(c->group, &c->to, c->prep.captured, &u) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (u.name)
        refuse_unsent(c, &u);
    ranks_release(&u.ranks);
    return c->bad ? -1 : 0;
}

/* ---- the step ---- */

static void compare_begin(struct cell *c)
{
    struct vars_bundles asked;
    struct err err = { "" };
    int rc = 0;

    group_forget_said(c->group);
    if (check_unsent(c) < 0)
        return;
    if (vars_plan_questions(c->group, &c->to, c->prep.captured, &asked, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    for (size_t k = 0; rc == 0 && k < asked.n; k++)
        rc = ask(c, &asked.item[k]);
    vars_bundles_release(&asked);
}

/* All ranks have answered. */
static void judge_answers(struct cell *c)
{
    struct group *g = c->group;
    struct touched t = TOUCHED_INIT, over = TOUCHED_INIT;
    struct err err = { "" };

    if (vars_plan_touched(g, &c->to, c->prep.captured, false, &t, &err) < 0 ||
        vars_plan_touched(g, &c->to, c->prep.captured, true, &over, &err) < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    else if (t.names)
        refuse(c, &t);
    else if (over.names)
        note_overwritten(c, &over);
    touched_release(&t);
    touched_release(&over);
    if (!c->bad && ledger_settled(g, &c->to, c->prep.captured) < 0)
        log_warn("compare", "out of memory: ranks will be asked again");
}

static enum cell_outcome compare_poll(struct cell *c)
{
    return ranks_count(&c->send.comparing) ? CELL_STAYS : CELL_DONE;
}

static bool compare_message(struct cell *c, struct rank *r, const struct span *m)
{
    if (m->cell != c->id || !ranks_has(&c->send.comparing, r->number))
        return false;
    ranks_remove(&c->send.comparing, r->number);
    if (note_answer(r, m) < 0)
        cell_fail(c, "RuntimeError", "rank %u could not say whether it changed its variables: %.*s",
                  r->number, SLICE_ARG(m->v[F_PROBED_CONTENT].s));
    else if (!ranks_count(&c->send.comparing))
        judge_answers(c);
    return true;
}

void compare_cancel(struct cell *c)
{
    cell_interrupt(c, &c->send.comparing);
    ranks_clear(&c->send.comparing);
}

const struct cell_step cell_comparing = { CELL_BEFORE, .begin = compare_begin, .poll = compare_poll,
                                          .probed = compare_message };
