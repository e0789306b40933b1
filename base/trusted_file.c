/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

static int refuse_errno(int why, struct err *err)
{
    return err_set(err, "it can't be read: %s", strerror(why));
}

/* There is nothing at the path that the user could mean, or see. */
static bool is_absent(const char *path)
{
    struct stat link;

    return lstat(path, &link) < 0;
}

/* *fd: the file, or -1. It may be a FIFO, whose open() would wait for a writer. */
static int open_at(const char *path, int *fd, struct err *err)
{
    int why;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd >= 0)
        return 1;
    why = errno;
    if (is_absent(path))
        return 0;
    return why == ENOENT ? err_set(err, "it is a link, and there is nothing where it leads")
                         : refuse_errno(why, err);
}

static bool is_ours(uid_t owner)
{
    return owner == geteuid() || owner == 0;
}

/* May all users make files in the path's folder, as in /tmp? */
static bool is_public(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash && slash > path ? strndup(path, (size_t)(slash - path)) : strdup("/");
    struct stat at;
    const bool open_to_all = !folder || stat(folder, &at) < 0 || at.st_mode & S_IWOTH;

    free(folder);
    return open_to_all;
}

static int check_trust(const char *path, enum trusted_file_of whose, const struct stat *file,
                       struct err *err)
{
    if (whose == TRUSTED_FILE_OF_USER && !is_ours(file->st_uid))
        return err_set(err, "it belongs to another user (uid %lu)", (unsigned long)file->st_uid);
    if (whose == TRUSTED_FILE_OF_USER && file->st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, "other users can write it: chmod go-w %s", path);
    if (whose == TRUSTED_FILE_OF_PROJECT && !is_ours(file->st_uid) && is_public(path))
        return err_set(err,
                       "it belongs to another user (uid %lu), in a folder where all users can make "
                       "files",
                       (unsigned long)file->st_uid);
    return 0;
}

static int check(const char *path, enum trusted_file_of whose, int fd, struct err *err)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return refuse_errno(errno, err);
    if (S_ISDIR(file.st_mode))
        return err_set(err, "it is a folder; a file is wanted");
    if (!S_ISREG(file.st_mode))
        return err_set(err, "it is a device or a pipe; a file is wanted");
    if (file.st_size > TRUSTED_FILE_MAX)
        return err_set(err, "it has %lld bytes; at most %u KiB are read", (long long)file.st_size,
                       TRUSTED_FILE_MAX >> 10);
    return check_trust(path, whose, &file, err);
}

/* The file may grow, or be one whose size the system does not tell, as those in /proc. */
static int read_all(int fd, struct buf *out, struct err *err)
{
    char piece[16384];
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse_errno(errno, err);
        if (out->n + (size_t)n > TRUSTED_FILE_MAX)
            return err_set(err, "it has more than %u KiB; make it shorter", TRUSTED_FILE_MAX >> 10);
        if (buf_add(out, piece, (size_t)n) < 0)
            return err_set(err, "out of memory");
    }
    return 0;
}

/* Names the first line with a byte that can't be in a text. */
static int check_text(struct slice text, struct err *err)
{
    unsigned line = 1;

    for (struct slice rest = text; rest.n; line++) {
        const struct slice one = slice_line(&rest);

        if (slice_has(one, '\0'))
            return err_set(err, "line %u has a NUL byte; a text in UTF-8 is wanted", line);
        if (!utf8_is_valid(one))
            return err_set(err, "line %u is not UTF-8: give the file that encoding", line);
    }
    return 0;
}

int trusted_file_read(const char *path, enum trusted_file_of whose, struct buf *out,
                      struct err *err)
{
    int fd, rc = open_at(path, &fd, err);

    if (rc <= 0)
        return rc;
    rc = check(path, whose, fd, err) < 0 || read_all(fd, out, err) < 0 ||
                 check_text(buf_slice(out), err) < 0
             ? -1
             : 1;
    close(fd);
    return rc;
}
