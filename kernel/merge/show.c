/* SPDX-License-Identifier: BSD-3-Clause */
/* show.c - adds labels to lines, gathers the text that is shown into few blocks, and passes on the
 * text of a rank that is shown alone (declared in private.h). */
#include "kernel/merge/private.h"

#include <stdlib.h>

#define BLOCK_MAX 262144u /* gathered text of about this many bytes is passed on */

int show_init(struct show *s, struct merge_out out, bool labelled, unsigned words)
{
    *s = (struct show){
        .out = out, .labelled = labelled, .labels = { .words = words }, .stream = 1
    };
    for (unsigned k = 0; k < 2; k++)
        if (!(s->open[k].who = calloc(words + 1, sizeof(uint64_t)))) {
            show_release(s);
            return -1;
        }
    return 0;
}

void show_release(struct show *s)
{
    labels_release(&s->labels);
    buf_release(&s->text);
    free(s->open[0].who);
    free(s->open[1].who);
    s->open[0].who = s->open[1].who = NULL;
}

int show_out(struct show *s)
{
    int rc;

    if (!s->text.n)
        return 0;
    rc = s->out.text(s->out.arg, s->stream, buf_slice(&s->text));
    s->refused = rc < 0;
    if (s->text.cap > 2 * BLOCK_MAX)
        buf_release(&s->text);
    buf_clear(&s->text);
    return rc;
}

static bool same(const struct show *s, const uint64_t *a, const uint64_t *b)
{
    return memcmp(a, b, s->labels.words * sizeof *a) == 0;
}

/* Continues the unfinished line on the screen; or ends it and starts a new line with its label. */
static int line_start(struct show *s, struct show_open *open, const uint64_t *who, unsigned flags)
{
    if (open->on && flags & LINE_CONT && same(s, open->who, who))
        return 0;
    if (open->on && buf_add_text(&s->text, "\n") < 0)
        return -1;
    open->on = false;
    open->n = 0;
    return s->labelled ? labels_add(&s->labels, who, &s->text) : 0;
}

/* Each row of a frame has its label. */
static int show_rows(struct show *s, struct show_open *open, const uint64_t *who, struct slice text)
{
    const char *newline;

    do {
        newline = memchr(text.p, '\n', text.n);
        const size_t n = newline ? (size_t)(newline - text.p) : text.n;

        if (line_start(s, open, who, 0) < 0 || buf_add(&s->text, text.p, n) < 0 ||
            buf_add_text(&s->text, "\n") < 0)
            return -1;
        text = slice_of(text.p + n + (newline != NULL), text.n - n - (newline != NULL));
    } while (newline);
    return 0;
}

int show_line(struct show *s, unsigned stream, const uint64_t *who, struct slice text,
              unsigned flags, uint64_t now)
{
    struct show_open *open = &s->open[stream - 1];

    if (s->text.n && (s->stream != stream || s->text.n >= BLOCK_MAX) && show_out(s) < 0)
        return -1;
    s->stream = stream;
    if (flags & LINE_BARE)
        return buf_add_slice(&s->text, text);
    if (flags & LINE_FRAME)
        return show_rows(s, open, who, text);
    if (flags == LINE_CONT && !text.n && !(open->on && same(s, open->who, who)))
        return 0; /* another rank's line has already ended this one: don't add an empty line */
    if (line_start(s, open, who, flags) < 0 || buf_add_slice(&s->text, text) < 0)
        return -1;
    open->on = flags & LINE_OPEN;
    if (!open->on)
        return buf_add_text(&s->text, "\n");
    memcpy(open->who, who, s->labels.words * sizeof *who);
    open->n += text.n;
    open->last_ns = now;
    return 0;
}

static bool alone(const struct show *s, const struct show_open *open)
{
    const struct ranks who = { open->who, s->labels.words };

    return ranks_count(&who) == 1;
}

bool show_is_open(const struct show *s, unsigned stream, unsigned rank)
{
    const struct show_open *open = &s->open[stream - 1];

    return open->on && open->who[rank / 64] >> rank % 64 & 1u && alone(s, open);
}

uint64_t show_held_ns(const struct show *s, unsigned stream)
{
    const struct show_open *open = &s->open[stream - 1];

    return open->on && open->n >= SHOW_LONG && alone(s, open) ? open->last_ns + SHOW_LONG_NS : 0;
}

void show_rank_over(struct show *s, unsigned stream, unsigned rank)
{
    if (show_is_open(s, stream, rank))
        s->open[stream - 1].n = 0;
}

/* ---- the text of a rank that is shown alone ---- */

static int text_out(struct show *show, unsigned stream, struct slice text)
{
    const int rc = text.n ? show->out.text(show->out.arg, stream, text) : 0;

    show->refused = rc < 0;
    return rc;
}

int passthrough_lines(struct passthrough *p, struct show *show, unsigned stream, struct slice data,
                      struct buf *room)
{
    struct slice text;

    if (utf8_stream_pass(&p->utf8[stream - 1], data, room, &text) < 0)
        return -1;
    return text_out(show, stream, text);
}

int passthrough_end(struct passthrough *p, struct show *show, struct buf *room)
{
    for (unsigned k = 0; k < 2; k++) {
        buf_clear(room);
        if (utf8_stream_end(&p->utf8[k], room) < 0 || text_out(show, k + 1, buf_slice(room)) < 0)
            return -1;
    }
    return 0;
}
