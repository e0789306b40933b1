/* SPDX-License-Identifier: BSD-3-Clause */
/* omit.h - limits the text of one cell to what a page accepts (output_limit.c). If more comes, the
 * middle is left out and the last lines are shown. The program that prints is not slowed down.
 * Pure. */
#ifndef KERNEL_MERGE_OMIT_H
#define KERNEL_MERGE_OMIT_H

#include "base/buf.h"
#include "base/clock.h"

/* ---- output_limit.c ---- */
/* Counts how much of streams and displays was sent lately. Jupyter's server drops what exceeds
 * 3,000,000 bytes or 3,000 messages in any three seconds. All cells of a notebook share one
 * counter. Pure. */

struct page;

/* server: the process id of Jupyter's server. NULL: memory is out */
struct page *page_create(const struct clock *clock, long server);
long page_server(const struct page *p);
void page_destroy(struct page *p); /* NULL is fine */

/* What part of the server's limit to use. Text may use only PAGE_TEXT; the rest is kept for what
 * must follow, such as the line about lines left out. */
enum page_for { PAGE_TEXT, PAGE_REST };

bool page_fits(const struct page *p, enum page_for what, size_t bytes);
void page_count(struct page *p, size_t bytes); /* a message of that size is sent */
/* The same for a comm message: the server counts it, but not its bytes. */
bool page_fits_comm(const struct page *p);
void page_count_comm(struct page *p);
/* the cell is over: at its idle message the server, too, starts from zero; NULL is fine */
void page_reset(struct page *p);
/* when there will be more room; now if there is nothing to wait for */
uint64_t page_due_ns(const struct page *p);
size_t page_size(struct slice text); /* The size of the text in JSON, in bytes. */

struct omit;

struct omit_out {
    int (*text)(void *arg, unsigned stream, struct slice text);
    /* So many lines and displays are left out at this point of the page. */
    int (*note)(void *arg, size_t lines, size_t displays);
    void *arg;
};

/* NULL: memory is out */
struct omit *omit_create(const struct clock *clock, struct page *page, struct omit_out out);
void omit_destroy(struct omit *o); /* NULL is fine */

/* stream: 1 or 2. -1: memory is out, or out refused. */
MUST_USE int omit_text(struct omit *o, unsigned stream, struct slice text);
/* true: a display of that size may be shown now; all earlier text has been shown. false: it counts
 * as left out. */
bool omit_display(struct omit *o, size_t bytes);
/* Shows the last lines if text is left out for long, or if nothing more came for a while. Call it
 * at omit_due_ns(). */
MUST_USE int omit_tick(struct omit *o);
MUST_USE int omit_flush(struct omit *o);    /* the cell is over: shows the last lines now */
uint64_t omit_due_ns(const struct omit *o); /* UINT64_MAX: nothing is left out */

#endif
