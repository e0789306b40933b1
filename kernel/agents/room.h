/* room.h - what the files of this room share: the agents' whole state, and who does which part. For
 * this room only.
 *
 *   agents.c                 the interface: create, destroy, send
 *   from_agents.c            what arrives: HELLO, bundles, messages of unknown senders
 *   node_failures.c          nodes that are gone, heartbeats, children that ended
 *   engines/engine_run.c     engines: started, stopped, failed
 *   engines/engine_nodes.c   what engines say of their nodes, and which are up
 *
 * The others don't know this header. */
#ifndef KERNEL_AGENTS_ROOM_H
#define KERNEL_AGENTS_ROOM_H

#include "base/loop/loop.h"
#include "kernel/agents/allowed_keys.h"
#include "kernel/agents/agents.h"
#include "kernel/agents/agents_blobs.h"
#include "kernel/agents/beat.h"
#include "kernel/agents/credit.h"
#include "kernel/engines/engine_process.h"
#include "kernel/agents/agents_zap.h"
#include "kernel/agents/node_table.h"
#include "kernel/engines/local_agent.h"
#include "kernel/agents/reparent.h"
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
    struct node_table nodes;
    struct engine_run **run; /* by number, from 1 at 0; NULL: it is gone */
    size_t runs;
    struct to_agents out;
    struct agents_blobs blobs;
    struct credit_table credit;
    bool held;
    struct beat beat;
    uint64_t start_ns; /* how long nodes may take to come up */
    struct watch *child, *sweep, *look;
    int sweeps; /* that are still to come after a lost agent */
};

/* ---- agents.c ---- */

uint64_t agents_now(const struct agents *a);

/* ---- from_agents.c ---- */

void from_agents_received(void *agents, const struct router_message *arrival);
void from_agents_refused(void *agents, struct router *r, const char *why);

/* ---- engine_nodes.c ---- */

void engine_nodes_said(void *run, struct engine_process *link, const struct engine_line *said);
/* Whose user id it is; NULL: of none that this kernel asked for. */
struct node_link *engine_nodes_find(const struct agents *a, const char *user);
void engine_nodes_up(struct agents *a, struct node_link *link);   /* it has said HELLO */
void engine_nodes_lost(struct agents *a, struct node_link *link); /* it is gone */

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

/* ---- node_failures.c ---- */

MUST_USE int node_failures_watch(struct agents *a, struct err *err);
void node_failures_unwatch(struct agents *a);
/* The node is gone, and all that is reached by way of it; the handler is told. */
void node_failures_lose(struct agents *a, struct node_link *link, const char *why);
/* The same without a word to the handler. */
void node_failures_lose_quietly(struct agents *a, struct node_link *link);
void node_failures_disconnected(void *agents, struct router *r, int fd);
/* In so many ns it is lost, unless its engine says first why. */
void node_failures_expect(struct agents *a, struct node_link *link);

#endif
