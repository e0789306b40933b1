/* oom.h - has an out-of-memory killer been active? Reads the counters of the cgroup (v2 and v1) and
 * of the whole system. */
#ifndef WORKER_AGENT_PROCESSES_OOM_H
#define WORKER_AGENT_PROCESSES_OOM_H

#include <stdint.h>

#include "base/slice.h"
#include "worker/agent/processes/death_cause.h"

#define OOM_PATH_MAX 4096

struct oom {
    char cgroup[OOM_PATH_MAX]; /* the file with the cgroup's counter; "": there is none */
    uint64_t cgroup_kills;
    uint64_t system_kills;
};

void oom_init(struct oom *o); /* finds the counters and reads them */
enum oom_killer
oom_check(struct oom *o); /* which of the two killed a process since the last call */

/* The number after `word` at the start of a line ("oom_kill 3"); 0: not there. Pure. */
uint64_t oom_parse(struct slice text, const char *word);
/* The path of the memory cgroup in the text of /proc/self/cgroup; empty: there is none. *v2: is it
 * version 2? Pure. */
struct slice oom_cgroup(struct slice text, bool *v2);

#endif
