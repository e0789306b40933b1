/* ledger.h - records which versions of home's variables ranks have, and where their own values are
 * newer, as cells are sent, run and end. vars_bundle.h reads these records. Pure. captured: `names`
 * of CAPTURED, see vars_bundle.h. */
#ifndef KERNEL_GROUP_LEDGER_H
#define KERNEL_GROUP_LEDGER_H

#include "kernel/group/vars_bundle.h"

/* For names that home pulled from a rank: ranks with a value of their own keep it, and are not
 * asked about it again until home's value changes. */
MUST_USE int group_settled(struct group *g, const struct ranks *to, const json_t *captured);
/* These ranks were sent the captured versions of the vars_bundle's names. */
MUST_USE int ledger_bundle_sent(struct group *g, const struct vars_bundle *s,
                                const json_t *captured);
/* Records the names that the cell assigns on the ranks and that are not sent: the ranks' values
 * will be newer than home's captured versions. Call it when all vars_bundles are sent. */
MUST_USE int group_assigned(struct group *g, const struct ranks *to, const json_t *captured);

/* The rank's cell has bound these names (comma-separated). For names in `captured` the rank's value
 * is newer than home's. Appends to *unknown (comma-separated) the names that home must be told of
 * by NEWER. captured may be NULL. */
MUST_USE int rank_bound(struct group *g, struct rank *r, const json_t *captured, struct slice names,
                        struct buf *unknown);
/* CAPTURED says which versions home had of the names of NEWER: the ranks' values are newer. */
MUST_USE int group_newer(struct group *g, const json_t *captured);

/* The names that the cell assigns and of which a rank in `to` did not have home's version. A rank
 * whose cell fails must say which of them it had assigned by then (rank_answered()). A new array,
 * or NULL if memory is out. */
json_t *group_doubtful(const struct group *g, const struct ranks *to);

/* The names that home has deleted and that it had sent to ranks in `to`; these ranks delete them
 * with this cell. A new array, or NULL if memory is out. */
json_t *group_deleted(struct group *g, const struct ranks *to, const json_t *captured);

#endif
