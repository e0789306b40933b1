/* SPDX-License-Identifier: BSD-3-Clause */
/* clear_output() of several ranks (declared in cell_clears.h). */
#include "kernel/cell/cell_clears.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_panel.h"

#define SETTLE_NS  (50 * NS_PER_MS)    /* ranks that clear at the same time are drawn at once */
#define GAP_NS     (100 * NS_PER_MS)   /* between two drawings; longer if much is shown again: */
#define DRAWN_S    ((size_t)512 << 10) /* bytes in a second */
#define GAP_MAX_NS (2 * NS_PER_S)      /* of what is more, the server leaves out a part */
#define ALL_MAX    ((size_t)16 << 20)  /* bytes that are kept, of all ranks; */
#define RANK_MIN   ((size_t)64 << 10)  /* for each rank at least this */
#define ITEM_MAX   ((size_t)16 << 10)  /* of text; then another one begins */

struct cleared_rank {
    bool clears;  /* it has called clear_output() */
    bool waits;   /* its next output clears what is kept */
    bool cut;     /* what it has shown first is not kept any more */
    bool open[2]; /* its last text on stdout and stderr does not end with a newline */
    bool over;    /* it has ended, which is told when the page has been drawn */
    struct held_output *first, *last; /* owned */
    size_t bytes;
};

struct cell_clears {
    struct cleared_rank *of; /* owned; by the member's place in the cell */
    size_t n;
    bool led;   /* the first rank has cleared */
    bool stale; /* the page shows what a rank has cleared */
    uint64_t due_ns;
    uint64_t next_ns; /* no drawing before */
};

bool clears_shared(const struct cell *c)
{
    return c->n > 1 && !c->out.tabs && !cell_is_of_thread(c) && c->plan.merge != PLAN_RANK0;
}

/* NULL: the cell has no output. */
static struct cell_clears **place_of(const struct cell *c)
{
    return c->out.path ? &((struct output_head *)c->out.path)->clears : NULL;
}

/* NULL: no rank has cleared the output. */
static struct cell_clears *clears_of(const struct cell *c)
{
    struct cell_clears **at = place_of(c);

    return at ? *at : NULL;
}

static void forget(struct cleared_rank *r)
{
    while (r->first) {
        struct held_output *next = r->first->next;

        held_output_free(r->first);
        r->first = next;
    }
    r->last = NULL;
    r->bytes = 0;
    r->cut = false;
}

void clears_close(struct cell *c)
{
    struct cell_clears *s = clears_of(c);

    if (!s)
        return;
    for (size_t k = 0; k < s->n; k++)
        forget(&s->of[k]);
    free(s->of);
    free(s);
    *place_of(c) = NULL;
}

/* NULL: memory is out. */
static struct cell_clears *opened(struct cell *c)
{
    struct cell_clears *s = clears_of(c);

    if (s || !place_of(c))
        return s;
    if (!(s = calloc(1, sizeof *s)) || !(s->of = calloc(c->n, sizeof *s->of))) {
        free(s);
        return NULL;
    }
    s->n = c->n;
    s->due_ns = NEVER;
    return *place_of(c) = s;
}

/* NULL: the rank has not cleared, or is none of the cell's. */
static struct cleared_rank *rank_of(const struct cell *c, unsigned rank)
{
    struct cell_clears *s = clears_of(c);
    const struct member *m = s ? cell_member(c, rank) : NULL;
    struct cleared_rank *r = m ? &s->of[m - c->member] : NULL;

    return r && r->clears ? r : NULL;
}

/* ---- what is kept ---- */

static void clear_kept(struct cell *c, struct cleared_rank *r)
{
    struct cell_clears *s = clears_of(c);
    const uint64_t soon = notebook_now(c->nb) + SETTLE_NS;

    r->waits = false;
    forget(r);
    if (!s->led || s->stale)
        return;
    s->stale = true;
    s->due_ns = soon > s->next_ns ? soon : s->next_ns;
}

/* This rank calls clear_output(). With wait, its next output does it. */
static void clear_rank(struct cell *c, unsigned rank, struct slice content)
{
    struct cell_clears *s = opened(c);
    const struct member *m = cell_member(c, rank);

    if (!s || !m)
        return;
    s->led = s->led || m == c->member;
    s->of[m - c->member].clears = true;
    s->of[m - c->member].waits = true;
    if (!cell_panel_content_waits(content))
        clear_kept(c, &s->of[m - c->member]);
}

static size_t most(const struct cell_clears *s)
{
    return ALL_MAX / s->n > RANK_MIN ? ALL_MAX / s->n : RANK_MIN;
}

static struct held_output *add(struct cleared_rank *r, const struct held_output *what)
{
    struct held_output *held = calloc(1, sizeof *held);

    if (!held)
        return NULL;
    held->kind = what->kind;
    held->rank = what->rank;
    held->stream = what->stream;
    held->flags = what->flags;
    if (r->last)
        r->last->next = held;
    else
        r->first = held;
    return r->last = held;
}

static bool goes_on(const struct held_output *last, const struct held_output *what)
{
    return last && last->kind == HELD_TEXT && what->kind == HELD_TEXT &&
           last->stream == what->stream && last->flags == what->flags && last->content.n < ITEM_MAX;
}

/* false: it is too large, or memory is out. */
static bool keep(const struct cell_clears *s, struct cleared_rank *r,
                 const struct held_output *what, const struct content *p)
{
    const size_t size = p->content.n + p->metadata.n;
    struct held_output *last = goes_on(r->last, what) ? r->last : NULL;

    r->cut = r->cut || p->n || size > most(s);
    if (p->n || size > most(s) || (!last && !(last = add(r, what))))
        return false;
    if (buf_add_slice(&last->content, p->content) < 0 ||
        buf_add_slice(&last->metadata, p->metadata) < 0)
        return false;
    for (r->bytes += size; r->bytes > most(s) && r->first != r->last; r->cut = true) {
        struct held_output *first = r->first;

        r->first = first->next;
        r->bytes -= first->content.n + first->metadata.n;
        held_output_free(first);
    }
    return true;
}

/* ---- the page is drawn again ---- */

static void say(struct cell *c, unsigned rank, unsigned stream, const char *text)
{
    const struct held_output what = { .kind = HELD_TEXT, .rank = rank, .stream = stream };

    output_again(c, &what, &(struct content){ .content = slice_text(text) });
}

/* Text that follows begins another line. */
static void end_lines(struct cell *c, struct cleared_rank *r, unsigned rank)
{
    for (unsigned k = 0; k < 2; k++)
        if (r->open[k])
            say(c, rank, k + 1, "\n");
    r->open[0] = r->open[1] = false;
}

static void note_end(struct cleared_rank *r, const struct held_output *what, struct slice text)
{
    if (what->kind == HELD_TEXT && text.n)
        r->open[what->stream == 2] = text.p[text.n - 1] != '\n';
}

static size_t draw_rank(struct cell *c, struct cleared_rank *r, unsigned rank)
{
    char text[96];

    snprintf(text, sizeof text, "(its first lines are left out: %%ranks logs -r %u)\n", rank);
    if (r->cut)
        say(c, rank, 1, text);
    for (const struct held_output *held = r->first; held; held = held->next) {
        note_end(r, held, buf_slice(&held->content));
        output_again(c, held,
                     &(struct content){ .content = buf_slice(&held->content),
                                        .metadata = buf_slice(&held->metadata) });
    }
    return r->bytes;
}

/* Lines of a rank wait for equal ones of ranks that have not ended. */
static void tell_ends(struct cell *c)
{
    struct cell_clears *s = clears_of(c);

    for (size_t k = 0; k < s->n; k++)
        if (s->of[k].over) {
            s->of[k].over = false;
            output_rank_over(c, c->member[k].rank);
        }
}

static uint64_t gap_after(size_t bytes)
{
    const uint64_t gap = GAP_NS + bytes * (NS_PER_S / DRAWN_S);

    return gap < GAP_MAX_NS ? gap : GAP_MAX_NS;
}

static void draw(struct cell *c)
{
    struct cell_clears *s = clears_of(c);
    size_t bytes = 0, k;

    s->stale = false;
    s->due_ns = NEVER;
    for (k = 0; k < s->n; k++)
        end_lines(c, &s->of[k], c->member[k].rank);
    for (k = 0; k < s->n && !bytes; k++)
        bytes = s->of[k].bytes;
    output_clear(c, bytes > 0);
    for (bytes = k = 0; k < s->n; k++)
        bytes += draw_rank(c, &s->of[k], c->member[k].rank);
    s->next_ns = notebook_now(c->nb) + gap_after(bytes);
    tell_ends(c);
}

bool clears_pass_over(struct cell *c, unsigned rank)
{
    struct cleared_rank *r = rank_of(c, rank);

    if (!r || !clears_of(c)->stale)
        return true;
    r->over = true;
    return false;
}

void clears_flush(struct cell *c)
{
    if (clears_of(c) && clears_of(c)->stale)
        draw(c);
}

void clears_tick(struct cell *c, uint64_t now)
{
    if (clears_of(c) && now >= clears_of(c)->due_ns)
        draw(c);
}

uint64_t clears_due(const struct cell *c)
{
    return clears_of(c) ? clears_of(c)->due_ns : NEVER;
}

/* What no drawing would show comes after the last one. */
bool clears_pass(struct cell *c, const struct held_output *what, const struct content *p)
{
    struct cleared_rank *r = rank_of(c, what->rank);

    if (r && r->waits)
        clear_kept(c, r);
    if (what->kind == HELD_TEXT && what->flags & LINES_PROGRESS)
        return true; /* bars are drawn below what is cleared */
    if (r && keep(clears_of(c), r, what, p)) {
        if (!clears_of(c)->stale)
            note_end(r, what, p->content);
        return !clears_of(c)->stale;
    }
    clears_flush(c);
    return true;
}

/* ---- updates ---- */

static bool has_id(const struct held_output *held, const char *id)
{
    char *its = held->kind == HELD_DISPLAY ? cell_panel_content_id(buf_slice(&held->content))
                                           : NULL;
    const bool same = its && strcmp(its, id) == 0;

    free(its);
    return same;
}

static bool pass_update(struct cell *c, unsigned rank, const struct content *p)
{
    struct cleared_rank *r = rank_of(c, rank);
    char *id = r && r->first ? cell_panel_content_id(p->content) : NULL;

    for (struct held_output *held = id ? r->first : NULL; held; held = held->next) {
        struct buf changed = BUF_INIT;

        if (!has_id(held, id) || buf_add_slice(&changed, p->content) < 0)
            continue;
        r->bytes = r->bytes - held->content.n + changed.n;
        buf_release(&held->content);
        held->content = changed;
    }
    free(id);
    return !r || !r->first || !clears_of(c)->stale;
}

bool clears_pass_display(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    const struct held_output what = { .kind = HELD_DISPLAY, .rank = rank };

    if (strcmp(type, "display_data") == 0)
        return clears_pass(c, &what, p);
    if (strcmp(type, "update_display_data") == 0)
        return pass_update(c, rank, p);
    if (strcmp(type, "clear_output") != 0 || !clears_shared(c))
        return true;
    clear_rank(c, rank, p->content);
    return false;
}
