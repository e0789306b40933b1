/* words.h - what goes wrong with GPUs, for users. Pure. */
#ifndef WORKER_AGENT_GPU_WORDS_H
#define WORKER_AGENT_GPU_WORDS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "worker/agent/gpu/gpus.h"

/* "GPU has fallen off the bus"; NULL: not one of the common ones. */
const char *xid_words(uint64_t xid);

/* "51.3 GiB". */
const char *bytes_words(uint64_t bytes, char out[static 32]);

/* Do a worker's last lines say that memory ran out on its GPU? */
bool words_say_oom(struct slice text);

/* Appends "GPU 1 (GPU-8f2c…, NVIDIA A100)", and, when `since` (what a probe answered; NULL:
 * nothing) has something to tell of it, ": Xid 79: GPU has fallen off the bus; …". oom: its worker
 * said that memory ran out there. -1: memory is out. */
MUST_USE int words_add_gpu(const struct gpu *one, const json_t *since, bool oom, struct buf *out);

struct words_shortage {
    unsigned ranks, each; /* asked for */
    unsigned all, free;   /* GPUs of this node that cellspan may use, and those that nobody holds */
    const char *why;      /* why there is none at all; "" */
};

/* Why ranks get no GPU, without who holds the others. */
MUST_USE int words_add_shortage(const struct words_shortage *s, struct buf *out);
/* What can be done about it, to be added last. */
MUST_USE int words_add_remedies(const struct words_shortage *s, struct buf *out);

#endif
