/* SPDX-License-Identifier: BSD-3-Clause */
/* trusted_file.h - reads a small file of settings whole, if those who may write it are trusted.
 * Nothing that lies at its path can make the caller wait or fill its memory: a FIFO, a device, a
 * folder and a large file are refused. */
#ifndef BASE_TRUSTED_FILE_H
#define BASE_TRUSTED_FILE_H

#include "base/buf.h"

#define TRUSTED_FILE_MAX (64u << 10) /* bytes; the parser takes 0.2 s for the worst such file */

enum trusted_file_of {
    TRUSTED_FILE_OF_SITE,
    /* Owned by the user or root, and nobody else may write it: as ssh wants its own. */
    TRUSTED_FILE_OF_USER,
    /* Anybody's, but in a folder in which all users may make files, the user's or root's. */
    TRUSTED_FILE_OF_PROJECT
};

/* Appends the file, which is UTF-8 without NUL. 1: it was read. 0: there is no such file. -1: *err
 * says why it is not used, and the caller names the path. */
MUST_USE int trusted_file_read(const char *path, enum trusted_file_of whose, struct buf *out,
                               struct err *err);

#endif
