/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/cell/notices.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/cell/meeting.h"

#define SECONDS_MAX UINT64_C(604800)  /* a notice that is longer before is none */
#define SHOW_NS     (200 * NS_PER_MS) /* machines of which one hears within this share a line */
#define KEEP_NS     (120 * NS_PER_S)  /* so long after its time a machine may still go */
#define END_NS      (10 * NS_PER_S)   /* so long before, its processes may be ended already */
#define NAMES       6u                /* of machines in a line */

struct leaving {
    unsigned node;
    uint64_t until_ns;
    bool shown;
    bool told;  /* by more than a signal */
    char *text; /* owned */
};

struct notices {
    struct leaving *of; /* owned, n of them */
    size_t n;
    uint64_t show_ns;            /* when those that are new are shown; NEVER: there is none */
    struct step_meeting meeting; /* of these notices: the function runs once for all of them */
    uint64_t cell;               /* in which ranks meet; 0: between cells */
    uint64_t limit_ns;           /* until then they must */
    uint64_t late_ns;            /* ranks may give one until then; NEVER: none has been late */
    char fn[64];                 /* its name: as that of a rank */
};

static bool is_lost(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    return !info || info->state == NODE_LOST;
}

/* Forgets machines that are gone, and those that have not gone although their time is long over. */
static void forget_old(struct notebook *nb, uint64_t now)
{
    struct notices *s = nb->ends.notices;
    size_t kept = 0;

    for (size_t k = 0; k < s->n; k++)
        if (now < s->of[k].until_ns + KEEP_NS && !is_lost(nb, s->of[k].node))
            s->of[kept++] = s->of[k];
        else
            free(s->of[k].text);
    s->n = kept;
}

static struct leaving *leaving_of(const struct notices *s, unsigned node)
{
    for (size_t k = 0; s && k < s->n; k++)
        if (s->of[k].node == node)
            return &s->of[k];
    return NULL;
}

/* NULL: memory is out. */
static struct leaving *leaving_add(struct notices *s, unsigned node)
{
    struct leaving *more = realloc(s->of, (s->n + 1) * sizeof *more);

    if (!more)
        return NULL;
    s->of = more;
    more[s->n] = (struct leaving){ .node = node, .text = strdup("") };
    return more[s->n].text ? &more[s->n++] : NULL;
}

/* ---- lines ---- */

/* In the cell that runs, else under the last one. */
static void show(struct notebook *nb, const char *text)
{
    const struct request *parent = nb->home.executing ? nb->home.parent : nb->rank_parent;
    struct buf line = BUF_INIT;

    CELLS_EACH (c, nb)
        if (output_is_open(c)) {
            output_note(c, "%s", text);
            return;
        }
    if (buf_addf(&line, "cellspan: %s\n", text) == 0)
        publish_stream(nb, parent ? parent : nb->home.parent, 2, buf_slice(&line));
    buf_release(&line);
}

static int add_name(const struct notebook *nb, unsigned node, struct buf *out)
{
    const char *name = notebook_node_name(nb, node);

    return node == NODE_HERE ? buf_addf(out, "this machine (%s)", name) : buf_add_text(out, name);
}

static bool is_like(const struct leaving *a, const struct leaving *b)
{
    return !a->shown && strcmp(a->text, b->text) == 0;
}

/* One line for all new machines of which the same is said. */
static int show_like(struct notebook *nb, const struct leaving *first, uint64_t now)
{
    struct notices *s = nb->ends.notices;
    const struct leaving like = *first;
    const uint64_t left = like.until_ns > now ? (like.until_ns - now + NS_PER_S - 1) / NS_PER_S : 0;
    struct buf line = BUF_INIT;
    unsigned n = 0;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < s->n; k++) {
        if (!is_like(&s->of[k], &like))
            continue;
        if (n++ < NAMES && (n == 1 || buf_add_text(&line, ", ") == 0))
            rc = add_name(nb, s->of[k].node, &line);
        s->of[k].shown = true;
    }
    if (rc == 0 && n > NAMES)
        rc = buf_addf(&line, " and %u more", n - NAMES);
    if (rc == 0 && buf_addf(&line, " will be gone in %u s%s%s", (unsigned)left,
                            like.text[0] ? ": " : "", like.text) == 0)
        show(nb, line.p);
    buf_release(&line);
    return rc;
}

static void show_new(struct notebook *nb, uint64_t now)
{
    struct notices *s = nb->ends.notices;

    s->show_ns = NEVER;
    for (size_t k = 0; k < s->n; k++)
        if (!s->of[k].shown && show_like(nb, &s->of[k], now) < 0)
            log_warn("cell", "out of memory: a notice is not shown");
}

static void show_outcome(struct notebook *nb)
{
    struct notices *s = nb->ends.notices;
    struct buf words = BUF_INIT;

    if (s->show_ns != NEVER)
        show_new(nb, notebook_now(nb));
    if (meeting_words(&s->meeting, s->fn, &words) == 0)
        show(nb, words.p);
    buf_release(&words);
}

/* ---- ranks meet ---- */

static struct rank *rank_of_step(const struct notebook *nb, const struct step_rank *g)
{
    return notebook_rank(nb, g->worker, NULL);
}

static void tell(struct notebook *nb, const struct step_rank *g, enum span_kind kind, uint64_t how)
{
    struct span m = { .kind = kind, .worker = g->worker, .cell = nb->ends.notices->cell };

    if (kind == SPAN_MEET) {
        m.v[F_MEET_HOW].u64 = how;
        m.v[F_MEET_STEP].u64 = nb->ends.notices->meeting.step;
    }
    if (rank_of_step(nb, g))
        notebook_send(nb, g->worker, &m);
}

static void tell_all(struct notebook *nb, enum span_kind kind, uint64_t how)
{
    const struct step_meeting *m = &nb->ends.notices->meeting;

    for (size_t k = 0; k < m->n; k++)
        if (kind == SPAN_COUNT || how != MEET_AT || m->rank[k].state == AT_CELL)
            tell(nb, &m->rank[k], kind, how);
}

/* What the meeting's new state wants. */
static void act(struct notebook *nb)
{
    const struct step_meeting *m = &nb->ends.notices->meeting;

    if (m->state == MEETING_GOES)
        tell_all(nb, SPAN_MEET, MEET_AT);
    else if (m->state == MEETING_RUNS)
        tell_all(nb, SPAN_MEET, m->between ? MEET_NOW : MEET_RUN);
    else if (m->state == MEETING_OFF)
        tell_all(nb, SPAN_MEET, MEET_OFF);
    if (m->state == MEETING_OFF || m->state == MEETING_OVER)
        show_outcome(nb);
}

static void go_on(struct notebook *nb)
{
    while (meeting_next(&nb->ends.notices->meeting))
        act(nb);
}

static bool waits(const struct notices *s)
{
    return s->meeting.state == MEETING_COUNTS || s->meeting.state == MEETING_GOES;
}

/* Has the rank ended its part in the cell? */
static void update_rank(struct notebook *nb, const struct cell *c, const struct step_rank *g)
{
    struct notices *s = nb->ends.notices;
    const struct member *member = c ? cell_worker(c, g->worker) : NULL;

    if (!rank_of_step(nb, g) || (waits(s) && (!member || c->bad || c->stop.stopping)))
        meeting_ended(&s->meeting, g->worker, false);
    else if (member && member->state != MEMBER_RUNNING)
        meeting_ended(&s->meeting, g->worker, member->state == MEMBER_OK);
}

void notices_update(struct notebook *nb)
{
    struct notices *s = nb->ends.notices;

    if (!s || (!waits(s) && s->meeting.state != MEETING_RUNS))
        return;
    for (size_t k = 0; k < s->meeting.n; k++)
        update_rank(nb, s->cell ? cell_find(nb, s->cell) : NULL, &s->meeting.rank[k]);
    go_on(nb);
}

/* Does the end of the node concern this rank? Without this machine, no rank can go on. */
static bool concerns(const struct rank *r, unsigned node)
{
    return r->worker && (node == NODE_HERE || r->node == node);
}

static int add_step_rank(struct notices *s, const struct rank *r)
{
    snprintf(s->fn, sizeof s->fn, "%s", r->notice);
    return meeting_add(&s->meeting, r->worker, r->number);
}

/* The ranks of the cell that have a function, if one of the cell's is concerned. */
static int invite_cell(struct notices *s, const struct cell *c, unsigned node)
{
    bool any = false;
    int rc = 0;

    for (size_t k = 0; k < c->n; k++)
        any = any || concerns(&c->group->rank[c->member[k].rank], node);
    for (size_t k = 0; any && rc == 0 && k < c->n; k++) {
        const struct rank *r = &c->group->rank[c->member[k].rank];

        if (r->worker == c->member[k].worker && r->notice[0])
            rc = add_step_rank(s, r);
    }
    return rc;
}

/* No cell runs: the ranks of the last world. */
static int invite_idle(struct notices *s, const struct group *g, unsigned node)
{
    bool any = false;
    int rc = 0;

    for (unsigned k = 0; k < g->size && k < g->world; k++)
        any = any || concerns(&g->rank[k], node);
    for (unsigned k = 0; any && rc == 0 && k < g->size && k < g->world; k++)
        if (g->rank[k].worker && g->rank[k].notice[0])
            rc = add_step_rank(s, &g->rank[k]);
    return rc;
}

/* Does the notice of this machine want another meeting than the last one? A checkpoint of an
 * earlier cell is old. is_new: nobody has told of the machine before. */
static bool meets_again(const struct notebook *nb, bool is_new)
{
    const struct notices *s = nb->ends.notices;
    uint64_t running = 0;

    CELLS_EACH (c, nb)
        running = !running && cell_runs(c) ? c->id : running;
    if (s->meeting.state != MEETING_OVER)
        return s->meeting.state == MEETING_OFF;
    if (s->n == 1 && is_new)
        return true; /* the time of all others is over */
    return running ? running != s->cell : is_new && !s->meeting.between;
}

static void meet(struct notebook *nb, unsigned node, uint64_t now, uint64_t seconds)
{
    struct notices *s = nb->ends.notices;
    bool runs = false;
    int rc = 0;

    s->cell = 0;
    CELLS_EACH (c, nb) {
        if (!cell_runs(c) || s->meeting.n)
            continue;
        runs = true;
        rc = invite_cell(s, c, node);
        s->cell = c->id;
    }
    if (!runs)
        rc = invite_idle(s, nb->group, node);
    if (rc < 0)
        log_warn("cell", "out of memory: cellspan.on_notice()'s function does not run");
    if (rc < 0 || !s->meeting.n) {
        meeting_release(&s->meeting);
        return;
    }
    s->limit_ns = now + seconds * NS_PER_S / 2;
    meeting_begin(&s->meeting, !runs);
    if (runs)
        tell_all(nb, SPAN_COUNT, 0);
    else
        act(nb);
}

/* ---- functions that are given after the notice ---- */

static bool meets_late(const struct notices *s, const struct cell *c)
{
    return s->meeting.state == MEETING_NONE ||
           (s->meeting.state == MEETING_OFF && (!c || c->id != s->cell));
}

static void meet_late(struct notebook *nb, uint64_t now)
{
    struct notices *s = nb->ends.notices;

    s->late_ns = NEVER;
    if (s->meeting.state == MEETING_OFF)
        meeting_release(&s->meeting);
    for (size_t k = 0; k < s->n && s->meeting.state == MEETING_NONE; k++)
        if (now < s->of[k].until_ns && !is_lost(nb, s->of[k].node))
            meet(nb, s->of[k].node, now, (s->of[k].until_ns - now) / NS_PER_S);
}

static bool all_have(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING && !c->group->rank[c->member[k].rank].notice[0])
            return false;
    return true;
}

/* The ranks of a cell name their functions one after the other, and some may name none. Those with
 * a function meet when all ranks have one, or after a quarter of the time that is left. */
static void given(struct notebook *nb, const struct rank *r)
{
    struct notices *s = nb->ends.notices;
    const struct cell *c = cell_on(nb, r->worker);
    const uint64_t now = notebook_now(nb);
    uint64_t until_ns = NEVER;

    if (!s || !meets_late(s, c))
        return;
    for (size_t k = 0; k < s->n; k++)
        if (now < s->of[k].until_ns && !is_lost(nb, s->of[k].node))
            until_ns = clock_earlier(until_ns, s->of[k].until_ns);
    if (until_ns == NEVER)
        return;
    if (s->late_ns == NEVER)
        s->late_ns = now + (until_ns - now) / 4;
    if (c && all_have(c))
        meet_late(nb, now);
}

/* ---- messages ---- */

/* -1: memory is out. is_signal: the text says less than any other. */
static int take_text(struct leaving *l, bool is_signal, struct slice text)
{
    char *said;

    if (is_signal && l->told)
        return 0;
    l->told = !is_signal;
    while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
        text.n--;
    if (!(said = slice_copy(text)))
        return -1;
    for (char *at = said; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = ' ';
    l->shown = l->shown && strcmp(said, l->text) == 0;
    free(l->text);
    l->text = said;
    return 0;
}

static struct notices *notices_of(struct notebook *nb)
{
    struct notices *s = nb->ends.notices;

    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    s->show_ns = s->late_ns = NEVER;
    return nb->ends.notices = s;
}

void notices_take(struct notebook *nb, unsigned node, const struct span *m)
{
    struct notices *s = notices_of(nb);
    const uint64_t now = notebook_now(nb), said = m->v[F_NOTICE_SECONDS].u64;
    const uint64_t seconds = said < SECONDS_MAX ? said : SECONDS_MAX;
    struct leaving *l;
    bool is_new;

    if (s)
        forget_old(nb, now);
    is_new = !leaving_of(s, node);
    if (!s || (!(l = leaving_of(s, node)) && !(l = leaving_add(s, node))) ||
        take_text(l, m->v[F_NOTICE_SIGNAL].u64 != 0, m->v[F_NOTICE_TEXT].s) < 0) {
        log_warn("cell", "out of memory: a notice is lost");
        return;
    }
    l->until_ns = now + seconds * NS_PER_S;
    if (!l->shown && s->show_ns == NEVER)
        s->show_ns = now + SHOW_NS;
    if (meets_again(nb, is_new))
        meeting_release(&s->meeting);
    if (s->meeting.state == MEETING_NONE)
        meet(nb, node, now, seconds);
}

void notices_met(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct notices *s = nb->ends.notices;
    const struct slice text = m->v[F_MET_TEXT].s;

    switch (m->v[F_MET_WHAT].u64) {
    case MET_HAS:
        snprintf(r->notice, sizeof r->notice, "%.*s",
                 SLICE_ARG(text.n < sizeof r->notice ? text : slice_text("fn")));
        given(nb, r);
        return;
    case MET_LACKS:
        r->notice[0] = '\0';
        return;
    case MET_COUNT:
        if (s && s->cell == m->cell)
            meeting_counted(&s->meeting, r->worker, m->v[F_MET_STEP].u64);
        break;
    case MET_THERE:
        if (s && s->cell == m->cell)
            meeting_there(&s->meeting, r->worker);
        break;
    case MET_RAN:
        if (s)
            meeting_ran(&s->meeting, r->worker);
        break;
    default:
        if (s)
            meeting_failed(&s->meeting, r->worker, text);
    }
    if (s)
        go_on(nb);
}

/* ---- time ---- */

uint64_t notices_due(const struct notebook *nb)
{
    const struct notices *s = nb->ends.notices;

    if (!s)
        return NEVER;
    return clock_earlier(clock_earlier(s->show_ns, s->late_ns), waits(s) ? s->limit_ns : NEVER);
}

void notices_tick(struct notebook *nb)
{
    struct notices *s = nb->ends.notices;
    const uint64_t now = notebook_now(nb);

    if (!s)
        return;
    if (now >= s->show_ns)
        show_new(nb, now);
    if (now >= s->late_ns)
        meet_late(nb, now);
    if (waits(s) && now >= s->limit_ns) {
        meeting_late(&s->meeting);
        act(nb);
    }
}

/* ---- machines that are gone ---- */

bool notices_leaves(const struct notebook *nb, unsigned node)
{
    const struct leaving *l = leaving_of(nb->ends.notices, node);

    return l && notebook_now(nb) < l->until_ns + KEEP_NS;
}

bool notices_end(const struct notebook *nb, unsigned node)
{
    const struct leaving *l = leaving_of(nb->ends.notices, node);

    return notices_leaves(nb, node) && notebook_now(nb) + END_NS >= l->until_ns;
}

int notices_words(const struct notebook *nb, unsigned node, struct buf *out)
{
    const struct notices *s = nb->ends.notices;
    const struct leaving *l = leaving_of(s, node);
    int rc = add_name(nb, node, out);

    if (rc == 0)
        rc = buf_addf(out, " was to leave%s%s%s", l->text[0] ? " (" : "", l->text,
                      l->text[0] ? ")" : "");
    if (rc == 0 && s->meeting.state != MEETING_NONE && buf_add_text(out, "; ") == 0)
        rc = meeting_words(&s->meeting, s->fn, out);
    return rc;
}

void notices_release(struct notebook *nb)
{
    if (!nb->ends.notices)
        return;
    meeting_release(&nb->ends.notices->meeting);
    for (size_t k = 0; k < nb->ends.notices->n; k++)
        free(nb->ends.notices->of[k].text);
    free(nb->ends.notices->of);
    free(nb->ends.notices);
    nb->ends.notices = NULL;
}
