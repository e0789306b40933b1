/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_nodes.h - where the ranks of a cell run: the nodes, the engine that starts them, and which
 * rank gets which node. */
#ifndef KERNEL_CELL_CELL_NODES_H
#define KERNEL_CELL_CELL_NODES_H

#include "kernel/cell/cell.h"

/* ---- group_nodes.c ---- */
struct group_nodes {
    struct group_node *first, *end;
};
#define GROUP_NODES_EACH(at, all) for (struct group_node *at = (all).first; at < (all).end; at++)
/* The nodes on which the group's ranks may run; borrowed. */
struct group_nodes group_nodes_of(const struct notebook *nb);
/* The cell's ranks run on this machine, or will when the group has moved. */
bool group_nodes_are_here(const struct cell *c);
/* The same for the ranks of this cell, which may have a group of their own. */
struct group_nodes group_nodes_of_cell(const struct cell *c);
struct group_node *group_node_of(const struct notebook *nb, unsigned node); /* NULL: unknown */
unsigned group_nodes_lost(const struct notebook *nb);
/* Adds the engine's n nodes from `first` on, once. -1: memory is out */
int group_nodes_add(struct notebook *nb, unsigned first, unsigned n);

/* ---- engine_of_cell.c ---- */
int engine_choose(struct cell *c); /* checks --on; -1: the cell has failed */
void engine_move(struct cell *c);  /* see cell->engine.moves */
/* Is there the engine of this --on? If not, the cell has failed. */
bool engine_exists(struct cell *c, const char *on);
bool engine_group_lives(const struct group *g); /* it has ranks or an engine's run */
/* The cell has more ranks than its engine was started for, and no rank that is to stay would end
 * with the engine: then a note says that it starts again for them, and engine_move() is called. */
bool engine_grows(struct cell *c);
/* ends the engine's run and its ranks, and forgets --on: the next ranks run on this machine */
void engine_end(struct notebook *nb);
bool engine_is_torn(const struct notebook *nb); /* it has lost nodes */
/* A node that the cell could use no more is about to be lost, for a reason that is not known yet.
 */
bool engine_loses(const struct cell *c);
/* the nodes for the cell's ranks are known, and need not be started first */
bool engine_is_known(const struct cell *c);
void engine_lost(struct notebook *nb, unsigned node, const char *why);
void engine_replaced(struct notebook *nb, unsigned node, unsigned by);
void engine_event(struct notebook *nb, unsigned engine, enum engine_event event, const char *text);

/* ---- away_nodes.c ---- */
bool away_node_is(const struct notebook *nb, unsigned node); /* it is shown as away */
/* The node is shown as away from now on, or no more: cells that need it say so. */
void away_nodes_changed(struct notebook *nb, unsigned node);
/* The local time of day at this time of the notebook's clock; "?": it is not known. */
void cell_time_of_day(const struct notebook *nb, uint64_t at_ns, char out[static 16]);
void away_nodes_begin(struct cell *c);       /* says which of its nodes are away */
void away_nodes_interrupted(struct cell *c); /* says which of them the interrupt can't reach yet */
/* The cell's ranks were killed: nobody waits for those of nodes that are away. */
void away_nodes_give_up(struct cell *c);
/* Names nodes of the cell that have been silent for limit_ns once more. It leaves out those that
 * were silent at *reminded_ns already, and sets *reminded_ns to the time since when the last one is
 * silent. true: the cell waits for a node. */
bool away_nodes_remind(struct cell *c, uint64_t limit_ns, uint64_t *reminded_ns);

/* ---- node_errors.c ---- */
void node_errors_add(struct cell *c, unsigned node, const char *name, const char *why);
void node_errors_poll(struct cell *c); /* fails the cell when no node is still starting */
void node_errors_fail(struct cell *c); /* fails the cell; the text names the nodes so far */
void node_errors_release(struct cell *c);
/* Does a rank's Python not match home's? Then the cell fails, and the ranks of its node end.
 * version: empty if it is not known. */
bool node_errors_python(struct cell *c, const struct rank *r, struct slice version);

/* ---- node_gpus.c ---- */
struct node_gpus {
    struct place_node *node; /* owned, n of them: the cell's nodes that are not lost */
    size_t n;
};
int node_gpus_open(const struct cell *c, struct node_gpus *p); /* -1: memory is out */
/* the node's index in p->node, or PLACE_NOWHERE */
unsigned node_gpus_find(const struct node_gpus *p, unsigned node);
void node_gpus_on_gpus(struct notebook *nb, unsigned node, const struct span *m); /* a GPUS */
struct place_want node_gpus_want(const struct cell *c); /* the GPUs that its ranks want */
/* the world's size, as the cell or an earlier one wants it; 0: it depends on the nodes, and
 * place_world() says it */
unsigned cell_world_asked(const struct cell *c);
/* asks nodes for their GPUs if the placement depends on them; -1: the cell has failed */
int node_gpus_ask(struct cell *c);
bool node_gpus_wait(const struct cell *c); /* a node has not answered */
/* Nodes have listed their GPUs: does the cell wait for some (--wait)? true, too: it has failed. */
bool gpu_wait_stays(struct cell *c);
/* "waits for 2 GPUs: 3rd in the queue". false: it does not wait */
bool gpu_wait_describe(const struct cell *c, char *text, size_t size);
uint64_t gpu_wait_due(const struct cell *c);
void gpu_wait_tick(struct cell *c, uint64_t now);
void gpu_wait_over(struct cell *c); /* ranks start: the agent leaves the queue by itself */
void gpu_wait_leave(struct cell *c);
/* Others have the GPUs of its parked ranks on this node: `gpus`, and so many notebooks come first.
 * The cell tries again in a second. false: its time to wait is over. */
bool gpu_wait_parked(struct cell *c, unsigned node, unsigned gpus, unsigned ahead, const char *why);
bool gpu_wait_has_parked(const struct cell *c);         /* it waits for those */
bool gpu_wait_takes_turn(struct cell *c, uint64_t now); /* it is time to try again, once */
/* "10 min": how long it waits at most */
const char *gpu_wait_limit(const struct cell *c, char out[static 32]);

/* ---- world_env.c ---- */
/* NCCL accepts the GPUs of these ranks (true also if they have none). */
bool world_can_use_nccl(const struct cell *c, const struct ranks *to);
bool world_is_near(const struct cell *c, const struct ranks *to); /* they are on one node */
json_t *world_env(const struct cell *c);                          /* RUN's `env`; new */
json_t *world_master(const struct cell *c);                       /* RUN's `master`; new */
int world_add_layout(const struct cell *c, struct buf *out);      /* RUN's `layout` */
/* Adds "env", "master" and "layout" of the cell's world, as in RUN. -1: memory is out. */
MUST_USE int world_add(const struct cell *c, json_t *to);

/* ---- node_addresses.c ---- */
/* *out: an address of `node` whose family (IPv4, IPv6) all these n nodes have; if there is none,
 * its first address; "": it has no address. -1: memory is out. */
int node_addresses_common(const struct notebook *nb, unsigned node, const unsigned *nodes, size_t n,
                          struct buf *out);
/* Adds all its addresses, each in 16 bytes: IPv6, or IPv4 mapped to that. -1: memory is out. */
MUST_USE int node_addresses_add_bytes(const struct notebook *nb, unsigned node, struct buf *out);

/* ---- engine_image.c ---- */

bool engine_is_other(const struct group *g, const char *on); /* than where its ranks are */
/* The image in whose containers the cell's ranks run; NULL: they run in none. */
const char *engine_image(const struct cell *c);
bool engine_image_is_other(const struct cell *c); /* than that of the group's ranks */
/* Can ranks run in it where the cell wants them? Only for what the cell itself says: a setting
 * holds where it can. -1: the cell has failed. */
int engine_image_check(struct cell *c);
/* The cell fails, for ranks live that are in another image. */
int engine_image_refuse(struct cell *c);

#endif
