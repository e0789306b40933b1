/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_lines.c - reads the lines that an engine writes: nodes, failures and messages; and the end
 * of its stderr for errors (declared in private.h). */
#include "kernel/engines/private.h"

#include <string.h>

#include "base/utf8.h"

/* an engine's own words, and LOG_LINES of cellspan/_launch/launcher.py */
#define ERROR_LINES 48u

/* ---- a line ---- */

static struct slice skip_blanks(struct slice s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s;
}

/* Cuts a word off the line. */
static struct slice word(struct slice *line)
{
    size_t n = 0;
    struct slice w;

    *line = skip_blanks(*line);
    while (n < line->n && line->p[n] != ' ' && line->p[n] != '\t')
        n++;
    w = slice_of(line->p, n);
    *line = skip_blanks(slice_of(line->p + n, line->n - n));
    return w;
}

static bool number(struct slice w, unsigned most, unsigned *out)
{
    unsigned v = 0;

    if (w.n == 0 || w.n > 9)
        return false;
    for (size_t i = 0; i < w.n; i++) {
        if (w.p[i] < '0' || w.p[i] > '9')
            return false;
        v = 10 * v + (unsigned)(w.p[i] - '0');
    }
    *out = v;
    return v <= most;
}

/* Each at most once, in any order. */
static bool words_of_nodes(struct slice line, struct engine_line *s)
{
    while (line.n) {
        const struct slice w = word(&line);
        bool *said = slice_is(w, "ranks")      ? &s->by_ranks
                     : slice_is(w, "together") ? &s->together
                                               : NULL;

        if (!said || *said)
            return false;
        *said = true;
    }
    return true;
}

struct engine_line engine_line_parse(struct slice line)
{
    const struct engine_line nonsense = { .kind = ENGINE_LINE_NONSENSE };
    const struct slice verb = word(&line);
    struct engine_line s = nonsense;

    if (!utf8_is_valid(line))
        return nonsense;
    if (slice_is(verb, "say")) {
        s = (struct engine_line){ .kind = ENGINE_LINE_SAY, .text = line };
    } else if (slice_is(verb, "contract")) {
        s.kind = ENGINE_LINE_CONTRACT;
        if (!number(word(&line), ENGINE_CONTRACT, &s.n) || s.n == 0 || line.n)
            return nonsense;
    } else if (slice_is(verb, "nodes")) {
        s.kind = ENGINE_LINE_NODES;
        if (!number(word(&line), ENGINE_NODES_MAX, &s.n) || s.n == 0)
            return nonsense;
        if (!words_of_nodes(line, &s))
            return nonsense;
    } else if (slice_is(verb, "node")) {
        s.kind = ENGINE_LINE_NODE;
        if (!number(word(&line), ENGINE_NODES_MAX, &s.n) || (s.text = word(&line)).n == 0)
            return nonsense;
        if (line.n && (!number(word(&line), ENGINE_NODES_MAX, &s.slots) || line.n))
            return nonsense;
        if (slice_is(s.text, "again") && !s.slots)
            s.kind = ENGINE_LINE_AGAIN;
    } else if (slice_is(verb, "failed") || slice_is(verb, "gone")) {
        s.kind = slice_is(verb, "gone") ? ENGINE_LINE_GONE : ENGINE_LINE_FAILED;
        if (!number(word(&line), ENGINE_NODES_MAX, &s.n))
            return nonsense;
        s.text = line;
    } else if (slice_is(verb, "away")) {
        s.kind = ENGINE_LINE_AWAY;
        if (!number(word(&line), ENGINE_NODES_MAX, &s.n) || line.n)
            return nonsense;
    } else if (slice_is(verb, "end")) {
        s.kind = ENGINE_LINE_END;
        if (!number(word(&line), ENGINE_END_MAX, &s.n) || s.n == 0 || line.n)
            return nonsense;
    } else if (slice_is(verb, "notice")) {
        s.kind = ENGINE_LINE_NOTICE;
        if (!number(word(&line), ENGINE_NODES_MAX, &s.n) ||
            !number(word(&line), ENGINE_LEFT_MAX, &s.seconds))
            return nonsense;
        s.text = line;
    } else if (slice_is(verb, "ends")) {
        s.kind = ENGINE_LINE_ENDS;
        if (!number(word(&line), ENGINE_LEFT_MAX, &s.seconds) || line.n)
            return nonsense;
    }
    return s;
}

/* ---- the end of stderr ---- */

int engine_errors(const struct tail *errors, struct buf *out)
{
    const size_t start = out->n;

    if (tail_text(errors, ERROR_LINES, out) < 0)
        return -1;
    for (size_t i = start; i < out->n; i++)
        if ((unsigned char)out->p[i] < ' ' && out->p[i] != '\n' && out->p[i] != '\t')
            out->p[i] = ' ';
    while (out->n > start && strchr(" \n\t", out->p[out->n - 1]))
        out->p[--out->n] = '\0';
    return 0;
}
