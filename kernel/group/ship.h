/* ship.h - which of the names that a cell reads which ranks lack. Ranks that lack the same names get one shipment, so
 * that each is packed once. Pure. */
#ifndef KERNEL_GROUP_SHIP_H
#define KERNEL_GROUP_SHIP_H

#include "kernel/group/group.h"

struct shipment {
    char *names;         /* owned: comma-separated, as PACK takes them */
    struct ranks ranks;  /* owned: those that lack exactly these */
};

struct shipments {
    struct shipment *item;
    size_t n;
};

#define SHIPMENTS_INIT { NULL, 0 }

/* captured: CAPTURED's names, {"names": [[name, version, size, why], …], "assigned": [[name, version], …]}; a
 * malformed one is an error. Only ranks in `to`.
 * On failure *out is empty. */
MUST_USE int shipments_plan(const struct group *g, const struct ranks *to, const json_t *captured, struct shipments *out, struct err *err);
void shipments_release(struct shipments *s);

/* These ranks were sent the captured versions of the shipment's names. */
MUST_USE int shipment_sent(struct group *g, const struct shipment *s, const json_t *captured);
/* The cell assigns these names on the ranks: what stands there then is newer than home's captured versions. */
MUST_USE int group_assigned(struct group *g, const struct ranks *to, const json_t *captured);

#endif
