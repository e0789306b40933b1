/* SPDX-License-Identifier: BSD-3-Clause */
/* memory_limit.h - how many bytes processes of ours may still take on this machine, and whether one
 * was ended because there were none.
 *
 * A blob is a memory file (memfd). Its size is not limited by /dev/shm, but by the machine's memory
 * and by the limits of the process's control groups. Too large a memory file does not make a write
 * fail: the out-of-memory killer ends a process instead. So the limit is checked before. */
#ifndef BASE_MEMORY_LIMIT_H
#define BASE_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* *why: names the limit for the user: "memory" or "the memory limit of its control group"; a
 * constant. UINT64_MAX: no limit is known. */
uint64_t memory_limit_free(const char **why);
/* The same for what ranks have on GPUs: a tenth of the machine's memory stays free, too, so that
 * others can work. */
uint64_t memory_limit_parking(const char **why);
/* The path of the memory cgroup in the text of /proc/self/cgroup; empty: there is none. *v2: is it
 * version 2? Pure. */
struct slice memory_cgroup(struct slice text, bool *v2);

/* Has an out-of-memory killer been active? Reads the counters of the cgroup (v2 and v1) and of the
 * whole system. */

#define MEMORY_PATH_MAX 4096

enum oom_killer { OOM_NONE, OOM_CGROUP, OOM_SYSTEM };

struct oom {
    char cgroup[MEMORY_PATH_MAX]; /* the file with the cgroup's counter; "": there is none */
    uint64_t cgroup_kills;
    uint64_t system_kills;
};

void oom_init(struct oom *o); /* finds the counters and reads them */
enum oom_killer
oom_check(struct oom *o); /* which of the two killed a process since the last call */

#endif
