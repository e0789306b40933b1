/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank's lines go through a merge of its own, which knows lines, tables and progress bars. It
 * is created with the rank's first line. */
#include "kernel/merge/panel.h"

#include <stdlib.h>

#include "kernel/merge/merge.h"
#include "kernel/merge/panel_private.h"

/* Bytes in JSON. Jupyter's server must let the last state through after a cell has sent as much as
 * output_limit.c allows. */
#define ALL_MOST   ((size_t)96 << 10)
#define RANKS_MOST ((size_t)288 << 10) /* all ranks together */
#define PLAIN_MOST ((size_t)48 << 10)

struct panel_tab {
    struct panel *panel;
    struct merge *merge; /* owned; NULL: the rank has not printed, or this is "All" */
    struct tab_lines tail;
    struct buf bars;
    size_t left_out;
};

struct panel {
    char *name;
    unsigned count;
    const struct clock *clock;
    struct ranks one;        /* the world of each tab's merge */
    struct panel_does *does; /* `ranks` of them, in the order of their numbers */
    size_t ranks;
    struct panel_tab *tab; /* n of them: "All", then the first ranks */
    size_t n;
    bool changed;
};

static int no_memory(struct err *err)
{
    return err_set(err, "out of memory: a tab lacks lines");
}

struct panel *panel_create(const char *name, unsigned count, const struct ranks *world,
                           const struct clock *clock, struct err *err)
{
    struct panel *p = calloc(1, sizeof *p);
    const size_t ranks = ranks_count(world), tabs = ranks < PANEL_TABS ? ranks : PANEL_TABS;

    if (!p || !(p->name = strdup(name)) || ranks_add(&p->one, 0) < 0 ||
        !(p->does = calloc(ranks + 1, sizeof *p->does)) ||
        !(p->tab = calloc(tabs + 1, sizeof *p->tab))) {
        panel_destroy(p);
        return err_null(err, "out of memory");
    }
    p->count = count;
    p->clock = clock;
    p->n = tabs + 1;
    for (size_t i = 0; i < p->n; i++) {
        p->tab[i].panel = p;
        p->tab[i].tail.keep = i ? RANKS_MOST / tabs : ALL_MOST;
    }
    RANKS_EACH (k, world)
        p->does[p->ranks++] = (struct panel_does){ (unsigned)k, "waiting", PANEL_GOES_ON };
    return p;
}

void panel_destroy(struct panel *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++) {
        merge_destroy(p->tab[i].merge);
        tab_lines_release(&p->tab[i].tail);
        buf_release(&p->tab[i].bars);
    }
    free(p->tab);
    free(p->does);
    ranks_release(&p->one);
    free(p->name);
    free(p);
}

/* Its place in `does`; p->ranks: it is not of the cell. */
static size_t place(const struct panel *p, unsigned rank)
{
    size_t low = 0, high = p->ranks;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (p->does[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->ranks && p->does[low].rank == rank ? low : p->ranks;
}

/* NULL: the rank has no tab. */
static struct panel_tab *tab_of(const struct panel *p, unsigned rank)
{
    const size_t at = place(p, rank);

    return at + 1 < p->n ? &p->tab[at + 1] : NULL;
}

/* ---- what the tabs show ---- */

static int tab_text(void *arg, unsigned stream, struct slice text)
{
    struct panel_tab *t = arg;

    t->panel->changed = true;
    return tab_lines_add(&t->tail, stream, text);
}

static int tab_bars(void *arg, struct slice text, bool left)
{
    struct panel_tab *t = arg;

    (void)left;
    t->panel->changed = true;
    buf_clear(&t->bars);
    return buf_add_slice(&t->bars, text);
}

int panel_all(struct panel *p, unsigned stream, struct slice text)
{
    return tab_text(&p->tab[0], stream, text);
}

int panel_bars(struct panel *p, struct slice text)
{
    return tab_bars(&p->tab[0], text, false);
}

int panel_lines(struct panel *p, unsigned rank, unsigned stream, unsigned flags, struct slice data,
                struct err *err)
{
    struct panel_tab *t = tab_of(p, rank);
    const struct merge_out out = {
        .text = tab_text, .progress = tab_bars, .arg = t, .plain_bars = true
    };

    if (!t)
        return 0;
    if (!t->merge && !(t->merge = merge_create(PLAN_PANEL, &p->one, p->clock, out, err)))
        return -1;
    return merge_lines(t->merge, 0, stream, flags, data, err) < 0 ? no_memory(err) : 0;
}

int panel_rank_over(struct panel *p, unsigned rank, struct err *err)
{
    struct panel_tab *t = tab_of(p, rank);

    return t && t->merge && merge_rank_over(t->merge, 0, err) < 0 ? no_memory(err) : 0;
}

void panel_clear(struct panel *p, unsigned rank)
{
    struct panel_tab *t = tab_of(p, rank);
    struct err err = { "" };

    if (!t)
        return;
    if (t->merge && merge_flush(t->merge, &err) < 0) {
        merge_destroy(t->merge);
        t->merge = NULL;
    }
    tab_lines_clear(&t->tail);
    buf_clear(&t->bars);
    p->changed = true;
}

void panel_state(struct panel *p, unsigned rank, const char *word, enum panel_kind kind)
{
    const size_t at = place(p, rank);

    if (at == p->ranks || p->does[at].word == word)
        return;
    p->does[at].word = word;
    p->does[at].kind = kind;
    p->changed = true;
}

void panel_left_out(struct panel *p, unsigned rank)
{
    struct panel_tab *t = tab_of(p, rank);

    if (t)
        t->left_out++;
    p->tab[0].left_out++;
    p->changed = true;
}

int panel_tick(struct panel *p, struct err *err)
{
    const uint64_t now = clock_now(p->clock);
    int rc = 0;

    for (size_t i = 1; i < p->n; i++)
        if (p->tab[i].merge && merge_due_ns(p->tab[i].merge) <= now &&
            merge_tick(p->tab[i].merge, err) < 0)
            rc = no_memory(err);
    return rc;
}

int panel_flush(struct panel *p, struct err *err)
{
    int rc = 0;

    for (size_t i = 1; i < p->n; i++)
        if (p->tab[i].merge && merge_flush(p->tab[i].merge, err) < 0)
            rc = no_memory(err);
    return rc;
}

uint64_t panel_due_ns(const struct panel *p)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 1; i < p->n; i++)
        if (p->tab[i].merge)
            due = clock_earlier(due, merge_due_ns(p->tab[i].merge));
    return due;
}

bool panel_changed(const struct panel *p)
{
    return p->changed;
}

/* ---- what it is as text and HTML ---- */

static enum panel_kind kind_of_all(const struct panel *p)
{
    enum panel_kind kind = PANEL_WELL;

    for (size_t i = 0; i < p->ranks; i++) {
        if (p->does[i].kind == PANEL_BAD)
            return PANEL_BAD;
        if (p->does[i].kind == PANEL_GOES_ON)
            kind = PANEL_GOES_ON;
    }
    return kind;
}

/* room: for PANEL_TABS + 1 of them. */
static struct panel_views views_of(const struct panel *p, struct panel_view *room)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct panel_tab *t = &p->tab[i];
        const struct panel_does *d = i ? &p->does[i - 1] : NULL;

        room[i] = (struct panel_view){ .rank = d ? (long)d->rank : -1,
                                       .tail = &t->tail,
                                       .bars = buf_slice(&t->bars),
                                       .word = d ? d->word : NULL,
                                       .kind = d ? d->kind : kind_of_all(p),
                                       .left_out = t->left_out,
                                       .most = t->tail.keep };
    }
    return (struct panel_views){ .name = p->name,
                                 .count = p->count,
                                 .tab = room,
                                 .n = p->n,
                                 .does = p->does,
                                 .ranks = p->ranks };
}

int panel_bar(const struct panel *p, struct buf *html)
{
    struct panel_view room[PANEL_TABS + 1];
    const struct panel_views v = views_of(p, room);

    return panel_html_bar(&v, html);
}

int panel_text(struct panel *p, struct buf *text, struct buf *html)
{
    struct panel_view room[PANEL_TABS + 1];
    const struct panel_views v = views_of(p, room);

    p->changed = false;
    return panel_html_plain(&v, PLAIN_MOST, text) < 0 ? -1 : panel_html_texts(&v, html);
}

int panel_marker(const struct panel *p, unsigned rank, bool next, struct buf *html)
{
    return panel_html_marker(p->name, rank, next, html);
}
