/* SPDX-License-Identifier: BSD-3-Clause */
/* blob.h - large bytes in a memory file (memfd), passed between processes as a descriptor beside a
 * message. Once the file is complete it is sealed: nobody can change it any more. */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* Makes an empty memory file, close-on-exec. Fill it with blob_write(), which is faster than
 * mapping it. `name` appears in /proc. The caller owns the descriptor; -1: *err says why. */
int blob_create(const char *name, struct err *err);
/* Writes all n bytes at `offset`, also if the system writes fewer at a time. -1: errno says why,
 * too (ENOSPC: it is full). */
MUST_USE int blob_write(int fd, const void *p, size_t n, uint64_t offset, struct err *err);
/* No more writing, growing or shrinking. Does nothing where the system has no seals. */
MUST_USE int blob_seal(int fd, struct err *err);
/* Creates, writes and seals in one call. The caller owns the descriptor; -1: *err says why. */
int blob_of(const char *name, const void *p, size_t n, struct err *err);

/* Refuses a descriptor that is not a regular file and, where the system has seals, one that is not
 * sealed: a peer could truncate it while we have it mapped (SIGBUS). */
MUST_USE int blob_check(int fd, uint64_t *size, struct err *err);

/* Copies n bytes, starting at `offset`, to p. -1: it has fewer, or can't be read. */
MUST_USE int blob_read(int fd, void *p, size_t n, uint64_t offset, struct err *err);

/* Maps the first n bytes for reading, until blob_unmap(). The file must be sealed or the caller's
 * own, since truncating it meanwhile would cause SIGBUS. To copy it piece by piece, map it once as
 * a whole or use blob_read(): each map and unmap stops the process's other threads. -1: it has
 * fewer bytes, or can't be mapped. */
MUST_USE int blob_map(int fd, size_t n, struct slice *bytes, struct err *err);
void blob_unmap(struct slice bytes); /* from blob_map(); an empty slice is fine */

#endif
