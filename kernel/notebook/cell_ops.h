/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_ops.h - the callbacks through which notebook/, cell/, ranks/ and dispatch/ reach sockets,
 * engines and timers. These folders hold no socket, and tests pass other callbacks. A callback
 * without a return value logs its own failure: a cell can do nothing about a broken socket. Slices
 * are borrowed for the call. */
#ifndef KERNEL_NOTEBOOK_CELL_OPS_H
#define KERNEL_NOTEBOOK_CELL_OPS_H

#include "base/clock.h"
#include "kernel/agents/node.h"
#include "protocol/span.h"

struct content;
struct request;

struct cell_ops {
    void *arg;
    const struct clock *clock;
    /* parent may be NULL */
    void (*publish)(void *arg, const struct request *parent, const char *type,
                    const struct content *p);
    void (*reply)(void *arg, struct request *r, const char *type, const struct content *p);
    void (*status)(void *arg, struct request *r, const char *state);
    /* input_request */
    /* r NULL: nobody waits for the answer to the last one any more */
    void (*ask)(void *arg, const struct request *r, struct slice prompt, bool password);
    void (*drain_shell)(void *arg); /* reads every request that has arrived */
    void (*shutdown)(void *arg);    /* the kernel ends after this turn of the loop */
    /* To workers. Nodes that lack the message's blob get it first. -1: the message was not sent, so
     * no answer will come. */
    int (*send)(void *arg, const uint32_t *workers, size_t n, const struct span *m,
                struct err *err);
    /* to agents; after QUIT a node that is away is not waited for any longer, but lost soon */
    int (*send_nodes)(void *arg, const unsigned *nodes, size_t n, const struct span *m,
                      struct err *err);
    /* Records the worker's node; call it before START. -1: memory is out */
    int (*place)(void *arg, uint32_t worker, unsigned node);
    /* No new receiver will ask for this blob. Transfers that have begun still finish. */
    void (*drop)(void *arg, uint64_t blob);
    void (*cancel)(void *arg, uint64_t blob); /* Like drop, and transfers that have begun stop. */
    /* These bytes of the worker's output were read; it gets the credit back later. */
    void (*owe)(void *arg, uint32_t worker, size_t bytes);
    void (*forget)(void *arg, uint32_t worker); /* the worker has ended */
    /* starts the agent of NODE_HERE again after it was lost */
    int (*revive)(void *arg, struct err *err);
    /* Starts a run of an engine; dispatch_engine() gets its events. image: of its agents'
     * containers; NULL: none. ranks 0: not given. changes: of home's environment, {name: value or
     * null}; NULL: none. */
    int (*engine_start)(void *arg, const char *name, const char *spec, const char *image,
                        unsigned ranks, const json_t *changes, unsigned *engine, struct err *err);
    /* -1: there is no engine of that name */
    int (*engine_find)(void *arg, const char *name, struct err *err);
    void (*engine_stop)(void *arg, unsigned engine);
    /* *ranks: for how many it was started, if a start for more gives more room; else 0 */
    void (*engine_nodes)(void *arg, unsigned engine, unsigned *first, unsigned *n, unsigned *ranks);
    const struct node *(*node)(void *arg, unsigned node); /* NULL: none */
    /* Bytes of large variables that are being sent to this node. *had: how many of them have
     * arrived (UINT64_MAX: unknown). *whole: bytes of variables that have arrived here, and not yet
     * on other nodes. */
    uint64_t (*expected)(void *arg, unsigned node, uint64_t *had, uint64_t *whole);
    /* calls dispatch_tick() at this time; UINT64_MAX: never */
    void (*wake)(void *arg, uint64_t due_ns);
};

#endif
