/* SPDX-License-Identifier: BSD-3-Clause */
/* Where there are no memfds, it uses an unlinked file under $TMPDIR. That has no seals, but it can
 * be written and read like a memfd. (Some systems don't let write() fill POSIX shared memory.) */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#if defined(MFD_ALLOW_SEALING) && defined(F_ADD_SEALS)
#define HAVE_SEALS 1
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#ifdef HAVE_SEALS
/* Linux 6.3 and later expect MFD_NOEXEC_SEAL (no execution); earlier ones don't know it. */
static int memory_file(const char *name)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}
#else
static int memory_file(const char *name)
{
    const char *dir = getenv("TMPDIR");
    char path[1024];
    int fd;

    (void)name;
    if (snprintf(path, sizeof path, "%s/cellspan-XXXXXX", dir && *dir ? dir : "/tmp") >=
        (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if ((fd = mkstemp(path)) < 0)
        return -1;
    (void)unlink(path);
    if (fd_cloexec(fd) < 0)
        fd_close(&fd);
    return fd;
}
#endif

int blob_create(const char *name, struct err *err)
{
    int fd = memory_file(name);

    /* a new memfd has mode 0777: whoever can reach it through /proc could open it */
    if (fd >= 0 && fchmod(fd, 0600) == 0)
        return fd;
    (void)err_set(err, "can't make a memory file: %s", strerror(errno));
    fd_close(&fd);
    return -1;
}

int blob_write(int fd, const void *p, size_t n, uint64_t offset, struct err *err)
{
    const char *at = p;

    while (n > 0) {
        const ssize_t k = pwrite(fd, at, n, (off_t)offset);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            const int why = k < 0 ? errno : ENOSPC;

            (void)err_set(err, "can't write %zu more bytes to a memory file: %s", n, strerror(why));
            errno = why;
            return -1;
        }
        at += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return 0;
}

int blob_seal(int fd, struct err *err)
{
#ifdef HAVE_SEALS
    if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0)
        return err_set(err, "can't seal a memory file: %s", strerror(errno));
#else
    (void)fd;
    (void)err;
#endif
    return 0;
}

int blob_of(const char *name, const void *p, size_t n, struct err *err)
{
    int fd = blob_create(name, err);

    if (fd >= 0 && (blob_write(fd, p, n, 0, err) < 0 || blob_seal(fd, err) < 0))
        fd_close(&fd);
    return fd;
}

int blob_check(int fd, uint64_t *size, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, "can't look at a memory file: %s", strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size < 0)
        return err_set(err, "a descriptor that should be a memory file is something else");
#ifdef HAVE_SEALS
    const int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS)
        return err_set(err, "a memory file is not sealed: its sender could change it");
#endif
    *size = (uint64_t)st.st_size;
    return 0;
}

static int too_short(struct err *err, size_t n, uint64_t offset)
{
    return err_set(err, "a memory file has fewer than %zu bytes at %" PRIu64, n, offset);
}

int blob_read(int fd, void *p, size_t n, uint64_t offset, struct err *err)
{
    char *at = p;

    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return too_short(err, n, offset);
    while (n > 0) {
        const ssize_t k = pread(fd, at, n, (off_t)offset);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_set(err, "a memory file can't be read: %s", strerror(errno));
        if (k == 0)
            return too_short(err, n, offset);
        at += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return 0;
}

int blob_map(int fd, size_t n, struct slice *bytes, struct err *err)
{
    struct stat st;
    void *map;

    *bytes = slice_of("", 0);
    if (n == 0)
        return 0;
    if (fstat(fd, &st) < 0)
        return err_set(err, "can't look at a memory file: %s", strerror(errno));
    if (st.st_size < 0 || n > (uint64_t)st.st_size)
        return too_short(err, n, 0);
    /* Before Linux 6.7, MAP_SHARED of a sealed file is refused even for reading. */
    map = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return err_set(err, "a memory file can't be mapped: %s", strerror(errno));
    *bytes = slice_of(map, n);
    return 0;
}

void blob_unmap(struct slice bytes)
{
    if (bytes.n > 0)
        (void)munmap((void *)(uintptr_t)bytes.p, bytes.n);
}
