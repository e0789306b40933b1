/* SPDX-License-Identifier: BSD-3-Clause */
/* lease_holders.h - which processes hold the leases of a machine's GPUs, for `cellspan ps --all`.
 */
#ifndef WORKER_AGENT_GPU_LEASE_HOLDERS_H
#define WORKER_AGENT_GPU_LEASE_HOLDERS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

struct lease_state;

/* {"leases": {uuid: {"said", "since", "holders": [{"pid", "uid", "comm"}]}}, "cut", "why"}: those
 * that somebody holds. gpus: an array of objects with "uuid", whose leases are looked at; NULL: all
 * that are there. cut: true: these are not all, for others have put too many there, so ask for
 * those of the machine's GPUs. said: what the file says, which any user may have written. since: in
 * seconds since 1970, also from the file, but not before a holder was started. holders: what the
 * system says, which nobody can plant; of processes that we may not look at, none. why: null, or
 * why there is nothing. NULL: memory is out. */
json_t *lease_holders_list(const json_t *gpus);
/* The same, with no other holders than processes of this user, and, if gpus is NULL, no other
 * leases than those that they may hold. */
json_t *lease_holders_ours(const json_t *gpus);
/* Has this process a lock on the file of the lease? false, too: we may not look at the process. */
bool lease_holders_has(long pid, const char *uuid, const struct lease_state *state);

#endif
