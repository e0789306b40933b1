/* SPDX-License-Identifier: BSD-3-Clause */
/* panel.h - the output of a cell as tabs (--merge panel): "All", as fold shows it, and one for each
 * rank. It is made of two displays. The first one is the bar with the tabs. It is sent only once,
 * because an update replaces the HTML and would reset the chosen tab. The second one has the texts
 * of all tabs, and is updated. CSS shows the text, and the ranks' own displays, of the chosen tab.
 * Pure. */
#ifndef KERNEL_MERGE_PANEL_H
#define KERNEL_MERGE_PANEL_H

#include "base/clock.h"
#include "base/err.h"
#include "base/rank_set.h"

#define PANEL_TABS 128u /* this many ranks have a tab; the others' lines are in "All" */

struct panel;

enum panel_kind { PANEL_GOES_ON, PANEL_WELL, PANEL_BAD };

/* name: begins the names of this panel's CSS classes; no other panel of the notebook has it.
 * count: In [count]. NULL: *err says why. */
struct panel *panel_create(const char *name, unsigned count, const struct ranks *world,
                           const struct clock *clock, struct err *err);
void panel_destroy(struct panel *p); /* NULL is fine */

/* ---- what the tabs show. -1: memory is out ---- */
/* Text of "All", which another merge has folded. */
MUST_USE int panel_all(struct panel *p, unsigned stream, struct slice text);
MUST_USE int panel_bars(struct panel *p, struct slice text); /* The progress bars of "All". */
/* Lines of a rank, as for merge_lines(). */
MUST_USE int panel_lines(struct panel *p, unsigned rank, unsigned stream, unsigned flags,
                         struct slice data, struct err *err);
MUST_USE int panel_rank_over(struct panel *p, unsigned rank, struct err *err);
void panel_clear(struct panel *p, unsigned rank); /* the rank clears its output */
/* word: what the rank does, a literal */
void panel_state(struct panel *p, unsigned rank, const char *word, enum panel_kind kind);
/* a display of the rank is not shown, since there are too many, or they come too fast */
void panel_left_out(struct panel *p, unsigned rank);

MUST_USE int panel_tick(struct panel *p, struct err *err);  /* call it at panel_due_ns() */
MUST_USE int panel_flush(struct panel *p, struct err *err); /* the cell is over */
uint64_t panel_due_ns(const struct panel *p);               /* UINT64_MAX: nothing waits */
bool panel_changed(const struct panel *p);                  /* since the last panel_text() */

/* ---- what it is as text and HTML; appended. -1: memory is out ---- */
MUST_USE int panel_bar(const struct panel *p, struct buf *html);
/* As JSON strings, text and html together have less than 1 MiB. */
MUST_USE int panel_text(struct panel *p, struct buf *text, struct buf *html);
/* The HTML that says whose display it is in. next: whose the display after it is. */
MUST_USE int panel_marker(const struct panel *p, unsigned rank, bool next, struct buf *html);

#endif
