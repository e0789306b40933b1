/* pace.h - stream messages leave at a rate that clients accept: the first at once, then gathered;
 * no more than 20 in any second for one cell (stdout and stderr together), none over 1 MiB, cut at
 * UTF-8 characters and, where there is one, at a line's end. The two streams keep their order,
 * unless they alternate more often than six times between two messages. Pure. */
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
/* Adds bytes of a stream (1, 2). Characters may be cut between calls (home's pipes are read as they
 * come): an incomplete one waits for its rest, an invalid one is replaced. */
MUST_USE int pace_add(struct pace *p, unsigned stream, struct slice bytes, struct err *err);
MUST_USE int pace_tick(struct pace *p, struct err *err); /* call when pace_due_ns() has come */
/* Everything now, whatever the rate: before another kind of message, and at the cell's end. Where
 * the rate is used up, it is two messages at the most for each MiB, one for each stream. */
MUST_USE int pace_flush(struct pace *p, struct err *err);
/* After a flush: what follows is another cell's, and the rate counts for it alone. */
void pace_begin_cell(struct pace *p);
uint64_t pace_due_ns(const struct pace *p); /* UINT64_MAX: nothing waits */
size_t pace_waiting(const struct pace *p);  /* bytes */

#endif
