/* blob.h - bytes in a memory file (memfd), which in the end nobody can change any more: they pass between processes as
 * its descriptor, beside a message. */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* An empty one, close-on-exec, to be filled by blob_write() (quicker than mapping it). `name` is for /proc. The
 * descriptor is the caller's; -1: *err says why. */
int blob_create(const char *name, struct err *err);
/* Writes all of it there, however often the system returns early. -1: errno says why, too (ENOSPC: it is full). */
MUST_USE int blob_write(int fd, const void *p, size_t n, uint64_t offset, struct err *err);
/* No more writing, growing or shrinking. Does nothing where the system has no seals. */
MUST_USE int blob_seal(int fd, struct err *err);
/* The three in one. */
int blob_of(const char *name, const void *p, size_t n, struct err *err);

/* Refuses what is not a regular file of memory, and, where the system has seals, what is not sealed: a peer
 * could cut it short under a mapping (SIGBUS). */
MUST_USE int blob_check(int fd, uint64_t *size, struct err *err);

/* A piece of one, mapped to be read, so that its bytes are copied once: to where they are wanted. */
struct blob_view {
    struct slice bytes; /* borrowed from the view */
    void *map;
    size_t size;
};

#define BLOB_VIEW_INIT { { NULL, 0 }, NULL, 0 }

/* Nobody may cut the file short meanwhile: it is sealed, or the caller's own. -1: it has fewer bytes, or can't be
 * mapped, and *v is empty. */
MUST_USE int blob_view_open(struct blob_view *v, int fd, uint64_t offset, size_t n, struct err *err);
void blob_view_close(struct blob_view *v); /* an empty one is fine */
/* Copies n bytes from there to p, under the same terms. */
MUST_USE int blob_read(int fd, void *p, size_t n, uint64_t offset, struct err *err);

#endif
