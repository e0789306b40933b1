/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.h - keeps on disk what workers have printed lately, so that lines which the page left out
 * can be read later.
 *
 * Records are written to a few files, in the order in which the text came. When the files hold more
 * than the limit, the oldest is removed. Positions count bytes from the very first record. */
#ifndef WORKER_AGENT_OUTPUT_SPOOL_H
#define WORKER_AGENT_OUTPUT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rank_set.h"

#define SPOOL_FILES 8u
#define SPOOL_HOME  UINT32_MAX /* in place of a rank: home */

struct spool_file {
    int fd;
    char *path;           /* owned; NULL: the file has no name and is gone when the process ends */
    uint64_t begin, size; /* the position of its first record; its size in bytes */
    uint64_t first_cell, last_cell; /* the least and the greatest cell of its records */
};

struct spool {
    char *folder;       /* owned; NULL: files without a name in $TMPDIR, else /tmp */
    uint64_t limit;     /* bytes; 0: nothing is kept */
    uint64_t end;       /* the position after the last record */
    uint64_t lost_cell; /* records of this cell, or of earlier ones, have been dropped */
    struct buf fresh;   /* the last records, which are not in a file yet */
    uint64_t first_cell, last_cell; /* the cells of those records */
    struct spool_file file[SPOOL_FILES];
    unsigned n;    /* files, oldest first */
    unsigned made; /* number of files made so far, for their names */
    bool complained;
};

/* limit: bytes. folder: mode 0700, copied; NULL: none. */
void spool_init(struct spool *s, const char *folder, uint64_t limit);
void spool_release(struct spool *s); /* also removes the files */

/* Adds text of a stream. It is written to a file once enough text has been collected. Text that
 * can't be kept is dropped; that is logged once. */
void spool_add(struct spool *s, uint64_t cell, uint32_t rank, unsigned stream, unsigned flags,
               struct slice text);

/* Appends to *out the records of a cell and of these ranks (`ranks` empty: home's), from position
 * *at on, as LOGS has them, and few more than `limit` bytes. Sets *at to where to continue. *more:
 * there may be more. *lost: earlier records were dropped. -1: memory is out. */
MUST_USE int spool_read(struct spool *s, uint64_t cell, const struct ranks *ranks, uint64_t *at,
                        size_t limit, struct buf *out, bool *more, bool *lost);

#endif
