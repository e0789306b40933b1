/* SPDX-License-Identifier: BSD-3-Clause */
/* Each display of a rank is a separate output. A mark says to which tab it belongs. A display with
 * HTML has the mark in its HTML. Other displays, and those that the rank may update, get an extra
 * output with the mark before them. After clear_output, the next display replaces the rank's first
 * one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/cell/cell_panel.h"

#define OUTPUTS_MAX 40u /* JupyterLab hides what comes after 50; some are left for others */
/* bytes: a larger display is not read, but passed on with a mark before it */
#define READ_MAX ((size_t)4 << 20)
#define TEXT_MAX ((size_t)256 << 10) /* bytes; a longer text is an output of its own */
#define LARGE    ((size_t)1 << 20)   /* bytes */

static void id_of(const struct cell *c, const char *what, size_t k, char out[static 128])
{
    snprintf(out, 128, "cellspan-%s-%s-%" PRIu64 "-%zu", what, c->nb->config.run_id, c->id, k);
}

/* The display's own id, or NULL. */
static const char *own_id(const json_t *content)
{
    return json_string_value(json_object_get(json_object_get(content, "transient"), "display_id"));
}

/* Will a page show its text/html? It prefers the form that a plugin knows, such as a widget's. */
static bool shows_html(const json_t *data)
{
    static const char *const below[] = {
        "text/plain", "text/html",  "text/latex", "text/markdown",
        "image/png",  "image/jpeg", "image/gif",  "image/svg+xml"
    };
    const char *type;
    json_t *value;

    if (!json_is_string(json_object_get(data, "text/html")))
        return false;
    json_object_foreach ((json_t *)(uintptr_t)data, type, value) {
        bool known = false;

        for (size_t i = 0; i < sizeof below / sizeof *below; i++)
            known = known || strcmp(type, below[i]) == 0;
        if (!known)
            return false;
    }
    return true;
}

/* Does a page show the HTML in a frame of its own? Our CSS does not reach into it. */
static bool is_isolated(const json_t *content)
{
    const json_t *metadata = json_object_get(content, "metadata");

    return json_is_true(json_object_get(metadata, "isolated")) ||
           json_is_true(json_object_get(json_object_get(metadata, "text/html"), "isolated"));
}

static void pass(struct cell *c, const char *type, const struct content *p)
{
    if (c->nb->page)
        page_count(c->nb->page, p->content.n);
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

static void show_mark(struct cell *c, unsigned rank, size_t place)
{
    struct buf html = BUF_INIT, content = BUF_INIT;
    char id[128], text[24];

    id_of(c, "mark", place, id);
    snprintf(text, sizeof text, "[%u]", rank);
    if (panel_marker(c->out.tabs->panel, rank, true, &html) == 0 &&
        jupyter_display(&content, slice_text(text), buf_slice(&html), id) == 0)
        pass(c, "display_data", &(struct content){ .content = buf_slice(&content) });
    buf_release(&html);
    buf_release(&content);
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
    if (!own_id(content))
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
static void show(struct cell *c, unsigned rank, const struct content *p, json_t *content)
{
    struct cell_tabs *t = c->out.tabs;
    const bool fixed = content && !own_id(content);
    const bool html = fixed && shows_html(json_object_get(content, "data")) &&
                      !is_isolated(content);
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
        .id = content && !fixed ? strdup(own_id(content)) : NULL,
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

    return !own_id(content) && json_object_size(data) == 1 &&
           json_is_string(json_object_get(data, "text/plain"));
}

/* A display that is only text is printed: it is no output of its own. false: it is another one. */
static bool prints(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    struct buf line = BUF_INIT;
    json_t *content = NULL;
    bool text;

    if (strcmp(type, "display_data") == 0 && p->content.n <= TEXT_MAX)
        content = text_parse(p->content);
    if ((text = content && is_text(content))) {
        const struct slice said = text_slice(json_object_get(content, "data"), "text/plain");

        if (buf_add_slice(&line, said) < 0 || buf_add_text(&line, "\n") < 0)
            log_error("output", "a display is lost: out of memory");
        else
            output_rank_text(c, rank, buf_slice(&line));
    }
    json_decref(content);
    buf_release(&line);
    return text;
}

/* An output can't be removed, but it can be empty. */
static void make_empty(struct cell *c, const char *id)
{
    struct buf content = BUF_INIT;

    if (jupyter_display(&content, slice_text(""), slice_of(NULL, 0), id) == 0)
        pass(c, "update_display_data", &(struct content){ .content = buf_slice(&content) });
    buf_release(&content);
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

void panel_displays_clear(struct cell *c, unsigned rank)
{
    struct cell_tabs *t = c->out.tabs;

    ranks_remove(&t->clearing, rank);
    panel_clear(t->panel, rank);
    for (size_t k = 0; k < t->places; k++)
        if (t->place[k].rank == rank)
            clear_place(c, k);
}

/* With wait, the rank's next output does it. */
static void clear(struct cell *c, unsigned rank, const struct content *p)
{
    struct cell_tabs *t = c->out.tabs;
    json_t *content = text_parse(p->content);
    const bool waits = json_is_true(json_object_get(content, "wait"));

    json_decref(content);
    if (waits && ranks_add(&t->clearing, rank) == 0)
        return;
    panel_displays_clear(c, rank);
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
    show(c, rank, p, content);
    json_decref(content);
}

/* ---- displays that come faster than the server lets them through ---- */

/* Some room is left for the last display of each rank, and for the last texts. */
static bool fits(const struct cell *c, size_t n)
{
    return !c->nb->page || page_fits(c->nb->page, PAGE_TEXT, n) ||
           (n > LARGE && page_fits(c->nb->page, PAGE_REST, n));
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
    const char *a = own_id(one), *b = own_id(other);
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

bool panel_displays_wait(const struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++)
        if (c->out.tabs->kept[k].content.n)
            return true;
    return false;
}

void panel_displays_tick(struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++) {
        struct tabs_kept *kept = &c->out.tabs->kept[k];

        if (kept->content.n && fits(c, kept->content.n))
            show_kept(c, kept);
    }
}

void panel_displays_take(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    if (strcmp(type, "clear_output") == 0) {
        clear(c, rank, p);
        return;
    }
    if (ranks_has(&c->out.tabs->clearing, rank))
        panel_displays_clear(c, rank);
    if (prints(c, rank, type, p))
        return;
    if (!c->out.tabs->shown)
        cell_panel_flush(c);
    type = join_kept(c, rank, type, p);
    if (!fits(c, p->content.n)) {
        keep(c, rank, type, p);
        return;
    }
    forget(c, kept_of(c, rank, type, false));
    display(c, rank, type, p);
}

/* The last texts follow. */
static void end_kept(struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->kepts; k++) {
        struct tabs_kept *kept = &c->out.tabs->kept[k];

        if (!kept->content.n)
            continue;
        if (page_fits(c->nb->page, PAGE_REST, kept->content.n + c->out.tabs->size))
            show_kept(c, kept);
        else
            forget(c, kept);
    }
}

void panel_displays_end(struct cell *c)
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

void panel_displays_close(struct cell *c)
{
    for (size_t k = 0; k < c->out.tabs->places; k++)
        free(c->out.tabs->place[k].id);
    c->out.tabs->places = 0;
    for (size_t k = 0; k < c->out.tabs->kepts; k++)
        buf_release(&c->out.tabs->kept[k].content);
    free(c->out.tabs->kept);
    c->out.tabs->kept = NULL;
    c->out.tabs->kepts = 0;
}
