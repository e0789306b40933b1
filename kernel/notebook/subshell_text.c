/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows the output of subshells' cells. Each subshell has an output limit and a rate of its own. */
#include <string.h>

#include "base/log.h"
#include "kernel/notebook/notebook.h"

static int show(void *arg, unsigned stream, struct slice text)
{
    const struct subshell *s = arg;

    publish_stream(s->nb, s->parent, stream, text);
    return 0;
}

static int passes(void *arg, unsigned stream, struct slice text)
{
    struct err err = { "" };

    return pace_add(((struct subshell *)arg)->pace, stream, text, &err);
}

static int left_out(void *arg, size_t lines, size_t displays)
{
    struct subshell *s = arg;
    struct buf note = BUF_INIT;
    int rc = text_left_out(&note, lines, displays, s->count);

    if (rc == 0)
        rc = passes(s, 2, buf_slice(&note));
    buf_release(&note);
    return rc;
}

int subshell_text_begin(struct subshell *s, struct request *r, unsigned count)
{
    const struct clock *clock = s->nb->ops.clock;
    const struct omit_out out = { .text = passes, .note = left_out, .arg = s };
    struct err err = { "" };

    if (!s->pace && !(s->pace = pace_create(clock, show, s, &err)))
        return -1;
    if (s->nb->output_limit && !s->omit &&
        !(s->omit = omit_create(clock, s->nb->output_limit, out)))
        return -1;
    pace_begin_cell(s->pace);
    request_unref(s->parent);
    s->parent = request_ref(r);
    s->count = count;
    return 0;
}

static void lost(int rc)
{
    if (rc < 0)
        log_error("subshell", "out of memory: text is lost");
}

static void add_text(struct subshell *s, const struct content *p)
{
    json_t *content = text_parse(p->content);
    const unsigned stream = strcmp(text_field(content, "name"), "stderr") == 0 ? 2 : 1;
    const struct slice text = text_slice(content, "text");

    lost(s->omit ? omit_text(s->omit, stream, text) : passes(s, stream, text));
    json_decref(content);
}

void subshell_text_flush_pace(struct subshell *s)
{
    struct err err = { "" };

    lost(pace_flush(s->pace, &err));
}

void subshell_text_publish(struct subshell *s, const struct published *p)
{
    if (strcmp(p->type, "stream") == 0) {
        add_text(s, &p->content);
        return;
    }
    if (s->omit && strstr(p->type, "display_data") && !omit_display(s->omit, p->content.content.n))
        return;
    subshell_text_flush(s);
    publish_content(s->nb, s->parent, p->type, &p->content);
}

void subshell_text_flush(struct subshell *s)
{
    if (s->omit)
        lost(omit_flush(s->omit));
    if (s->pace)
        subshell_text_flush_pace(s);
}

void subshell_text_tick(struct subshell *s)
{
    struct err err = { "" };

    if (s->omit)
        lost(omit_tick(s->omit));
    if (s->pace)
        lost(pace_tick(s->pace, &err));
}

uint64_t subshell_text_due(const struct subshell *s)
{
    return clock_earlier(s->pace ? pace_due_ns(s->pace) : NEVER,
                         s->omit ? omit_due_ns(s->omit) : NEVER);
}

size_t subshell_text_waiting(const struct subshell *s)
{
    return s->pace ? pace_waiting(s->pace) : 0;
}

void subshell_text_release(struct subshell *s)
{
    omit_destroy(s->omit);
    pace_destroy(s->pace);
    request_unref(s->parent);
    s->parent = NULL;
    s->omit = NULL;
    s->pace = NULL;
}
