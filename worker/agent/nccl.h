/* nccl.h - how far NCCL is, asked on behalf of a worker whose stack is wanted. */
#ifndef WORKER_AGENT_NCCL_H
#define WORKER_AGENT_NCCL_H

#include <stdbool.h>

#include "base/buf.h"

struct agent;
struct worker;
struct nccl_asking;

/* "localhost:PORT": where the NCCL of this agent's ranks is to answer, chosen at the first call.
 * All processes of a host would use the same port otherwise, and only the first of them would be
 * heard. "": the user chose another, or none is free. */
const char *nccl_address(struct agent *a);

/* Asks NCCL's RAS, of which each node has one that knows the whole job, when the worker has loaded
 * NCCL; f is called once it has answered, or didn't in time. NULL: it has not loaded it, or can't
 * be asked. */
struct nccl_asking *nccl_ask(struct worker *w, void (*f)(struct worker *w));
bool nccl_waits(const struct nccl_asking *n); /* NULL: no */
/* Adds a line NCCL_SAYS and what RAS said, a line each; nothing when it said nothing. */
#define NCCL_SAYS "NCCL says:"
MUST_USE int nccl_words(const struct nccl_asking *n, struct buf *out);
void nccl_end(struct nccl_asking *n); /* NULL is fine; f is not called any more */

#endif
