/* SPDX-License-Identifier: BSD-3-Clause */
/* pace.h - sends stream messages at a rate that clients accept. The first text leaves at once;
 * later text is gathered. A cell sends at most 20 messages a second (stdout and stderr together),
 * each of at most 1 MiB. A longer text is cut at a line's end if there is one, else between two
 * characters. The two streams keep their order, unless they alternate more than 16 times within 100
 * ms. Pure. */
#ifndef KERNEL_MERGE_PACE_H
#define KERNEL_MERGE_PACE_H

#include "base/clock.h"
#include "base/err.h"
#include "base/slice.h"

struct pace;
/* text is valid UTF-8, borrowed */
typedef int (*pace_out_f)(void *arg, unsigned stream, struct slice text);

struct pace *pace_create(const struct clock *clock, pace_out_f out, void *arg, struct err *err);
void pace_destroy(struct pace *p);
/* Adds bytes of a stream (1, 2). They may end within a character, as home's pipes are read: it
 * waits for its rest. An invalid character is replaced. */
MUST_USE int pace_add(struct pace *p, unsigned stream, struct slice bytes, struct err *err);
MUST_USE int pace_tick(struct pace *p, struct err *err); /* call when pace_due_ns() has come */
/* Sends everything now, regardless of the rate: before another kind of message, and at the cell's
 * end. If the rate is used up, it sends at most two messages for each MiB, one for each stream. */
MUST_USE int pace_flush(struct pace *p, struct err *err);
/* Call it after a flush: another cell begins, and the rate starts from zero. */
void pace_begin_cell(struct pace *p);
uint64_t pace_due_ns(const struct pace *p); /* UINT64_MAX: nothing waits */
size_t pace_waiting(const struct pace *p);  /* bytes */

#endif
