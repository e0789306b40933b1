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

struct output_limit;

/* server: the process id of Jupyter's server. NULL: memory is out */
struct output_limit *output_limit_create(const struct clock *clock, long server);
long output_limit_server(const struct output_limit *l);
void output_limit_destroy(struct output_limit *l); /* NULL is fine */

/* What part of the server's limit to use. Text may use only LIMIT_TEXT; the rest is kept for what
 * must follow, such as the line about lines left out. */
enum output_limit_for { LIMIT_TEXT, LIMIT_REST };

bool output_limit_fits(const struct output_limit *l, enum output_limit_for what, size_t bytes);
void output_limit_count(struct output_limit *l, size_t bytes); /* a message of that size is sent */
/* The same for a comm message: the server counts it, but not its bytes. */
bool output_limit_fits_comm(const struct output_limit *l);
void output_limit_count_comm(struct output_limit *l);
/* the cell is over: at its idle message the server, too, starts from zero; NULL is fine */
void output_limit_reset(struct output_limit *l);
/* when there will be more room; now if there is nothing to wait for */
uint64_t output_limit_due_ns(const struct output_limit *l);
size_t output_limit_size(struct slice text); /* The size of the text in JSON, in bytes. */

struct omit;

struct omit_out {
    int (*text)(void *arg, unsigned stream, struct slice text);
    /* So many lines and displays are left out at this point of the page. */
    int (*note)(void *arg, size_t lines, size_t displays);
    void *arg;
};

/* NULL: memory is out */
struct omit *omit_create(const struct clock *clock, struct output_limit *limit,
                         struct omit_out out);
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

/* ---- C++ frames that torch logs when the kernel cuts its connections ---- */

/* What the last line of a rank's stderr was. */
enum omit_frames {
    OMIT_FRAMES_NONE,
    OMIT_FRAMES_MAY_FOLLOW, /* a line of torch.distributed's log */
    OMIT_FRAMES_FOLLOW,     /* the head of frames, or a frame */
};

/* A rank's text on stderr, of whole lines, without such frames. *kept: empty, holds the result if
 * it is another one. */
struct slice omit_frames(enum omit_frames *last, struct slice text, struct buf *kept);

#endif
