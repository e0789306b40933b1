/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the state of the connections to the agents, and what the files of this folder share.
 * For this folder and its tests only. */
#ifndef KERNEL_AGENTS_PRIVATE_H
#define KERNEL_AGENTS_PRIVATE_H

#include "kernel/agents/agents.h"
#include "kernel/agents/listen.h"
#include "kernel/agents/to_agents.h"
#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/local_blobs.h"

/* ---- agents_blobs.c ---- */
/* Connects the blob schedule and this machine's local blobs to the agents. */

struct agents_blobs {
    struct to_agents *out;          /* borrowed */
    struct blob_schedule *schedule; /* owned */
    struct local_blobs local;       /* shared by this machine's agent */
    int socket;                     /* from which its descriptors come */
    bool failed;                    /* a message about a blob could not be encoded */
};

MUST_USE int agents_blobs_init(struct agents_blobs *b, struct to_agents *out, struct err *err);
void agents_blobs_release(struct agents_blobs *b);

/* Call it before m is sent to the workers: starts to send the blob of m to their nodes. */
MUST_USE int agents_blobs_send_ahead(struct agents_blobs *b, const uint32_t *workers, size_t n,
                                     const struct span *m, struct err *err);
/* This machine's agent leaves it to the kernel to send one of its blobs: `chunk` has no bytes. */
void agents_blobs_begin_local(struct agents_blobs *b, const struct span *chunk);
void agents_blobs_node_lost(struct agents_blobs *b, unsigned node);
/* The node has resumed: what was on its way to it and from it goes on. */
void agents_blobs_node_resumed(struct agents_blobs *b, unsigned node);
/* Call it after each other call of the schedule: sends every chunk of local blobs that flow control
 * allows. false: a message about a blob could not be encoded since the last call; then nobody waits
 * for a blob any more. */
bool agents_blobs_go_on(struct agents_blobs *b);

/* ---- credit.c ---- */
/* Flow control: for each worker, the bytes that were read without a CREDIT for them yet. Pure. */

struct credit_owed {
    uint32_t worker;
    uint64_t owed;
};

struct credit_table {
    struct credit_owed *row; /* owned */
    size_t n, room;
};

#define CREDIT_INIT { NULL, 0, 0 }

void credit_release(struct credit_table *c);
/* Adds bytes to what the worker is owed; *owed is the sum. */
MUST_USE int credit_owe(struct credit_table *c, uint32_t worker, size_t bytes, uint64_t *owed);
/* What the worker is owed, which becomes 0. */
uint64_t credit_take(struct credit_table *c, uint32_t worker);
void credit_forget(struct credit_table *c, uint32_t worker);

#define WINDOW (UINT64_C(4) << 20) /* bytes that a worker may have sent without CREDIT for them */

struct agents {
    struct loop *loop; /* borrowed */
    struct agents_handler handler;
    struct listen listen;
    struct node_table nodes;
    struct to_agents out;
    struct agents_blobs blobs;
    struct credit_table credit;
    bool held; /* no CREDIT is sent */
    struct beat beat;
    /* CELLSPAN_RESUME, and the same for nodes whose engine does not tell when agents end */
    uint64_t resume_ns, untold_ns;
    struct watch *beat_timer; /* for silent nodes */
    uint64_t slept_ns;        /* for how long this machine was suspended, as it was counted last */
};

/* ---- from_agents.c ---- */
/* What arrives from agents: HELLO, and bundles of messages. A connection may send only messages of
 * its own node and of nodes reached through it. Its identity comes from ZAP, or from the private
 * folder of the unix socket. */

/* Handlers of a router; arg is the struct agents. */
void from_agents_received(void *agents, const struct router_message *arrival);
void from_agents_refused(void *agents, struct router *r, const char *why);

/* ---- agents_nodes.c ---- */

/* The node is up now: gives the notice that its engine has given before. */
void agents_nodes_give_kept(struct agents *a, struct node_link *link);

/* ---- node_failures.c ---- */
/* Lost nodes: their connection has ended, they are silent for too long, or another file reports
 * that they are gone. */

/* Makes the timer that checks for silent nodes; it is off until node_failures_start(). */
MUST_USE int node_failures_watch(struct agents *a, struct err *err);
void node_failures_start(struct agents *a);

/* Silence after which a node that can resume is lost; at least the heartbeat's timeout. */
uint64_t node_failures_resume_ns(const struct agents *a, const struct node_link *link);
/* Marks the node as lost, and all nodes that are reached through it. Calls the handler for each. */
void node_failures_lose(struct agents *a, struct node_link *link, const char *why);
/* Marks this node alone as lost, and does not call the handler. */
void node_failures_lose_quietly(struct agents *a, struct node_link *link);
/* Marks the node as lost after a few seconds. Until then its engine may report the reason. */
void node_failures_expect(struct agents *a, struct node_link *link);
/* Its agent has said that it ends. */
void node_failures_ends(struct agents *a, struct node_link *link);
/* Nobody waits any longer for the node, if it is shown as away: it is lost soon. */
void node_failures_give_up(struct agents *a, struct node_link *link);
/* The connection of the node has ended, or it has another one: also the nodes that are reached
 * through it are cut off, until their agents resume. */
void node_failures_cut(struct agents *a, struct node_link *link);
/* Handler of a router: a connection has ended. */
void node_failures_disconnected(void *agents, struct router *r, int fd);

#endif
