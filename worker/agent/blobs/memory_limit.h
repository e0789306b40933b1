/* memory_limit.h - how many bytes of memory files may still be made here. What limits a memory file
 * (memfd) on Linux is not the size of /dev/shm, for it lies on a mount of the kernel's own, but
 * memory: the machine's, and that of the control groups that the agent is in, whose out-of-memory
 * killer ends somebody where a write would have failed elsewhere. */
#ifndef WORKER_AGENT_BLOBS_MEMORY_LIMIT_H
#define WORKER_AGENT_BLOBS_MEMORY_LIMIT_H

#include <stdint.h>

#include "base/slice.h"

/* *why: what limits it, for the user: "memory", "the memory limit of its control group"; a
 * constant. UINT64_MAX: nothing that could be found. */
uint64_t memory_limit_free(const char **why);

/* ---- pure parts ---- */

/* Bytes of the line "WORD:   12345 kB" in the text of /proc/meminfo; UINT64_MAX: there is none. */
uint64_t memory_limit_meminfo(struct slice text, const char *word);
/* The number that a control group's file holds; UINT64_MAX: "max", or no number. */
uint64_t memory_limit_number(struct slice text);

#endif
