/* memory_limit.h - how many bytes blobs may still take on this node. A blob is a memory file
 * (memfd). Its size is not limited by /dev/shm, but by the machine's memory and by the limits of
 * the agent's control groups. Too large a memory file does not make a write fail: the out-of-memory
 * killer ends a process instead. So the limit is checked before. */
#ifndef WORKER_AGENT_BLOBS_MEMORY_LIMIT_H
#define WORKER_AGENT_BLOBS_MEMORY_LIMIT_H

#include <stdint.h>

#include "base/slice.h"

/* *why: names the limit for the user: "memory" or "the memory limit of its control group"; a
 * constant. UINT64_MAX: no limit is known. */
uint64_t memory_limit_free(const char **why);

/* ---- pure parts ---- */

/* Bytes of the line "WORD:   12345 kB" in the text of /proc/meminfo; UINT64_MAX: there is no such
 * line. */
uint64_t memory_limit_meminfo(struct slice text, const char *word);
/* The number in a control group's file; UINT64_MAX: it holds "max" or no number. */
uint64_t memory_limit_number(struct slice text);

#endif
