/* nccl_status.h - how far NCCL is, asked on behalf of a worker whose stack is wanted. */
#ifndef WORKER_AGENT_PROCESSES_NCCL_STATUS_H
#define WORKER_AGENT_PROCESSES_NCCL_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct nccl_status;
struct worker;

/* Where the NCCL of this agent's ranks answers. */
struct nccl_port {
    char address[32]; /* "localhost:PORT"; "": the user chose another, or none is known yet */
    uint64_t cell;    /* the STACKS for which it was asked last */
};

/* The address, chosen at the first call. Without it all processes of a host would use the same
 * port, and only the first of them would be heard. "": the user chose another, or none is free. */
const char *nccl_status_address(struct nccl_port *port);

/* Asks NCCL's RAS, of which each node has one that knows the whole job, when the worker has loaded
 * NCCL; f is called once it has answered, or didn't in time. NULL: it has not loaded it, or can't
 * be asked. */
struct nccl_status *nccl_status_ask(struct worker *w, void (*f)(struct worker *w));
bool nccl_status_waits(const struct nccl_status *n); /* NULL: no */
/* Adds a line NCCL_STATUS_SAYS and what RAS said, a line each; nothing when it said nothing. */
#define NCCL_STATUS_SAYS "NCCL says:"
MUST_USE int nccl_status_text(const struct nccl_status *n, struct buf *out);
void nccl_status_end(struct nccl_status *n); /* NULL is fine; f is not called any more */

#endif
