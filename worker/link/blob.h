/* blob.h - bytes that travel beside a message, in a memfd that nobody can change any more. */
#ifndef WORKER_LINK_BLOB_H
#define WORKER_LINK_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* An empty one, close-on-exec, to be filled by write() (quicker than mapping it). `name` is for /proc. The
 * descriptor is the caller's; -1: *err says why. */
int blob_create(const char *name, struct err *err);
/* Writes all of it, however often write() returns early. */
MUST_USE int blob_write(int fd, const void *p, size_t n, struct err *err);
/* No more writing, growing or shrinking. Does nothing where the system has no seals. */
MUST_USE int blob_seal(int fd, struct err *err);
/* The three in one. */
int blob_of(const char *name, const void *p, size_t n, struct err *err);

/* Refuses what is not a regular file of memory, and, where the system has seals, what is not sealed: a peer
 * could cut it short under a mapping (SIGBUS). */
MUST_USE int blob_check(int fd, uint64_t *size, struct err *err);
/* Reads `n` bytes from the start to p; -1 when there are fewer. */
MUST_USE int blob_read(int fd, void *p, size_t n, struct err *err);

#endif
