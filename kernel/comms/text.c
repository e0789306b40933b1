/* SPDX-License-Identifier: BSD-3-Clause */
/* What a widget shows, as text, from the copy of its state. */
#include <string.h>

#include "kernel/comms/private.h"

#define DEPTH_MAX   8   /* containers within containers */
#define WIDGETS_MAX 256 /* a widget may be in many containers */
#define TEXT_MAX    (64 << 10)

struct widget_text {
    const struct comm_table *table;
    struct buf *out;
    unsigned widgets; /* so far */
};

static int add_text(struct widget_text *t, const struct page_comm *c, int depth);

/* HTML's names of characters that a text needs; others stay. */
static int add_plain(struct buf *out, const char *text)
{
    static const struct {
        const char *name, *text;
    } names[] = { { "&lt;", "<" }, { "&gt;", ">" }, { "&amp;", "&" } };

    while (*text) {
        size_t n = 1, k = 0;

        while (k < 3 && strncmp(text, names[k].name, strlen(names[k].name)) != 0)
            k++;
        if (k < 3)
            n = strlen(names[k].name);
        else
            n += strcspn(text + 1, "&");
        if (buf_add(out, k < 3 ? names[k].text : text, k < 3 ? 1 : n) < 0)
            return -1;
        text += n;
    }
    return 0;
}

static const struct page_comm *child_of(const struct comm_table *t, const json_t *child)
{
    static const char model[] = "IPY_MODEL_";
    const size_t head = sizeof model - 1;
    const char *id = json_string_value(child);

    return id && strncmp(id, model, head) == 0 ? comms_find(t, slice_text(id + head)) : NULL;
}

static int add_children(struct widget_text *t, const json_t *children, int depth)
{
    struct buf *out = t->out;
    const size_t start = out->n;
    size_t k;
    json_t *child;

    json_array_foreach (children, k, child) {
        const struct page_comm *c;
        const size_t before = out->n;

        if (t->widgets >= WIDGETS_MAX || out->n >= TEXT_MAX)
            break;
        c = child_of(t->table, child);
        /* the text beside a progress bar has its number */
        if (!c || (json_array_size(children) > 1 && json_object_get(c->state.values, "bar_style")))
            continue;
        if ((before > start && buf_add(out, " ", 1) < 0) || add_text(t, c, depth + 1) < 0)
            return -1;
        if (before > start && out->n == before + 1) /* it has no text */
            out->n = before;
    }
    return 0;
}

/* What an Output has captured. */
static int add_captured(const json_t *outputs, struct buf *out)
{
    size_t k;
    json_t *one;

    json_array_foreach (outputs, k, one) {
        const char *text = json_string_value(json_object_get(one, "text"));

        if (text && buf_add_text(out, text) < 0)
            return -1;
    }
    while (out->n && out->p[out->n - 1] == '\n')
        out->n--;
    return 0;
}

static int add_scalar(const json_t *value, struct buf *out)
{
    if (json_is_string(value))
        return add_plain(out, json_string_value(value));
    if (json_is_integer(value))
        return buf_addf(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value))
        return buf_addf(out, "%g", json_real_value(value));
    if (json_is_boolean(value))
        return buf_add_text(out, json_is_true(value) ? "True" : "False");
    return 0;
}

static int add_text(struct widget_text *t, const struct page_comm *c, int depth)
{
    const json_t *values = c->state.values, *children = json_object_get(values, "children");
    const json_t *said = json_object_get(values, "description");
    size_t before;

    if (depth > DEPTH_MAX || t->widgets++ >= WIDGETS_MAX)
        return 0;
    if (json_is_array(children))
        return add_children(t, children, depth);
    if (json_is_array(json_object_get(values, "outputs")))
        return add_captured(json_object_get(values, "outputs"), t->out);
    if (!json_string_length(said))
        return add_scalar(json_object_get(values, "value"), t->out);
    if (add_scalar(said, t->out) < 0 || buf_add(t->out, " ", 1) < 0)
        return -1;
    before = t->out->n;
    if (add_scalar(json_object_get(values, "value"), t->out) < 0)
        return -1;
    if (t->out->n == before) /* it has no value */
        t->out->n--;
    return 0;
}

int comms_text(const struct comm_table *t, const struct page_comm *c, struct buf *out)
{
    struct widget_text all = { .table = t, .out = out };

    return add_text(&all, c, 0);
}
