/* lease.h - who of all notebooks on a machine has which GPU: one lock file a GPU, in a folder that
 * every user may use. The lock belongs to the open descriptor, so the system gives it back when its
 * owner dies; the file says who that is. */
#ifndef WORKER_AGENT_GPU_LEASE_H
#define WORKER_AGENT_GPU_LEASE_H

#include <stdbool.h>

#include "base/err.h"

#define LEASE_HOLDER 160u /* bytes of what is shown of a holder */

/* The folder, open, made when it isn't there: $CELLSPAN_GPU_LEASES, else /dev/shm/cellspan-gpu,
 * else /tmp/cellspan-gpu. -1: *err says what is wrong with it, and the fix. */
int lease_folder(struct err *err);
bool lease_folder_is_there(int folder); /* false: it was removed since; open it anew */

enum lease_result { LEASE_TAKEN, LEASE_HELD, LEASE_FAILED };

/* Takes a GPU: *fd is the lease until it is closed. share: others may hold it too, and what one
 * holds for itself alone is no obstacle. LEASE_HELD: somebody has it, see lease_holder;
 * LEASE_FAILED: *err says why. what: what is written for others to read. */
MUST_USE enum lease_result lease_take(int folder, const char *uuid, bool share, const char *what,
                                      int *fd, struct err *err);
/* To be called every now and then. A lease whose file was removed is taken anew: systemd-logind
 * empties /dev/shm of a user's files when he logs out (RemoveIPC), also where another user's agent
 * holds the lock. And one that shares what somebody held alone gets its lock once that one is gone.
 * -1: *err says who has it now, or why it can't be had; the lease is as it was. */
MUST_USE int lease_keep(int folder, const char *uuid, bool share, const char *what, int *fd,
                        struct err *err);
void lease_give(int *fd); /* fine for -1 */

/* Who holds it now, without taking it: "alice (pid 4711, since 14:03)"; false: nobody. share: is
 * there anybody who would not share it? Leases of our own count as well. */
bool lease_holder(int folder, const char *uuid, bool share, char out[static LEASE_HOLDER]);

#endif
