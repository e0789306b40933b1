/* ledger.h - which versions of home's variables ranks have, or have newer ones of their own: what
 * changes as cells are sent, run and end. ship.h reads it. Pure. captured is CAPTURED's names, as
 * there. */
#ifndef KERNEL_GROUP_LEDGER_H
#define KERNEL_GROUP_LEDGER_H

#include "kernel/group/ship.h"

/* Ranks that have a value of their own of what home pulled keep it, and are not asked again until
 * home's changes. */
MUST_USE int group_settled(struct group *g, const struct ranks *to, const json_t *captured);
/* These ranks were sent the captured versions of the shipment's names. */
MUST_USE int shipment_sent(struct group *g, const struct shipment *s, const json_t *captured);
/* The cell assigns names on the ranks, of which it is sent none: what stands there then is newer
 * than home's captured versions. Call it when all shipments are sent. */
MUST_USE int group_assigned(struct group *g, const struct ranks *to, const json_t *captured);

/* Its cell has bound these names (with commas). Of those that home was asked about, theirs is newer
 * than home's; those of which home is to be told go to *unknown, with commas. captured may be
 * NULL. */
MUST_USE int rank_bound(struct group *g, struct rank *r, const json_t *captured, struct slice names,
                        struct buf *unknown);
/* Home was asked what travels, and says which versions it had of the names that it was told of:
 * ranks' own are newer. */
MUST_USE int group_newer(struct group *g, const json_t *captured);

/* Of these names those of which a rank in `to` had another version than home's: a rank whose cell
 * fails has to say whether it had assigned them by then (rank_answered()). A new array, or NULL
 * when memory is out. */
json_t *group_doubtful(const struct group *g, const struct ranks *to);

/* Of the names that home has deleted those that it has sent to ranks in `to`, which forget them
 * with this cell: a new array, or NULL when memory is out. */
json_t *group_deleted(struct group *g, const struct ranks *to, const json_t *captured);

#endif
