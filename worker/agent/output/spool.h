/* spool.h - what workers have printed lately, kept on disk, so that what a page left out can be
 * read afterwards.
 *
 * A row of files with one record after another, in the order in which the text came. The oldest
 * file goes when they hold more than the limit. Positions count bytes from the first record that
 * there ever was. */
#ifndef WORKER_AGENT_OUTPUT_SPOOL_H
#define WORKER_AGENT_OUTPUT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ranks.h"

#define SPOOL_FILES 8u
#define SPOOL_HOME  UINT32_MAX /* in the place of a rank: what home printed */

struct spool_file {
    int fd;
    char *path;                     /* owned; NULL: it has no name, and is gone with the process */
    uint64_t begin, size;           /* its first position; bytes in it */
    uint64_t first_cell, last_cell; /* the least and the greatest that its records belong to */
};

struct spool {
    char *folder;                   /* owned; NULL: files without a name in $TMPDIR, else /tmp */
    uint64_t limit;                 /* bytes; 0: nothing is kept */
    uint64_t end;                   /* the position behind the last record */
    uint64_t lost_cell;             /* records of cells up to this one have been dropped */
    struct buf fresh;               /* records that stand in no file yet: the last of all */
    uint64_t first_cell, last_cell; /* of those */
    struct spool_file file[SPOOL_FILES];
    unsigned n;    /* files, oldest first */
    unsigned made; /* files made so far, for their names */
    bool complained;
};

/* limit: bytes. folder: mode 0700, copied; NULL: none. */
void spool_init(struct spool *s, const char *folder, uint64_t limit);
void spool_release(struct spool *s); /* the files are gone */

/* Text of a stream. It goes to a file when much has gathered. What can't be kept is dropped, which
 * is logged once. */
void spool_add(struct spool *s, uint64_t cell, uint32_t rank, unsigned stream, unsigned flags,
               struct slice text);

/* Appends to *out the records of a cell from position *at on, of these ranks (home's where `ranks`
 * is empty), as LOGS carries them; not many more bytes than `limit`. Sets *at to where to go on;
 * *more: there may be more; *lost: some that stood before are gone. -1: memory is out. */
MUST_USE int spool_read(struct spool *s, uint64_t cell, const struct ranks *ranks, uint64_t *at,
                        size_t limit, struct buf *out, bool *more, bool *lost);

#endif
