/* room.h - what the files of this room share: the agents' whole state, and who does which part. For
 * this room only.
 *
 *   agents.c   the face: made, destroyed, sending
 *   intake.c   what arrives: HELLO, bundles, strangers
 *   runs.c     engines' runs: started, stopped, failed
 *   nodes.c    what engines say of their nodes, and which are up
 *   losses.c   nodes that are gone, beats, children that ended
 *   moves.c    past TREE_FAN nodes, agents become agents' children
 *
 * Doors: router (sockets), gate (who may connect), wire (addresses), launch and local (processes),
 * lent (blobs of this machine), find. Pure: link (nodes, and what waits for them), fan (from
 * workers to connections), admit, beat, tree, said, credit, cargo and its parts. */
#ifndef KERNEL_AGENTS_ROOM_H
#define KERNEL_AGENTS_ROOM_H

#include "base/loop/loop.h"
#include "kernel/agents/admit.h"
#include "kernel/agents/agents.h"
#include "kernel/agents/beat.h"
#include "kernel/agents/cargo.h"
#include "kernel/agents/credit.h"
#include "kernel/agents/launch.h"
#include "kernel/agents/lent.h"
#include "kernel/agents/fan.h"
#include "kernel/agents/gate.h"
#include "kernel/agents/link.h"
#include "kernel/agents/local.h"
#include "kernel/agents/router.h"
#include "protocol/keys.h"
#include "protocol/span_fields.h"

#define WINDOW (UINT64_C(4) << 20) /* bytes that a worker may have on the way */

/* One run of an engine. */
struct run {
    unsigned number;
    char *name; /* of the engine */
    struct launch *launch;
    struct agents *agents;
    struct secret secret;
    unsigned first, n; /* its nodes; n 0: not said yet */
    unsigned missing;  /* of them, those that are neither up nor lost */
    /* until when its nodes must be up; UINT64_MAX: they are, or it waits in a queue */
    uint64_t deadline_ns;
    bool stopped; /* nobody wants to hear of it any more */
    bool over;    /* its process has ended */
};

struct agents {
    struct loop *loop;
    struct agents_handler handler;
    void *zmq;
    struct router *here; /* on ipc, for this machine's agent */
    struct router *wire; /* on tcp, for all others; NULL until there is a first run */
    struct gate *gate;
    struct admit admit;
    struct keys keys;     /* of the wire */
    struct buf endpoints; /* where agents dial */
    char *endpoint, *python, name[256];
    struct local local;
    struct lent lent; /* by that machine's agent */
    bool blobs_stop;  /* a message about a blob could not be made */
    struct links links;
    struct run **run; /* by number, from 1 at 0; NULL: it is gone */
    size_t runs;
    struct fan fan;
    struct cargo *cargo;
    struct credit credit;
    bool held;
    struct beat beat;
    uint64_t start_ns; /* how long nodes may take to come up */
    unsigned *list;    /* node numbers, with room for all: of whoever needs it for a moment */
    size_t list_room;
    struct watch *child, *sweep, *look;
    int sweeps; /* that are still to come after a lost agent */
};

/* ---- agents.c ---- */

uint64_t agents_now(const struct agents *a);
/* To one node's agent; what goes wrong is logged. */
void agents_tell(struct agents *a, const struct link *l, const struct span *m);
/* To be called after cargo was: gives what is due of what was lent. false: a message about a blob
 * could not be made since the last call, and nobody waits for a blob any more. */
bool agents_blobs_go_on(struct agents *a);
/* What has waited for the node leaves. */
void agents_flush(struct link *l);
/* a->list with room for every node. NULL: memory is out. */
unsigned *agents_list(struct agents *a);

/* ---- intake.c ---- */

void intake_arrived(void *agents, const struct arrival *arrival);
void intake_refused(void *agents, struct router *r, const char *why);

/* ---- nodes.c ---- */

void nodes_said(void *run, struct launch *l, const struct said *said);
/* Whose user id it is; NULL: of none that this kernel asked for. */
struct link *nodes_link(const struct agents *a, const char *user);
void nodes_up(struct agents *a, struct link *l);   /* it has said HELLO */
void nodes_lost(struct agents *a, struct link *l); /* it is gone */

/* ---- runs.c ---- */

MUST_USE int runs_init(struct agents *a, struct err *err);
void runs_release(struct agents *a);
struct run *runs_get(const struct agents *a, unsigned number); /* NULL: there is none any more */
/* the time in which its nodes must come up begins now, or there is none to wait for */
void run_clock(struct run *run);
void run_tell(struct run *run, enum engine_event event, const char *text);
void run_fail(struct run *run, const char *why); /* before its nodes were up */
/* A child has ended: was it an engine? */
bool runs_child(struct agents *a, pid_t pid, int status);
/* Nodes that are not up in time. */
void runs_look(struct agents *a, uint64_t now);
/* The ends of all stdins, or a signal to all engines. How many still run. */
size_t runs_end(struct agents *a, int signo);

/* ---- moves.c ---- */

/* The node is up: it goes to its parent when that is there, and its own children come to it. */
void moves_up(struct agents *a, struct link *l);
/* OPENED and DIALED for that. false: not for us. */
bool moves_message(struct agents *a, struct link *from, const struct span *m);
/* The node is about to be lost: if it was on its way, its parent expects it no longer. */
void moves_end(struct agents *a, const struct link *l);
/* The parent is gone: who was about to go there stays. */
void moves_lost(struct agents *a, const struct link *l);

/* ---- losses.c ---- */

MUST_USE int losses_watch(struct agents *a, struct err *err);
void losses_unwatch(struct agents *a);
/* The node is gone, and all that is reached by way of it; the handler is told. */
void losses_node(struct agents *a, struct link *l, const char *why);
/* The same without a word to the handler. */
void losses_quiet(struct agents *a, struct link *l);
void losses_parted(void *agents, struct router *r, int fd);
/* In so many ns it is lost, unless its engine says first why. */
void losses_doom(struct agents *a, struct link *l);

#endif
