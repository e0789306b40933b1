/* cell_ops.h - what a cell needs of the world, as functions. So the folders that decide hold no
 * socket, and a test can replace all of them. Every call but send either takes what it is given
 * or logs why it could not: a cell has nothing better to do about a broken socket. Slices are
 * borrowed for the call. */
#ifndef KERNEL_NOTEBOOK_CELL_OPS_H
#define KERNEL_NOTEBOOK_CELL_OPS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/slice.h"
#include "kernel/agents/node.h"
#include "protocol/span.h"

struct request;

/* What goes with a Jupyter message besides its type. */
struct content {
    struct slice content;  /* a JSON object */
    struct slice metadata; /* a JSON object, or empty */
    const struct slice *buffers;
    size_t n;
};

struct cell_ops {
    void *arg;
    const struct clock *clock;
    /* parent may be NULL */
    void (*publish)(void *arg, const struct request *parent, const char *type,
                    const struct content *p);
    void (*reply)(void *arg, struct request *r, const char *type, const struct content *p);
    void (*status)(void *arg, struct request *r, const char *state);
    /* input_request */
    void (*ask)(void *arg, const struct request *r, struct slice prompt, bool password);
    void (*drain_shell)(void *arg); /* take in every request that has arrived */
    void (*shutdown)(void *arg);    /* the kernel is to end when this turn is over */
    /* -1: it did not leave, and who would have answered won't. A blob goes ahead to nodes that lack
     * it. */
    int (*send)(void *arg, const uint32_t *workers, size_t n, const struct span *m,
                struct err *err);
    /* to agents */
    int (*send_nodes)(void *arg, const unsigned *nodes, size_t n, const struct span *m,
                      struct err *err);
    /* before its START; -1: memory is out */
    int (*place)(void *arg, uint32_t worker, unsigned node);
    /* nobody needs it any more; who waits for it gets it */
    void (*drop)(void *arg, uint64_t blob);
    /* nor does anybody wait for it: it need not come */
    void (*cancel)(void *arg, uint64_t blob);
    /* taken in: give the credit back some time */
    void (*owe)(void *arg, uint32_t worker, size_t bytes);
    void (*forget)(void *arg, uint32_t worker); /* it is gone */
    /* start the lost agent of NODE_HERE again */
    int (*revive)(void *arg, struct err *err);
    /* An engine's run; dispatch_engine() tells how it goes on. ranks 0: not said. */
    int (*engine_start)(void *arg, const char *name, const char *spec, unsigned ranks,
                        unsigned *engine, struct err *err);
    /* -1: there is none of that name */
    int (*engine_find)(void *arg, const char *name, struct err *err);
    void (*engine_stop)(void *arg, unsigned engine);
    void (*engine_nodes)(void *arg, unsigned engine, unsigned *first, unsigned *n);
    const struct node *(*node)(void *arg, unsigned node); /* NULL: none */
    /* Bytes of large variables that are on their way to that node; *had of them are there
     * (UINT64_MAX: who knows). */
    uint64_t (*expected)(void *arg, unsigned node, uint64_t *had);
    void (*wake)(void *arg, uint64_t due_ns); /* call dispatch_tick then; UINT64_MAX: no need */
};

#endif
