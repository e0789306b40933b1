/* SPDX-License-Identifier: BSD-3-Clause */
/* double.h - a notebook in which all callbacks are doubles: each message that it sends is one line
 * of the log. */
#ifndef TESTS_UNIT_KERNEL_DOUBLE_H
#define TESTS_UNIT_KERNEL_DOUBLE_H

#include "kernel/dispatch/private.h"

#define WORLD_NODES   13u
#define WORLD_WORKERS 64u
/* the wall clock when the world's clock is 0: noon of 2026-01-01, UTC */
#define WORLD_WALL_S UINT64_C(1767268800)
/* what home answers of a cell that reads x */
#define CAPTURES_X "{\"names\": [[\"x\", 1, 8, \"\"]]}"

struct world {
    struct notebook *nb;
    struct jupyter_session session;
    struct buf log, sent; /* sent: the last message, encoded */
    struct span last;     /* header of the last message that was sent to a worker */
    uint64_t now, due, blob;
    bool ended;
    bool no_agent;                 /* revive fails */
    struct node node[WORLD_NODES]; /* [0]: this machine; others as up() and lost() say */
    /* what a node says of its GPUs, at once; NULL: that there are none */
    const char *gpus[WORLD_NODES];
    bool silent;                   /* nodes say nothing of their GPUs */
    unsigned asked;                /* nodes, as bits, that were asked and are to answer */
    unsigned engine, first, nodes; /* the last engine's number, and the nodes that come() told of */
    unsigned for_ranks;            /* that engine was told so many */
    bool by_ranks;                 /* engines have room for so many ranks as they were told */
    /* bytes of large variables on their way to every node, and those that are there */
    uint64_t expected, had;
    unsigned has_all; /* the node to which they have come already; WORLD_NODES: none */
    bool no_engine;   /* engines can't be started */
    /* what home has captured when an engine is to start; NULL: nothing. "": it does not answer */
    const char *captures;
    enum span_kind stuck; /* messages of this kind don't leave any more; 0: all do */
    unsigned leave;       /* but for so many first */
    const char *client;   /* who asks; NULL: always the same one */
    const char *arrives;  /* code of a cell that arrives while the shell is drained; once */
    const char *asks;     /* code of a complete_request that arrives then; once */
    const char *deletes;  /* id of a subshell whose deletion arrives then; once */
    void (*own)(bool on); /* told when what allocates is the double itself; or NULL */
    unsigned place[WORLD_WORKERS]; /* node of each worker */
    /* Who plays the agent of that node gets what is sent there, at once. workers: *u32; false:
     * nobody plays it. NULL: no agent is played. */
    bool (*agent)(void *arg, unsigned node, struct slice workers, struct slice msg);
    void *agent_arg;
};

/* clock is the world's, and lives as long. Two worlds at a time are fine. */
extern struct dispatch_config world_config; /* what world_open() gives the notebook */
void world_open(struct world *w, struct clock *clock);
/* Two ranks whose processes are there and idle, and an empty log. */
void world_open_idle(struct world *w, struct clock *clock);
void world_close(struct world *w);

/* What comes in. Messages of a cell are taken for the one that runs. */
void settle(struct world *w); /* answers what was asked of nodes, until nothing is left */
void ask(struct world *w, const char *type, const char *content);
void ask_in(struct world *w, const char *subshell, const char *type, const char *content);
void run(struct world *w, const char *code);
void say(struct world *w, uint32_t worker, struct span m);
void captured(struct world *w, const char *names);
void packed(struct world *w, uint64_t cell, const char *error);
void port(struct world *w);
void ready(struct world *w, uint32_t worker);
void done(struct world *w, uint32_t worker, const char *status, const char *content,
          const char *result);
void replied(struct world *w, uint64_t cell, const char *status, const char *content);
void called(struct world *w, uint64_t call, const char *text); /* home, in the midst of a cell */
void exited(struct world *w, uint32_t worker, uint64_t code, uint64_t status);
void crashed(struct world *w, uint32_t worker, const char *stack); /* by SIGSEGV */
void pass(struct world *w, uint64_t ns);
/* The last engine says that it has so many nodes, named h1, h2, ... by their numbers; that one of
 * them is up, or gone. */
void come(struct world *w, unsigned n);
void up(struct world *w, unsigned node);
void all_up(struct world *w, unsigned n); /* come(), and up() for each */
void lost(struct world *w, unsigned node, const char *why);
void engine(struct world *w, enum engine_event event, const char *text);
void said_connections(struct world *w, unsigned node, const char *ends);
void ready_as(struct world *w, uint32_t worker, const char *python);
/* The same of workers first to last: READY; DONE, well; dead by SIGTERM. */
void all_ready(struct world *w, uint32_t first, uint32_t last);
void all_done(struct world *w, uint32_t first, uint32_t last);
void all_exited(struct world *w, uint32_t first, uint32_t last);
void next(struct world *w, const char *code); /* run(), with an empty log */
/* the cell that runs gets what it waits for besides ranks */
void provide(struct world *w);
void home_open(struct world *w, struct clock *clock); /* world_open(), and home is ready */
/* Two ranks, workers 2 and 3, in the midst of a cell. */
void begin_two(struct world *w);
void end_two(struct world *w); /* both end it well */
void stack(struct world *w, uint32_t worker, uint64_t cell, const char *text); /* STACK */
void prompted(struct world *w, uint32_t worker, const char *prompt);           /* INPUT */
void publishes(struct world *w, uint32_t worker, const char *type,
               const char *content); /* PUBLISH */
/* A world with four idle ranks, workers 2 to 5, on nodes 1 and 2 of an engine; and an empty log. */
#define ON_TWO "%%distribute -n 4 --on ssh:h1,h2\npass"
void open_two(struct world *w, struct clock *clock);
/* The same when only worker 2 is ready. */
void start_two(struct world *w, struct clock *clock);

/* What went out since the log was cleared. */
bool logged(struct world *w, const char *text); /* says what there is when it is not */
bool in_order(struct world *w, const char *first, const char *second);
unsigned times(struct world *w, const char *text);
bool sent(struct world *w, const char *text);    /* in the last message */
bool is_over(struct world *w, const char *text); /* the cell, with that in the log */

#endif
