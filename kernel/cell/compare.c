/* What ranks have changed is not overwritten by what home has changed in place. Before anything is sent, ranks are asked
 * about the names that would go over theirs, and about no others: all of them answer before any of them gets a value. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

/* ---- asking ---- */

static json_t *question(const char *names)
{
    json_t *list = json_array();
    char *copy = strdup(names), *rest = NULL;

    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest))
        json_array_append_new(list, json_string(one));
    free(copy);
    return json_pack("{s:o}", "names", list);
}

/* -1: the cell has failed. */
static int ask(struct cell *c, const struct shipment *s)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    struct buf content = BUF_INIT;
    int rc = text_json(&content, question(s->names));

    for (long k = ranks_next(&s->ranks, 0); rc == 0 && k >= 0; k = ranks_next(&s->ranks, (unsigned)k + 1))
        rc = ranks_add(&c->comparing, (unsigned)k);
    if (rc < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_PROBE_WHAT].s = slice_text("compare");
        m.v[F_PROBE_CONTENT].s = buf_slice(&content);
        rc = fanout_send(c, &s->ranks, &m);
    }
    buf_release(&content);
    return rc;
}

/* ---- what they say ---- */

static void spaces(char *names)
{
    for (char *comma = strchr(names, ','); comma; comma = strchr(comma, ','))
        *comma = ' ';
}

/* "a, b and c" of "a,b,c". */
static int add_enumeration(const char *names, struct buf *out)
{
    const char *last = strrchr(names, ',');

    for (const char *at = names; *at; at++)
        if ((*at == ',' ? buf_addf(out, at == last ? " and " : ", ") : buf_add(out, at, 1)) < 0)
            return -1;
    return 0;
}

static int add_who(const struct ranks *ranks, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = ranks_format(ranks, &text);

    if (rc == 0)
        rc = buf_addf(out, "%s %s", ranks_count(ranks) > 1 ? "ranks" : "rank", text.p);
    buf_release(&text);
    return rc;
}

/* "by ranks 0-2; rank 3 can't tell (why)" */
static int add_blame(const struct touched *t, struct buf *out)
{
    if (ranks_count(&t->changed) && (buf_addf(out, " and by ") < 0 || add_who(&t->changed, out) < 0))
        return -1;
    if (ranks_count(&t->unsure) == 0)
        return 0;
    if (buf_addf(out, ranks_count(&t->changed) ? "; " : ", and ") < 0 || add_who(&t->unsure, out) < 0)
        return -1;
    return buf_addf(out, " can't tell whether they changed it (%s)", t->why ? t->why : "");
}

static void refuse(struct cell *c, const struct touched *t)
{
    const bool many = strchr(t->names, ',') != NULL;
    const long who = ranks_next(ranks_count(&t->changed) ? &t->changed : &t->unsure, 0);
    struct buf text = BUF_INIT;

    if (add_enumeration(t->names, &text) < 0 ||
        buf_addf(&text, "%s %s changed in place at home", t->tied ? ", which share memory," : "", many ? "were" : "was") < 0 ||
        add_blame(t, &text) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        spaces(t->names);
        cell_fail(c, "VariableConflict", "%s: `%%push %s` sends home's, `%%pull %s -r %ld` fetches rank %ld's", text.p,
                  t->names, t->names, who, who);
    }
    buf_release(&text);
}

static void note_overwritten(struct cell *c, const struct touched *t)
{
    struct buf names = BUF_INIT, who = BUF_INIT;
    struct ranks all = RANKS_INIT;

    for (long k = ranks_next(&c->to, 0); k >= 0; k = ranks_next(&c->to, (unsigned)k + 1))
        if ((ranks_has(&t->changed, (unsigned)k) || ranks_has(&t->unsure, (unsigned)k)) && ranks_add(&all, (unsigned)k) < 0)
            break;
    if (add_enumeration(t->names, &names) == 0 && add_who(&all, &who) == 0)
        stream_note(c, "--capture puts home's %s over what %s had changed", names.p, who.p);
    buf_release(&names);
    buf_release(&who);
    ranks_release(&all);
}

/* All have answered. */
static void go_on(struct cell *c)
{
    struct group *g = c->group;
    struct touched t = TOUCHED_INIT, over = TOUCHED_INIT;
    struct err err = { "" };

    if (shipments_touched(g, &c->to, c->captured, false, &t, &err) < 0 ||
        shipments_touched(g, &c->to, c->captured, true, &over, &err) < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    else if (t.names)
        refuse(c, &t);
    else if (over.names)
        note_overwritten(c, &over);
    touched_release(&t);
    touched_release(&over);
    if (c->state != CELL_SHIPPING)
        return;
    if (group_settled(g, &c->to, c->captured) < 0)
        log_warn("compare", "out of memory: ranks will be asked again");
    gather_ship(c);
}

static int take(struct rank *r, const struct span *m)
{
    json_t *said = text_parse(m->v[F_PROBED_CONTENT].s);
    const bool failed = !slice_is(m->v[F_PROBED_STATUS].s, "ok") || !json_is_object(said);
    int rc = failed ? -1 : json_object_update(r->said, said);

    json_decref(said);
    return rc;
}

/* ---- from outside ---- */

void compare_begin(struct cell *c)
{
    struct shipments asked;
    struct err err = { "" };
    int rc;

    group_forget_said(c->group);
    if (shipments_ask(c->group, &c->to, c->captured, &asked, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    rc = 0;
    for (size_t k = 0; rc == 0 && k < asked.n; k++)
        rc = ask(c, &asked.item[k]);
    if (asked.n == 0)
        gather_ship(c);
    shipments_release(&asked);
}

bool compare_message(struct cell *c, struct rank *r, const struct span *m)
{
    if (m->cell != c->id || c->state != CELL_SHIPPING || !ranks_has(&c->comparing, r->number))
        return false;
    ranks_remove(&c->comparing, r->number);
    if (take(r, m) < 0)
        cell_fail(c, "RuntimeError", "rank %u could not say whether it changed its variables: %.*s", r->number,
                  SLICE_ARG(m->v[F_PROBED_CONTENT].s));
    else if (ranks_count(&c->comparing) == 0)
        go_on(c);
    return true;
}

void compare_over(struct cell *c)
{
    for (long k = ranks_next(&c->comparing, 0); k >= 0; k = ranks_next(&c->comparing, (unsigned)k + 1)) {
        const struct rank *r = &c->group->rank[k];
        const struct span m = { .kind = SPAN_INTERRUPT, .worker = r->worker, .cell = c->id };

        if (r->worker && rank_alive(r))
            notebook_send(c->nb, r->worker, &m);
    }
    ranks_clear(&c->comparing);
}
