/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_panel.c - the output of a cell as tabs: the bar, which is sent once, the texts, which are
 * updated, and the displays of ranks.
 *
 * Each display of a rank is a separate output. A mark says to which tab it belongs. A display with
 * HTML has the mark in its HTML. Other displays, and those that the rank may update, get an extra
 * output with the mark before them. After clear_output, the next display replaces the rank's first
 * one. */
#include "kernel/cell/cell_panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"

#define GAP_NS      (500 * NS_PER_MS) /* shortest time between two updates */
#define OUTPUTS_MAX 40u /* JupyterLab hides what comes after 50; some are left for others */
/* bytes: a larger display is not read, but passed on with a mark before it */
#define READ_MAX ((size_t)4 << 20)
#define TEXT_MAX ((size_t)256 << 10) /* bytes; a longer text is an output of its own */
#define LARGE    ((size_t)1 << 20)   /* bytes */

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
    if (ranks_count(&c->to) > 1 && cell_is_shown(c) && cell_is_redrawn(c) &&
        !cell_is_of_console(c) && !cell_is_piped(c))
        c->out.tabs = tabs_open(c);
    if (!c->out.tabs)
        c->plan.merge = PLAN_FOLD;
    return c->out.tabs != NULL;
}

/* ---- the bar and the texts ---- */

/* Uses the words of live_status.c. When the cell is over, a rank that still runs is shown as "not
 * ended", and one that waits as "not begun". */
static void show_states(struct cell *c)
{
    static const struct {
        const char *word, *last;
        enum panel_kind kind;
    } of[] = {
        [MEMBER_WAITING] = { "waiting", "not begun", PANEL_GOES_ON },
        [MEMBER_RUNNING] = { "running", "not ended", PANEL_GOES_ON },
        [MEMBER_OK] = { "done", "done", PANEL_WELL },
        [MEMBER_REPLACED] = { "dead", "dead", PANEL_BAD },
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
        cell_show_mime(c, slice_of(NULL, 0), buf_slice(&html), NULL, NULL);
    buf_release(&html);
    c->out.tabs->outputs++;
}

static void show_texts(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;
    struct buf text = BUF_INIT, html = BUF_INIT;

    if (!t->shown)
        show_bar(c);
    t->outputs += !t->shown;
    if (buf_add_text(&text, "") < 0 || panel_text(t->panel, &text, &html) < 0)
        log_error("output", "out of memory: tabs are not up to date");
    else
        cell_show_mime(c, buf_slice(&text), buf_slice(&html), "panel", &t->shown);
    t->shown = true;
    t->size = output_limit_size(buf_slice(&text)) + output_limit_size(buf_slice(&html));
    t->due_ns = notebook_now(c->nb) + GAP_NS;
    if (c->nb->output_limit)
        output_limit_count(c->nb->output_limit, t->size);
    buf_release(&text);
    buf_release(&html);
}

/* false: Jupyter's server would not let so much through yet. */
static bool texts_fit(struct cell *c)
{
    if (!c->nb->output_limit ||
        output_limit_fits(c->nb->output_limit, LIMIT_TEXT, c->out.tabs->size))
        return true;
    c->out.tabs->due_ns = output_limit_due_ns(c->nb->output_limit);
    return false;
}

/* ---- displays of ranks ---- */

static void id_of(const struct cell *c, const char *what, size_t k, char out[static 128])
{
    snprintf(out, 128, "cellspan-%s-%s-%" PRIu64 "-%zu", what, c->nb->config.run_id, c->id, k);
}

static void pass(struct cell *c, const char *type, const struct content *p)
{
    if (c->nb->output_limit)
        output_limit_count(c->nb->output_limit, p->content.n);
    publish_content(c->nb, c->from.request, type, p);
}

/* The rank's own HTML stays as it is, behind ours. */
static int put_mark(struct cell *c, unsigned rank, json_t *data)
{
    const char *own = json_string_value(json_object_get(data, "text/html"));
    struct buf html = BUF_INIT;
    int rc = panel_marker(c->out.tabs->panel, rank, false, &html);

    if (rc == 0 && (rc = buf_add_text(&html, own)) == 0)
        rc = json_object_set_new(data, "text/html", json_stringn(html.p, html.n));
    buf_release(&html);
    return rc;
}

static void pass_bundle(struct cell *c, const char *type, const char *text, struct slice html,
                        const char *id)
{
    struct buf content = BUF_INIT;

    if (jupyter_display(&content, slice_text(text), html, id) == 0)
        pass(c, type, &(struct content){ .content = buf_slice(&content) });
    buf_release(&content);
}

static void show_mark(struct cell *c, unsigned rank, size_t place)
{
    struct buf html = BUF_INIT;
    char id[128], text[24];

    id_of(c, "mark", place, id);
    snprintf(text, sizeof text, "[%u]", rank);
    if (panel_marker(c->out.tabs->panel, rank, true, &html) == 0)
        pass_bundle(c, "display_data", text, buf_slice(&html), id);
    buf_release(&html);
}

/* Publishes content, which is changed, with the id of its place. */
static void show_at(struct cell *c, size_t place, bool again, json_t *content,
                    struct slice metadata)
{
    const struct tabs_place *at = &c->out.tabs->place[place];
    json_t *transient = json_object_get(content, "transient");
    struct buf text = BUF_INIT;
    char id[128];

    id_of(c, "display", place, id);
    if (!transient)
        json_object_set_new(content, "transient", transient = json_object());
    if (!text_display_id(content))
        json_object_set_new(transient, "display_id", json_string(id));
    if ((at->marked && put_mark(c, at->rank, json_object_get(content, "data")) < 0) ||
        text_json(&text, json_incref(content)) < 0)
        log_error("output", "a display is lost: out of memory");
    else
        pass(c, again ? "update_display_data" : "display_data",
             &(struct content){ .content = buf_slice(&text), .metadata = metadata });
    buf_release(&text);
}

/* The first place of the rank that it has cleared, and that fits; -1: none. */
static long cleared_place(const struct cell *c, unsigned rank, bool html)
{
    const struct cell_tabs *t = c->out.tabs;

    for (size_t k = 0; k < t->places; k++)
        if (t->place[k].cleared && t->place[k].rank == rank && (html || !t->place[k].marked))
            return (long)k;
    return -1;
}

/* content: NULL if the display was not read. */
static void show_in_tab(struct cell *c, unsigned rank, const struct content *p, json_t *content)
{
    struct cell_tabs *t = c->out.tabs;
    const bool fixed = content && !text_display_id(content);
    const bool html = fixed && text_shows_html(content);
    const long cleared = fixed ? cleared_place(c, rank, html) : -1;

    if (cleared >= 0) {
        t->place[cleared].cleared = false;
        show_at(c, (size_t)cleared, true, content, p->metadata);
        return;
    }
    if (t->outputs + (html ? 1 : 2) > OUTPUTS_MAX || t->places == TABS_PLACES) {
        panel_left_out(t->panel, rank);
        return;
    }
    t->outputs += html ? 1 : 2;
    t->place[t->places++] = (struct tabs_place){
        .rank = rank,
        .marked = html,
        .fixed = fixed,
        .id = content && !fixed ? strdup(text_display_id(content)) : NULL,
    };
    if (!html)
        show_mark(c, rank, t->places - 1);
    if (content)
        show_at(c, t->places - 1, false, content, p->metadata);
    else
        pass(c, "display_data", p);
}

static bool is_text(const json_t *content)
{
    const json_t *data = json_object_get(content, "data");

    return !text_display_id(content) && json_object_size(data) == 1 &&
           json_is_string(json_object_get(data, "text/plain"));
}

/* Adds a display that is only text to lines. false: it is another one. */
static bool prints(const char *type, const struct content *p, struct buf *lines)
{
    json_t *content = NULL;
    bool text;

    if (strcmp(type, "display_data") == 0 && p->content.n <= TEXT_MAX)
        content = text_parse(p->content);
    if ((text = content && is_text(content))) {
        const struct slice said = text_slice(json_object_get(content, "data"), "text/plain");

        if (buf_add_slice(lines, said) < 0 || buf_add_text(lines, "\n") < 0) {
            log_error("output", "a display is lost: out of memory");
            buf_clear(lines);
        }
    }
    json_decref(content);
    return text;
}

/* An output can't be removed, but it can be empty. */
static void make_empty(struct cell *c, const char *id)
{
    pass_bundle(c, "update_display_data", "", slice_of(NULL, 0), id);
}

static void make_place_empty(struct cell *c, const char *what, size_t place)
{
    char id[128];

    id_of(c, what, place, id);
    make_empty(c, id);
}

/* The display of a place that is ours will be replaced. Another one is empty from now on. */
static void clear_place(struct cell *c, size_t k)
{
    struct tabs_place *at = &c->out.tabs->place[k];

    at->cleared |= at->fixed;
    if (!at->id)
        return;
    make_empty(c, at->id);
    make_place_empty(c, "mark", k);
    free(at->id);
    at->id = NULL;
}

/* The rank's lines go, and its next displays take the places of those that it had. */
static void clear_tab(struct cell *c, unsigned rank)
{
    struct cell_tabs *t = c->out.tabs;

    ranks_remove(&t->clearing, rank);
    panel_clear(t->panel, rank);
    for (size_t k = 0; k < t->places; k++)
        if (t->place[k].rank == rank)
            clear_place(c, k);
}

bool cell_panel_content_waits(struct slice content)
{
    json_t *given = text_parse(content);
    const bool waits = json_is_true(json_object_get(given, "wait"));

    json_decref(given);
    return waits;
}

char *cell_panel_content_id(struct slice content)
{
    json_t *given = text_parse(content);
    const char *id = text_display_id(given);
    char *copy = id ? strdup(id) : NULL;

    json_decref(given);
    return copy;
}

/* With wait, the rank's next output does it. */
static void clear_output(struct cell *c, unsigned rank, const struct content *p)
{
    struct cell_tabs *t = c->out.tabs;

    if (cell_panel_content_waits(p->content) && ranks_add(&t->clearing, rank) == 0)
        return;
    clear_tab(c, rank);
    for (size_t k = 0; k < t->places; k++)
        if (t->place[k].cleared && t->place[k].rank == rank)
            make_place_empty(c, "display", k);
}

static void display(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    json_t *content = NULL;

    if (strcmp(type, "display_data") != 0) {
        pass(c, type, p);
        return;
    }
    if (p->content.n <= READ_MAX && !p->n)
        content = text_parse(p->content);
    show_in_tab(c, rank, p, content);
    json_decref(content);
}

/* ---- displays that come faster than the server lets them through ---- */

/* Some room is left for the last display of each rank, and for the last texts. */
static bool display_fits(const struct cell *c, size_t n)
{
    return !c->nb->output_limit || output_limit_fits(c->nb->output_limit, LIMIT_TEXT, n) ||
           (n > LARGE && output_limit_fits(c->nb->output_limit, LIMIT_REST, n));
}

static struct tabs_kept *kept_of(struct cell *c, unsigned rank, const char *type, bool make)
{
    struct cell_tabs *t = c->out.tabs;
    struct tabs_kept *row;

    for (size_t k = 0; k < t->kepts; k++)
        if (t->kept[k].rank == rank && strcmp(t->kept[k].type, type) == 0)
            return &t->kept[k];
    if (!make || !(row = rows_add(&t->kept, &t->kepts, &t->kept_room, sizeof *row)))
        return NULL;
    *row = (struct tabs_kept){ .rank = rank };
    snprintf(row->type, sizeof row->type, "%s", type);
    return row;
}

/* A newer display of the rank has come. */
static void forget(struct cell *c, struct tabs_kept *kept)
{
    if (!kept || !kept->content.n)
        return;
    panel_left_out(c->out.tabs->panel, kept->rank);
    buf_clear(&kept->content);
}

static void keep(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    struct tabs_kept *kept = kept_of(c, rank, type, true);

    forget(c, kept);
    if (!kept || p->n || p->content.n > READ_MAX || buf_add_slice(&kept->content, p->content) < 0)
        panel_left_out(c->out.tabs->panel, rank);
}

static bool is_same(const struct tabs_kept *kept, const struct content *p)
{
    json_t *one = text_parse(buf_slice(&kept->content)), *other = text_parse(p->content);
    const char *a = text_display_id(one), *b = text_display_id(other);
    const bool same = a && b && strcmp(a, b) == 0;

    json_decref(one);
    json_decref(other);
    return same;
}

/* If the display itself is still kept back, the page does not have it yet, so its update is shown
 * as the display. A kept update is dropped when a newer display comes. Returns the type for p. */
static const char *join_kept(struct cell *c, unsigned rank, const char *type,
                             const struct content *p)
{
    static const char *const display = "display_data";
    const bool shows = strcmp(type, display) == 0;
    struct tabs_kept *other = kept_of(c, rank, shows ? "update_display_data" : display, false);

    if (!other || !other->content.n || !is_same(other, p))
        return type;
    forget(c, other);
    return display;
}

static void show_kept(struct cell *c, struct tabs_kept *kept)
{
    struct buf content = kept->content;

    kept->content = (struct buf)BUF_INIT;
    display(c, kept->rank, kept->type, &(struct content){ .content = buf_slice(&content) });
    buf_release(&content);
}

static bool displays_wait(const struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++)
        if (c->out.tabs->kept[k].content.n)
            return true;
    return false;
}

static void show_kept_displays(struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++) {
        struct tabs_kept *kept = &c->out.tabs->kept[k];

        if (kept->content.n && display_fits(c, kept->content.n))
            show_kept(c, kept);
    }
}

/* The last texts follow. */
static void end_kept(struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++) {
        struct tabs_kept *kept = &c->out.tabs->kept[k];

        if (!kept->content.n)
            continue;
        if (output_limit_fits(c->nb->output_limit, LIMIT_REST, kept->content.n + c->out.tabs->size))
            show_kept(c, kept);
        else
            forget(c, kept);
    }
}

static void end_displays(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;

    end_kept(c);
    for (size_t k = 0; k < t->places; k++) {
        if (t->place[k].cleared)
            make_place_empty(c, "display", k);
        if (t->place[k].cleared && !t->place[k].marked)
            make_place_empty(c, "mark", k);
        t->place[k].cleared = false;
    }
}

/* ---- for cell_output.c ---- */

int cell_panel_lines(struct cell *c, unsigned rank, unsigned stream, unsigned flags,
                     struct slice data, struct err *err)
{
    if (!c->out.tabs)
        return 0;
    if (ranks_has(&c->out.tabs->clearing, rank))
        clear_tab(c, rank);
    return panel_lines(c->out.tabs->panel, rank, stream, flags, data, err);
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
    show_states(c);
    if (over)
        end_displays(c);
    if (!t->shown || (panel_changed(t->panel) && (over || texts_fit(c))))
        show_texts(c);
}

void cell_panel_display(struct cell *c, unsigned rank, const char *type, const struct content *p,
                        struct buf *lines)
{
    if (strcmp(type, "clear_output") == 0) {
        clear_output(c, rank, p);
        return;
    }
    if (ranks_has(&c->out.tabs->clearing, rank))
        clear_tab(c, rank);
    if (prints(type, p, lines))
        return;
    if (!c->out.tabs->shown)
        cell_panel_flush(c);
    type = join_kept(c, rank, type, p);
    if (!display_fits(c, p->content.n)) {
        keep(c, rank, type, p);
        return;
    }
    forget(c, kept_of(c, rank, type, false));
    display(c, rank, type, p);
}

void cell_panel_rank_over(struct cell *c, unsigned rank)
{
    struct err err = { "" };

    if (!c->out.tabs)
        return;
    if (panel_rank_over(c->out.tabs->panel, rank, &err) < 0)
        log_error("output", "%s", err.text);
    if (c->out.tabs->shown)
        show_states(c);
}

void cell_panel_tick(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;
    struct err err = { "" };

    if (!t)
        return;
    if (panel_tick(t->panel, &err) < 0)
        log_error("output", "%s", err.text);
    show_kept_displays(c);
    if (!panel_changed(t->panel) || notebook_now(c->nb) < t->due_ns)
        return;
    if (!texts_fit(c))
        return;
    show_states(c);
    show_texts(c);
}

uint64_t cell_panel_due(const struct cell *c)
{
    const struct cell_tabs *t = c->out.tabs;

    if (!t)
        return NEVER;
    return clock_earlier(clock_earlier(panel_due_ns(t->panel),
                                       panel_changed(t->panel) ? t->due_ns : NEVER),
                         displays_wait(c) ? output_limit_due_ns(c->nb->output_limit) : NEVER);
}

void cell_panel_close(struct cell *c)
{
    struct cell_tabs *t = c->out.tabs;

    if (!t)
        return;
    panel_destroy(t->panel);
    for (size_t k = 0; k < t->places; k++)
        free(t->place[k].id);
    for (size_t k = 0; k < t->kepts; k++)
        buf_release(&t->kept[k].content);
    free(t->kept);
    ranks_release(&t->clearing);
    free(t);
    c->out.tabs = NULL;
}
