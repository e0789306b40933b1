/* SPDX-License-Identifier: BSD-3-Clause */
/* claim.h - files of the leases' folder by which a process tells all others something: each is its
 * user's own and locked, so that nobody else can make, lock or remove it, and so that it counts for
 * nothing when its process is gone. */
#ifndef WORKER_AGENT_GPU_CLAIM_H
#define WORKER_AGENT_GPU_CLAIM_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#define CLAIM_NAME 48u

/* Since the machine's start: no change of the clock moves it. */
struct timespec claim_clock(void);
/* "KIND.00000000012345678901.4711": of that kind, when it was made (claim_clock()) and by whom. */
void claim_name(const char *kind, char out[static CLAIM_NAME]);
bool claim_is_name(const char *kind, const char *name);
/* Makes it, locked. -1: errno. */
int claim_make(int folder, const char *name);
/* Opens it if its owner holds it: only he can lock it for writing. -1: it counts for nothing. */
int claim_open(int folder, const char *name, struct stat *s);
/* What is left of a killed process of this user's; one that is just being made has no lock yet. */
void claim_remove_old(int folder, const char *name);
/* Does the name still lead to this file? */
bool claim_is_there(int folder, const char *name, int fd);

#endif
