/* blob.h - bytes in a memory file (memfd), which in the end nobody can change any more: they pass
 * between processes as its descriptor, beside a message. */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* An empty one, close-on-exec, to be filled by blob_write() (quicker than mapping it). `name` is
 * for /proc. The descriptor is the caller's; -1: *err says why. */
int blob_create(const char *name, struct err *err);
/* Writes all of it there, however often the system returns early. -1: errno says why, too (ENOSPC:
 * it is full). */
MUST_USE int blob_write(int fd, const void *p, size_t n, uint64_t offset, struct err *err);
/* No more writing, growing or shrinking. Does nothing where the system has no seals. */
MUST_USE int blob_seal(int fd, struct err *err);
/* The three in one. */
int blob_of(const char *name, const void *p, size_t n, struct err *err);

/* Refuses what is not a regular file of memory, and, where the system has seals, what is not
 * sealed: a peer could cut it short under a mapping (SIGBUS). */
MUST_USE int blob_check(int fd, uint64_t *size, struct err *err);

/* Copies n bytes from `offset` on to p. -1: it has fewer, or can't be read. */
MUST_USE int blob_read(int fd, void *p, size_t n, uint64_t offset, struct err *err);

/* Its first n bytes, to be read in place until blob_unmap(). Nobody may cut it short meanwhile: it
 * is sealed, or the caller's own. Where the bytes are copied piece by piece, map all at once, or
 * use blob_read(): what maps and unmaps each piece stops the process's other threads each time. -1:
 * it has fewer, or can't be mapped. */
MUST_USE int blob_map(int fd, size_t n, struct slice *bytes, struct err *err);
void blob_unmap(struct slice bytes); /* what blob_map() gave; none is fine */

#endif
