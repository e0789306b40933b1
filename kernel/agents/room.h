/* room.h - what the files of this room share: the agents' whole state, and who does which part. For this room only.
 *
 *   agents.c  the face: made, destroyed, sending            intake.c  what arrives: HELLO, bundles, strangers
 *   local.c   this machine's agent as a child               losses.c  nodes that are gone, beats, children that ended */
#ifndef KERNEL_AGENTS_ROOM_H
#define KERNEL_AGENTS_ROOM_H

#include "base/loop/loop.h"
#include "kernel/agents/agents.h"
#include "kernel/agents/beat.h"
#include "kernel/agents/credit.h"
#include "kernel/agents/fan.h"
#include "kernel/agents/link.h"
#include "kernel/agents/local.h"
#include "kernel/agents/router.h"
#include "protocol/span_fields.h"

#define WINDOW (UINT64_C(4) << 20) /* bytes that a worker may have on the way */

struct agents {
    struct loop *loop;
    struct agents_handler handler;
    void *zmq;
    struct router *here; /* on ipc, for this machine's agent */
    char *endpoint, *python, name[256];
    struct local local;
    struct links links;
    struct fan fan;
    struct credit credit;
    bool held;
    struct beat beat;
    struct watch *child, *sweep, *look;
    int sweeps; /* that are still to come after a lost agent */
};

/* ---- agents.c ---- */

uint64_t agents_now(const struct agents *a);
/* To one node's agent. */
MUST_USE int agents_tell(struct agents *a, struct link *l, const struct span *m, struct err *err);
/* What has waited for the node leaves. */
void agents_flush(struct link *l);

/* ---- intake.c ---- */

void intake_arrived(void *agents, const struct arrival *arrival);
void intake_refused(void *agents, struct router *r, const char *why);

/* ---- losses.c ---- */

MUST_USE int losses_watch(struct agents *a, struct err *err);
void losses_unwatch(struct agents *a);
/* The node is gone, and all that is reached by way of it; the handler is told. */
void losses_node(struct agents *a, struct link *l, const char *why);
void losses_parted(void *agents, struct router *r, int fd);

#endif
