/* SPDX-License-Identifier: BSD-3-Clause */
/* lease.h - leases: which of all notebooks on a machine has which GPU. There is one lock file for
 * each GPU, in a folder that every user may use. The lock belongs to the open descriptor, so the
 * system releases it when its owner dies. The file's text says which process the owner is. Any user
 * may read it, so it has nothing that only the owner may know, such as the notebook's name. */
#ifndef WORKER_AGENT_GPU_LEASE_H
#define WORKER_AGENT_GPU_LEASE_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"

#define LEASE_HOLDER 176u /* bytes of the text about a holder */

/* Opens the folder, or makes it: $CELLSPAN_GPU_LEASES, else
 * /dev/shm/cellspan-gpu, else /tmp/cellspan-gpu. -1: *err says what is wrong, and the fix. */
int lease_folder(struct err *err);
/* Opens it if it is there, for somebody who only looks. LEASE_NO_FOLDER: nobody has made it. */
#define LEASE_NO_FOLDER (-2)
int lease_folder_look(struct err *err);
bool lease_folder_is_there(int folder); /* false: it was removed; open it again */

enum lease_result { LEASE_TAKEN, LEASE_HELD, LEASE_FAILED };

/* Takes a GPU: *fd is the lease until it is closed. share: others may hold it, too, and it is taken
 * even if another one holds it exclusively. LEASE_HELD: somebody has it, see lease_holder;
 * LEASE_FAILED: *err says why. */
MUST_USE enum lease_result lease_take(int folder, const char *uuid, bool share, int *fd,
                                      struct err *err);
/* Call it regularly. If the lease's file was removed, takes the lease again: when a user logs out,
 * systemd-logind removes his files from /dev/shm (RemoveIPC), even if another user's agent has
 * locked one. A shared lease of a GPU that somebody held exclusively gets its lock when that one is
 * gone. LEASE_HELD, LEASE_FAILED: as lease_take(), and the lease is unchanged. */
MUST_USE enum lease_result lease_keep(int folder, const char *uuid, bool share, int *fd,
                                      struct err *err);
void lease_release(int *fd); /* fine for -1 */

/* What can be seen of a lease without taking it. */
struct lease_state {
    bool held;
    char said[LEASE_HOLDER]; /* what the file says of its holder; any user may have written it */
    dev_t device;            /* the file */
    ino_t file;
    time_t written; /* the file */
};

/* Fills *out. false: nobody holds it. share: only holders that don't share it count. Our own leases
 * count, too. */
bool lease_look(int folder, const char *uuid, bool share, struct lease_state *out);

/* The name of a user, from the local file of users: what the system asks may be a server that does
 * not answer, and would block the agent's loop. false: it is not there; *out is "user 1002". */
#define LEASE_USER 41u
bool lease_user(uid_t uid, char out[static LEASE_USER]);

/* Locks a file without waiting. 0: it is locked for us; 1: somebody else has it; -1: errno. */
int lease_lock(int fd, bool share);
bool lease_is_locked(int fd, bool share); /* Would that return 1? */

/* ---- lease_said.c ---- */
/* Who holds it now: "alice (pid 4711, since 14:03)", or "alice, digits.ipynb (pid …)" for alice and
 * root. The system says whose process that is, and which notebook. A name that is not in the local
 * file of users is what the holder says, and its number follows: "alice (uid 1002, pid …)". false:
 * nobody. As lease_look(). */
bool lease_holder(int folder, const char *uuid, bool share, char out[static LEASE_HOLDER]);
/* The name of the notebook of a process: its own, one of the same user's, or, for root, anybody's.
 * false: it is not known, or not for us. */
#define LEASE_NOTEBOOK 41u
bool lease_notebook(long pid, char out[static LEASE_NOTEBOOK]);
/* "14:03"; with the day if that is another one than today. Not in the future. */
#define LEASE_TIME 24u
void lease_time(time_t since, char out[static LEASE_TIME]);
#endif
