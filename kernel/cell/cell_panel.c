/* SPDX-License-Identifier: BSD-3-Clause */
/* The two displays of a panel: the bar, which is sent once, and the texts, which are updated. */
#include "kernel/cell/cell_panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define GAP_NS (500 * NS_PER_MS) /* shortest time between two updates */

static struct cell_tabs *tabs_open(const struct cell *c)
{
    struct cell_tabs *t = calloc(1, sizeof *t);
    struct err err = { "out of memory" };
    char name[64];

    snprintf(name, sizeof name, "cs%s-%" PRIu64, c->nb->config.run_id, c->id);
    if (t && (t->panel = panel_create(name, c->from.count, &c->to, c->nb->ops.clock, &err)))
        return t;
    log_error("output", "%s: there are no tabs", err.text);
    free(t);
    return NULL;
}

bool cell_panel_on(struct cell *c)
{
    if (c->out.tabs || c->plan.merge != PLAN_PANEL)
        return c->out.tabs != NULL;
    if (ranks_count(&c->to) > 1 && cell_is_shown(c) && cell_is_redrawn(c) && !cell_is_piped(c))
        c->out.tabs = tabs_open(c);
    if (!c->out.tabs)
        c->plan.merge = PLAN_FOLD;
    return c->out.tabs != NULL;
}

/* Uses the words of live_status.c. When the cell is over, a rank that still runs is shown as "not
 * ended", and one that waits as "not begun". */
static void take_states(struct cell *c)
{
    static const struct {
        const char *word, *last;
        enum panel_kind kind;
    } of[] = {
        [MEMBER_WAITING] = { "waiting", "not begun", PANEL_GOES_ON },
        [MEMBER_RUNNING] = { "running", "not ended", PANEL_GOES_ON },
        [MEMBER_OK] = { "done", "done", PANEL_WELL },
        [MEMBER_OUTLIVED] = { "dead", "dead", PANEL_BAD },
        [MEMBER_FAILED] = { "failed", "failed", PANEL_BAD },
        [MEMBER_INTERRUPTED] = { "interrupted", "interrupted", PANEL_BAD },
        [MEMBER_DEAD] = { "dead", "dead", PANEL_BAD },
    };
    const bool over = cell_is_over(c);

    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];

        panel_state(c->out.tabs->panel, m->rank, over ? of[m->state].last : of[m->state].word,
                    over && m->state <= MEMBER_RUNNING ? PANEL_BAD : of[m->state].kind);
    }
}

static void show_bar(struct cell *c)
{
    struct buf html = BUF_INIT;

    if (panel_bar(c->out.tabs->panel, &html) < 0)
        log_error("output", "out of memory: there are no tabs to choose from");
    else
        output_bundle(c, slice_of(NULL, 0), buf_slice(&html), NULL, NULL);
    buf_release(&html);
    c->out.tabs->outputs++;
}

static void show(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;
    struct buf text = BUF_INIT, html = BUF_INIT;

    if (!t->shown)
        show_bar(c);
    t->outputs += !t->shown;
    if (buf_add_text(&text, "") < 0 || panel_text(t->panel, &text, &html) < 0)
        log_error("output", "out of memory: tabs are not up to date");
    else
        output_bundle(c, buf_slice(&text), buf_slice(&html), "panel", &t->shown);
    t->shown = true;
    t->size = page_size(buf_slice(&text)) + page_size(buf_slice(&html));
    t->due_ns = notebook_now(c->nb) + GAP_NS;
    if (c->nb->page)
        page_count(c->nb->page, t->size);
    buf_release(&text);
    buf_release(&html);
}

/* false: Jupyter's server would not let so much through yet. */
static bool fits(struct cell *c)
{
    if (!c->nb->page || page_fits(c->nb->page, PAGE_TEXT, c->out.tabs->size))
        return true;
    c->out.tabs->due_ns = page_due_ns(c->nb->page);
    return false;
}

void cell_panel_flush(struct cell *c)
{
    const struct cell_tabs *t = c->out.tabs;
    const bool over = cell_is_over(c);
    struct err err = { "" };

    if (!t)
        return;
    if (panel_flush(t->panel, &err) < 0)
        log_error("output", "%s", err.text);
    take_states(c);
    if (over)
        panel_displays_end(c);
    if (!t->shown || (panel_changed(t->panel) && (over || fits(c))))
        show(c);
}

void cell_panel_rank_over(struct cell *c, unsigned rank)
{
    struct err err = { "" };

    if (!c->out.tabs)
        return;
    if (panel_rank_over(c->out.tabs->panel, rank, &err) < 0)
        log_error("output", "%s", err.text);
    if (c->out.tabs->shown)
        take_states(c);
}

void cell_panel_tick(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;
    struct err err = { "" };

    if (!t)
        return;
    if (panel_tick(t->panel, &err) < 0)
        log_error("output", "%s", err.text);
    panel_displays_tick(c);
    if (!panel_changed(t->panel) || notebook_now(c->nb) < t->due_ns)
        return;
    if (!fits(c))
        return;
    take_states(c);
    show(c);
}

uint64_t cell_panel_due(const struct cell *c)
{
    const struct cell_tabs *t = c->out.tabs;

    if (!t)
        return NEVER;
    return clock_earlier(clock_earlier(panel_due_ns(t->panel),
                                       panel_changed(t->panel) ? t->due_ns : NEVER),
                         panel_displays_wait(c) ? page_due_ns(c->nb->page) : NEVER);
}

void cell_panel_close(struct cell *c)
{
    if (!c->out.tabs)
        return;
    panel_destroy(c->out.tabs->panel);
    panel_displays_close(c);
    ranks_release(&c->out.tabs->clearing);
    free(c->out.tabs);
    c->out.tabs = NULL;
}
