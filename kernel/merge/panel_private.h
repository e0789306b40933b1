/* SPDX-License-Identifier: BSD-3-Clause */
/* panel_private.h - what the files behind panel.h share, in sections. Tests use it too. Pure. */
#ifndef KERNEL_MERGE_PANEL_PRIVATE_H
#define KERNEL_MERGE_PANEL_PRIVATE_H

#include "kernel/merge/panel.h"

/* ---- ansi.c ---- */
/* Appends text, which may have escape sequences of a terminal, as HTML. Colours become the classes
 * that JupyterLab has for them; other sequences and control characters are left out. */
MUST_USE int ansi_html(struct slice text, struct buf *out);

/* ---- tab_lines.c ---- */
/* The last text of both streams of a tab. Older lines are only counted. */
struct tab_lines {
    struct buf text;      /* where the stream changes, a byte that never occurs in UTF-8 marks it */
    size_t keep;          /* bytes: at most twice as many are in text */
    size_t lines;         /* that were dropped */
    unsigned first, last; /* the streams of the first and of the last byte; 0: it is empty */
};

void tab_lines_release(struct tab_lines *t);
void tab_lines_clear(struct tab_lines *t);
MUST_USE int tab_lines_add(struct tab_lines *t, unsigned stream, struct slice text);
/* Appends the last lines, at most so many bytes as they are written in JSON. *earlier: the number
 * of lines before these. */
MUST_USE int tab_lines_html(const struct tab_lines *t, size_t most, struct buf *out,
                            size_t *earlier);
MUST_USE int tab_lines_plain(const struct tab_lines *t, size_t most, struct buf *out);

/* ---- panel_html.c ---- */

/* What a rank does: a word, and how it is. */
struct panel_does {
    unsigned rank;
    const char *word; /* a literal */
    enum panel_kind kind;
};

/* One tab, as it is written. */
struct panel_view {
    long rank; /* -1: "All" */
    const struct tab_lines *tail;
    struct slice bars;
    const char *word; /* of a rank */
    enum panel_kind kind;
    size_t left_out; /* displays */
    size_t most;     /* bytes of its text in JSON; its bars may take a quarter of that, too */
};

struct panel_views {
    const char *name;
    unsigned count;
    const struct panel_view *tab; /* n of them: first "All", then ranks in their order */
    size_t n;
    const struct panel_does *does; /* by rank of the cell; some ranks may have no tab */
    size_t ranks;
};

MUST_USE int panel_html_bar(const struct panel_views *v, struct buf *out);
MUST_USE int panel_html_texts(const struct panel_views *v, struct buf *out);
MUST_USE int panel_html_plain(const struct panel_views *v, size_t most, struct buf *out);
MUST_USE int panel_html_marker(const char *name, unsigned rank, bool next, struct buf *out);

#endif
