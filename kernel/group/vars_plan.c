/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/group/vars_plan.h"

#include <stdlib.h>

struct bundle_row {
    const char *name;
    const json_t *version;
    /* the version with which home last assigned it: a rank with an older version gets it without
     * being asked. 0: it came from a rank, so other ranks may have values of their own */
    json_int_t since;
    /* if it came from a rank: the version with which home had assigned it before; 0: never. A rank
     * with an older version lacks that value, too */
    json_int_t assigned;
    json_int_t how;
    size_t tie; /* number, from 1, of the set of names that share memory; 0: it shares none */
};

struct bundle_rows {
    struct bundle_row *item; /* owned */
    size_t n;
};

/* What to do with a name for a rank. */
enum action {
    ACTION_NONE, /* the rank has it, or does not need it */
    ACTION_SEND,
    ACTION_ASK,      /* the rank must say first whether it has changed its own value */
    ACTION_CONFLICT, /* it has, or can't tell: home's value must not replace it */
};

void vars_bundles_release(struct vars_bundles *s)
{
    for (size_t k = 0; k < s->n; k++) {
        free(s->item[k].names);
        ranks_release(&s->item[k].ranks);
    }
    free(s->item);
    *s = (struct vars_bundles)VARS_BUNDLES_INIT;
}

void touched_release(struct touched *t)
{
    free(t->names);
    free(t->theirs);
    free(t->anew);
    free(t->lacked);
    free(t->why);
    ranks_release(&t->changed);
    ranks_release(&t->unsure);
    ranks_release(&t->lack);
    *t = (struct touched)TOUCHED_INIT;
}

/* ---- what home said ---- */

static bool rows_ok(const json_t *captured)
{
    size_t k;
    json_t *row;

    if (!json_is_array(captured))
        return false;
    json_array_foreach ((json_t *)captured, k, row)
        if (!json_is_string(json_array_get(row, 0)) || !json_is_integer(json_array_get(row, 1)))
            return false;
    return true;
}

static bool captured_ok(const json_t *captured)
{
    const json_t *assigned = json_object_get(captured, "assigned");

    return rows_ok(json_object_get(captured, "names")) && (!assigned || rows_ok(assigned));
}

static size_t tie_of(const json_t *tied, const char *name)
{
    size_t group, k;
    json_t *names, *one;

    json_array_foreach ((json_t *)tied, group, names)
        json_array_foreach (names, k, one) {
            if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
                return group + 1;
        }
    return 0;
}

/* -1: it is malformed, or memory is out. */
static int rows_open(const json_t *captured, struct bundle_rows *out, struct err *err)
{
    const json_t *names = json_object_get(captured, "names"),
                 *tied = json_object_get(captured, "tied");
    size_t k;
    json_t *row;

    *out = (struct bundle_rows){ NULL, 0 };
    if (!captured_ok(captured))
        return err_set(err, "home answered with something that is no list of variables' names");
    if (!(out->item = calloc(json_array_size(names) + 1, sizeof *out->item)))
        return err_set(err, "out of memory while planning what travels");
    json_array_foreach (names, k, row) {
        const json_t *version = json_array_get(row, 1), *since = json_array_get(row, 4);
        const char *name = json_string_value(json_array_get(row, 0));

        out->item[out->n++] = (struct bundle_row){
            .name = name,
            .version = version,
            .since = json_integer_value(json_is_integer(since) ? since : version),
            .assigned = json_integer_value(json_array_get(row, 6)),
            .how = json_integer_value(json_array_get(row, 5)),
            .tie = tie_of(tied, name)
        };
    }
    return 0;
}

/* ---- the rules ---- */

/* What to do after a rank's answer `said`. current: home's value has not changed since it was sent.
 * stale: the rank has an older one than home had before it pulled. tied_sent: see action_alone().
 */
static enum action action_of_answer(const struct bundle_row *row, const char *said, bool current,
                                    bool stale, bool tied_sent)
{
    if (strcmp(said, "gone") == 0)
        return ACTION_SEND;
    if (stale && strcmp(said, "same") == 0)
        return ACTION_SEND;
    if (row->how == CAPTURED_PULLED &&
        !tied_sent) /* what came from a rank does not go back by itself */
        return ACTION_NONE;
    if (strcmp(said, "same") == 0)
        return current && !tied_sent ? ACTION_NONE : ACTION_SEND;
    /* the cell assigns it, so it does not need home's value; or only may mean it */
    if (row->how == CAPTURED_SPARE || row->how == CAPTURED_MAYBE || row->how == CAPTURED_COMPUTED)
        return ACTION_NONE;
    if (row->how == CAPTURED_NAMED || row->how == CAPTURED_PUSHED)
        return ACTION_SEND;
    if (strcmp(said, ANSWER_CLASS) == 0 || (strcmp(said, ANSWER_CLASS_ARRAYS) == 0 && !row->tie))
        return ACTION_SEND; /* which loses nothing: see rebuild.takes */
    return ACTION_CONFLICT;
}

/* Home has sent it, or the rank has bound the name, or has told of a value of its own. */
static bool has_value(const struct rank *r, const char *name)
{
    return json_object_get(r->known, name) || json_object_get(r->keeps, name);
}

/* What to do, without a look at other names. tied_sent: a name that shares memory with this one is
 * sent, so this one must be sent as well. */
static enum action action_alone(const struct rank *r, const struct bundle_row *row, bool tied_sent)
{
    const json_t *known = json_object_get(r->known, row->name);
    const char *said = json_string_value(json_object_get(r->said, row->name));
    const bool current = known && json_equal(known, row->version);
    const bool keeps = json_equal(json_object_get(r->keeps, row->name), row->version);

    if (row->how == CAPTURED_TIED &&
        (!tied_sent || !has_value(r, row->name))) /* the cell does not need it */
        return ACTION_NONE;
    if (row->how == CAPTURED_COMPUTED && !has_value(r, row->name))
        return ACTION_NONE;
    if (row->how == CAPTURED_PULLED && keeps && !current && !tied_sent && !said)
        return ACTION_NONE; /* it was asked before an earlier cell */
    if (known ? json_integer_value(known) < row->since : row->since > 0)
        return ACTION_SEND;
    if (row->how == CAPTURED_PUSHED && (!current || tied_sent))
        return ACTION_SEND;
    if (current && !tied_sent && row->how != CAPTURED_NAMED && row->how != CAPTURED_PUSHED)
        return ACTION_NONE;
    return said ? action_of_answer(row, said, current,
                                   known && json_integer_value(known) < row->assigned, tied_sent)
                : ACTION_ASK;
}

static bool is_tied_sent(const struct rank *r, const struct bundle_rows *rows,
                         const struct bundle_row *row)
{
    for (size_t k = 0; row->tie && k < rows->n; k++)
        if (rows->item[k].tie == row->tie && action_alone(r, &rows->item[k], false) != ACTION_NONE)
            return true;
    return false;
}

static enum action action_of(const struct rank *r, const struct bundle_rows *rows,
                             const struct bundle_row *row)
{
    const enum action action = action_alone(r, row, false);

    return action == ACTION_NONE && is_tied_sent(r, rows, row) ? action_alone(r, row, true)
                                                               : action;
}

/* ---- bundles ---- */

static struct vars_bundle *vars_bundle_named(struct vars_bundles *s, struct slice names)
{
    for (size_t k = 0; k < s->n; k++)
        if (slice_equal(slice_text(s->item[k].names), names))
            return &s->item[k];
    return NULL;
}

static struct vars_bundle *vars_bundle_add(struct vars_bundles *s, struct buf *names)
{
    struct vars_bundle *item = realloc(s->item, (s->n + 1) * sizeof *item);

    if (!item)
        return NULL;
    s->item = item;
    item[s->n] = (struct vars_bundle){ .names = buf_take(names) };
    return item[s->n].names ? &item[s->n++] : NULL;
}

/* Adds the rank to the bundle of all names that need this action. */
static int plan_rank(const struct rank *r, const struct bundle_rows *rows, enum action action,
                     struct vars_bundles *out)
{
    struct buf names = BUF_INIT;
    struct vars_bundle *s;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < rows->n; k++)
        if (action_of(r, rows, &rows->item[k]) == action)
            rc = buf_addf(&names, "%s%s", names.n ? "," : "", rows->item[k].name);
    if (rc == 0 && names.n) {
        if (!(s = vars_bundle_named(out, buf_slice(&names))))
            s = vars_bundle_add(out, &names);
        rc = s ? ranks_add(&s->ranks, r->number) : -1;
    }
    buf_release(&names);
    return rc;
}

static int plan(const struct group *g, const struct ranks *to, const json_t *captured,
                enum action action, struct vars_bundles *out, struct err *err)
{
    struct bundle_rows rows;
    int rc;

    *out = (struct vars_bundles)VARS_BUNDLES_INIT;
    rc = rows_open(captured, &rows, err);
    for (long k = ranks_next(to, 0); rc == 0 && k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if ((unsigned)k >= g->size || plan_rank(&g->rank[k], &rows, action, out) < 0)
            rc = err_set(err, "out of memory while planning what travels to rank %ld", k);
    if (rc < 0)
        vars_bundles_release(out);
    free(rows.item);
    return rc;
}

int vars_plan_bundles(const struct group *g, const struct ranks *to, const json_t *captured,
                      struct vars_bundles *out, struct err *err)
{
    return plan(g, to, captured, ACTION_SEND, out, err);
}

int vars_plan_questions(const struct group *g, const struct ranks *to, const json_t *captured,
                        struct vars_bundles *out, struct err *err)
{
    return plan(g, to, captured, ACTION_ASK, out, err);
}

/* ---- what ranks have changed ---- */

/* Flags for a row, set for any of the ranks. */
enum mark {
    MARK_TOUCHED = 1, /* a rank has changed it */
    MARK_ANEW = 2,    /* it is sent to such a rank: it is new there, or home has assigned it */
    MARK_LACKED = 4,  /* such a rank does not have it */
};

/* Does home's value conflict with the rank's own? asked: does it replace the rank's own, since
 * --capture names it? */
static bool is_touched(const struct rank *r, const struct bundle_rows *rows,
                       const struct bundle_row *row, bool asked)
{
    const char *said = json_string_value(json_object_get(r->said, row->name));

    if (asked)
        return row->how == CAPTURED_NAMED && said && strcmp(said, "same") != 0 &&
               strcmp(said, "gone") != 0 && !text_begins(said, ANSWER_HELD);
    return action_of(r, rows, row) == ACTION_CONFLICT;
}

static bool are_together(const struct bundle_row *a, const struct bundle_row *b)
{
    return a == b || (a->tie && a->tie == b->tie);
}

static bool is_anew(const struct rank *r, const struct bundle_row *row)
{
    const json_t *known = json_object_get(r->known, row->name);

    return known ? json_integer_value(known) < row->since : row->since > 0;
}

static bool is_changed_at_home(const struct rank *r, const struct bundle_row *row)
{
    const json_t *known = json_object_get(r->known, row->name);

    return row->how != CAPTURED_PULLED && action_alone(r, row, false) != ACTION_NONE &&
           !is_anew(r, row) && !json_equal(known, row->version);
}

/* Has home changed it, or a name that shares memory with it, in place? */
static bool is_clash_in_place(const struct rank *r, const struct bundle_rows *rows,
                              const struct bundle_row *row)
{
    for (size_t k = 0; k < rows->n; k++)
        if (are_together(&rows->item[k], row) && is_changed_at_home(r, &rows->item[k]))
            return true;
    return false;
}

/* Records that the rank has changed it, or why the rank can't tell. */
static int note_touched(const struct rank *r, const struct bundle_row *row, struct touched *out)
{
    const char *said = json_string_value(json_object_get(r->said, row->name));

    if (strcmp(said, "changed") == 0 || text_begins(said, ANSWER_CLASS))
        return ranks_add(&out->changed, r->number);
    if (!out->why && !(out->why = strdup(said)))
        return -1;
    return ranks_add(&out->unsure, r->number);
}

/* Marks the names that share memory with this row and are sent to the rank, so that this row would
 * have to be sent, too. */
static int note_anew(const struct rank *r, const struct bundle_rows *rows,
                     const struct bundle_row *row, unsigned char *marks, struct touched *out)
{
    for (size_t k = 0; k < rows->n; k++) {
        const struct bundle_row *other = &rows->item[k];

        if (other == row || !are_together(other, row) || !is_anew(r, other) ||
            action_alone(r, other, false) != ACTION_SEND)
            continue;
        marks[k] |= MARK_ANEW;
        if (has_value(r, other->name))
            continue;
        marks[k] |= MARK_LACKED;
        if (ranks_add(&out->lack, r->number) < 0)
            return -1;
    }
    return 0;
}

static int note_rank(const struct rank *r, const struct bundle_rows *rows, bool asked,
                     unsigned char *marks, struct touched *out)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < rows->n; k++) {
        const struct bundle_row *row = &rows->item[k];

        if (!is_touched(r, rows, row, asked) || (out->at_home && !is_clash_in_place(r, rows, row)))
            continue;
        marks[k] |= MARK_TOUCHED;
        rc = note_touched(r, row, out);
        if (rc == 0)
            rc = note_anew(r, rows, row, marks, out);
    }
    return rc;
}

bool names_hold(const char *names, struct slice name)
{
    for (struct slice rest = slice_text(names); rest.n;)
        if (slice_equal(slice_cut(&rest, ','), name))
            return true;
    return false;
}

/* Sets *out to the names of the rows with one of these marks; NULL if there are none. together:
 * also the names that share memory with them. Lists each name once: a name may have two rows. */
static int name_marked(const struct bundle_rows *rows, const unsigned char *marks, unsigned of,
                       bool together, char **out)
{
    struct buf names = BUF_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < rows->n; k++) {
        bool is = marks[k] & of;

        for (size_t i = 0; together && !is && i < rows->n; i++)
            is = (marks[i] & of) && are_together(&rows->item[i], &rows->item[k]);
        if (is && !names_hold(names.p, slice_text(rows->item[k].name)))
            rc = buf_addf(&names, "%s%s", names.n ? "," : "", rows->item[k].name);
    }
    if (rc == 0 && names.n && !(*out = buf_take(&names)))
        rc = -1;
    buf_release(&names);
    return rc;
}

static bool any_tied(const struct bundle_rows *rows, const unsigned char *marks)
{
    for (size_t k = 0; k < rows->n; k++)
        for (size_t i = 0; (marks[k] & MARK_TOUCHED) && i < rows->n; i++)
            if (i != k && are_together(&rows->item[i], &rows->item[k]))
                return true;
    return false;
}

static bool any_in_place(const struct group *g, const struct ranks *to,
                         const struct bundle_rows *rows)
{
    RANKS_EACH (k, to)
        for (size_t i = 0; (unsigned)k < g->size && i < rows->n; i++)
            if (is_touched(&g->rank[k], rows, &rows->item[i], false) &&
                is_clash_in_place(&g->rank[k], rows, &rows->item[i]))
                return true;
    return false;
}

int vars_plan_touched(const struct group *g, const struct ranks *to, const json_t *captured,
                      bool asked, struct touched *out, struct err *err)
{
    struct bundle_rows rows;
    unsigned char *marks = NULL;
    int rc;

    *out = (struct touched)TOUCHED_INIT;
    if (rows_open(captured, &rows, err) < 0)
        return -1;
    out->at_home = !asked && any_in_place(g, to, &rows);
    rc = (marks = calloc(rows.n + 1, sizeof *marks)) ? 0 : -1;
    for (long k = ranks_next(to, 0); rc == 0 && k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if ((unsigned)k < g->size)
            rc = note_rank(&g->rank[k], &rows, asked, marks, out);
    if (rc == 0) {
        out->tied = any_tied(&rows, marks);
        if (name_marked(&rows, marks, MARK_TOUCHED, true, &out->names) < 0 ||
            name_marked(&rows, marks, MARK_TOUCHED, false, &out->theirs) < 0 ||
            name_marked(&rows, marks, MARK_ANEW, false, &out->anew) < 0 ||
            name_marked(&rows, marks, MARK_LACKED, false, &out->lacked) < 0)
            rc = -1;
    }
    if (rc < 0) {
        touched_release(out);
        err_set(err, "out of memory while looking at what ranks have changed");
    }
    free(marks);
    free(rows.item);
    return rc;
}
