/* SPDX-License-Identifier: BSD-3-Clause */
/* path.h - file names as text. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <string.h>

/* What follows the last slash; without a slash, the whole path. Borrowed from path. */
static inline const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

#endif
