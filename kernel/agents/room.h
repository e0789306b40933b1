/* room.h - what the files of this room share: the agents' whole state, and who does which part. For
 * this room only.
 *
 *   agents.c                 the interface: create, destroy, send
 *   from_agents.c            what arrives: HELLO, bundles, messages of unknown senders
 *   node_failures.c          nodes that are gone, heartbeats, children that ended
 *   reparent.c               past TREE_FAN nodes, agents become agents' children
 *   engines/engine_run.c     engines: started, stopped, failed
 *   engines/engine_nodes.c   what engines say of their nodes, and which are up
 *
 * With sockets: router, agents_zap (who may connect), listen (addresses). Pure: node_link (nodes,
 * and what waits for them), fan (from workers to connections), allowed_keys, beat, tree, credit. */
#ifndef KERNEL_AGENTS_ROOM_H
#define KERNEL_AGENTS_ROOM_H

#include "base/loop/loop.h"
#include "kernel/agents/allowed_keys.h"
#include "kernel/agents/agents.h"
#include "kernel/agents/beat.h"
#include "kernel/blobs/blob_schedule.h"
#include "kernel/agents/credit.h"
#include "kernel/engines/engine_process.h"
#include "kernel/blobs/local_blobs.h"
#include "kernel/agents/fan.h"
#include "kernel/agents/agents_zap.h"
#include "kernel/agents/node_link.h"
#include "kernel/engines/local_agent.h"
#include "kernel/agents/router.h"
#include "protocol/keys.h"
#include "protocol/span_fields.h"

#define WINDOW (UINT64_C(4) << 20) /* bytes that a worker may have on the way */

/* One run of an engine. */
struct engine_run {
    unsigned number;
    char *name; /* of the engine */
    struct engine_process *process;
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
    struct agents_zap *zap;
    struct allowed_keys allowed;
    struct keys keys;     /* of the wire */
    struct buf endpoints; /* where agents dial */
    char *endpoint, *python, name[256];
    struct local_agent local;
    struct local_blobs local_blobs; /* by that machine's agent */
    bool blobs_stop;                /* a message about a blob could not be made */
    struct node_table nodes;
    struct engine_run **run; /* by number, from 1 at 0; NULL: it is gone */
    size_t runs;
    struct fan fan;
    struct blob_schedule *blobs;
    struct credit_table credit;
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
void agents_tell(struct agents *a, const struct node *l, const struct span *m);
/* Call it after each call of a blob_schedule function: sends the chunks of local blobs that are
 * due. false: a message about a blob
 * could not be made since the last call, and nobody waits for a blob any more. */
bool agents_blobs_go_on(struct agents *a);
/* What has waited for the node leaves. */
void agents_flush(struct node *l);
/* a->list with room for every node. NULL: memory is out. */
unsigned *agents_list(struct agents *a);

/* ---- from_agents.c ---- */

void from_agents_received(void *agents, const struct router_message *arrival);
void from_agents_refused(void *agents, struct router *r, const char *why);

/* ---- engine_nodes.c ---- */

void engine_nodes_said(void *run, struct engine_process *l, const struct engine_line *said);
/* Whose user id it is; NULL: of none that this kernel asked for. */
struct node *engine_nodes_find(const struct agents *a, const char *user);
void engine_nodes_up(struct agents *a, struct node *l);   /* it has said HELLO */
void engine_nodes_lost(struct agents *a, struct node *l); /* it is gone */

/* ---- engine_run.c ---- */

MUST_USE int engine_runs_init(struct agents *a, struct err *err);
void engine_runs_release(struct agents *a);
struct engine_run *engine_run_get(const struct agents *a,
                                  unsigned number); /* NULL: there is none any more */
/* the time in which its nodes must come up begins now, or there is none to wait for */
void engine_run_clock(struct engine_run *run);
void engine_run_tell(struct engine_run *run, enum engine_event event, const char *text);
void engine_run_fail(struct engine_run *run, const char *why); /* before its nodes were up */
/* A child has ended: was it an engine? */
bool engine_runs_child(struct agents *a, pid_t pid, int status);
/* Nodes that are not up in time. */
void engine_runs_look(struct agents *a, uint64_t now);
/* The ends of all stdins, or a signal to all engines. How many still run. */
size_t engine_runs_end(struct agents *a, int signo);

/* ---- reparent.c ---- */

/* The node is up: it goes to its parent when that is there, and its own children come to it. */
void reparent_up(struct agents *a, struct node *l);
/* OPENED and DIALED for that. false: not for us. */
bool reparent_message(struct agents *a, struct node *from, const struct span *m);
/* The node is about to be lost: if it was on its way, its parent expects it no longer. */
void reparent_cancel(struct agents *a, const struct node *l);
/* The parent is gone: who was about to go there stays. */
void reparent_parent_lost(struct agents *a, const struct node *l);

/* ---- node_failures.c ---- */

MUST_USE int node_failures_watch(struct agents *a, struct err *err);
void node_failures_unwatch(struct agents *a);
/* The node is gone, and all that is reached by way of it; the handler is told. */
void node_failures_lose(struct agents *a, struct node *l, const char *why);
/* The same without a word to the handler. */
void node_failures_lose_quietly(struct agents *a, struct node *l);
void node_failures_disconnected(void *agents, struct router *r, int fd);
/* In so many ns it is lost, unless its engine says first why. */
void node_failures_expect(struct agents *a, struct node *l);

#endif
