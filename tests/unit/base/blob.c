/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/blob.h. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/unit/tap.h"

static void a_sealed_blob_can_only_be_read(void)
{
    struct err err = { "" };
    uint64_t size = 0;
    char back[5] = "";
    int fd = blob_of("test", "hello", 5, &err);

    if (!ok(fd >= 0, "a blob is made of bytes (%s)", err.text))
        return;
    ok(blob_check(fd, &size, &err) == 0 && size == 5, "it has their size (%s)", err.text);
    ok(blob_read(fd, back, 5, 0, &err) == 0 && memcmp(back, "hello", 5) == 0, "and their content");
    is_int(fcntl(fd, F_GETFD), FD_CLOEXEC, "it is close-on-exec");
#ifdef MFD_ALLOW_SEALING
    char *map;

    ok(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM, "nobody can write to it any more");
    ok(ftruncate(fd, 0) < 0 && ftruncate(fd, 100) < 0, "nor make it shorter or longer");
    map = mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (ok(map != MAP_FAILED, "it can be mapped for writing privately")) {
        map[0] = 'J';
        ok(blob_read(fd, back, 5, 0, NULL) == 0 && back[0] == 'h', "which does not show in it");
        munmap(map, 5);
    }
#endif
    fd_close(&fd);
}

static void what_is_no_blob_is_refused(void)
{
    struct err soft_err = { "" }, null_err = { "" }, short_err = { "" }, closed_err = { "" };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int soft = blob_create("test", NULL);
    uint64_t size = 0;
    char back[2];

    ok(blob_check(null, &size, &null_err) < 0, "%s", null_err.text);
    ok(blob_check(-1, &size, &closed_err) < 0, "%s", closed_err.text);
#ifdef MFD_ALLOW_SEALING
    ok(blob_check(soft, &size, &soft_err) < 0, "%s", soft_err.text);
#endif
    ok(blob_write(soft, "a", 1, 0, NULL) == 0 && blob_read(soft, back, 2, 0, &short_err) < 0, "%s",
       short_err.text);
    ok(blob_write(null, "a", 1, 0, NULL) < 0 && blob_seal(null, NULL) < 0,
       "nor can it be written or sealed");
    fd_close(&null);
    fd_close(&soft);
}

static void a_blob_is_written_piece_by_piece(void)
{
    int fd = blob_create("test", NULL), soon = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct err err = { "" };
    char back[4] = "";

    ok(blob_write(fd, "cd", 2, 2, NULL) == 0 && blob_write(fd, "ab", 2, 0, NULL) == 0,
       "in any order");
    ok(blob_read(fd, back, 4, 0, &err) == 0 && memcmp(back, "abcd", 4) == 0,
       "each where it belongs %s", err.text);
    errno = 0;
    ok(blob_write(soon, "a", 1, 0, &err) < 0 && errno == ENOSPC, "%s", err.text);
    fd_close(&soon);
    fd_close(&fd);
}

static void a_blob_may_be_empty(void)
{
    uint64_t size = 1;
    int fd = blob_of("test", NULL, 0, NULL);

    ok(fd >= 0 && blob_check(fd, &size, NULL) == 0 && size == 0 &&
           blob_read(fd, NULL, 0, 0, NULL) == 0,
       "no bytes make a blob too");
    fd_close(&fd);
}

/* Also across pages, from where no page begins. */
static void a_blob_is_read_where_it_is_and_elsewhere(void)
{
    const size_t size = 3 * (size_t)sysconf(_SC_PAGESIZE);
    char *bytes = malloc(size), *back = malloc(size);
    struct slice seen = slice_of("", 0);
    struct err err = { "" };
    int fd;

    for (size_t i = 0; bytes && i < size; i++)
        bytes[i] = (char)(i * 7 % 251);
    fd = bytes && back ? blob_of("test", bytes, size, NULL) : -1;
    ok(fd >= 0 && blob_map(fd, size, &seen, &err) == 0, "a blob is mapped (%s)", err.text);
    ok(seen.n == size && memcmp(seen.p, bytes, size) == 0, "and has those bytes");
    blob_unmap(seen);
    ok(blob_map(fd, size - 1, &seen, NULL) == 0 && seen.n == size - 1,
       "or all but the last of them");
    blob_unmap(seen);
    ok(blob_read(fd, back, size - 1, 1, NULL) == 0 && memcmp(back, bytes + 1, size - 1) == 0,
       "all but the first byte is read");
    ok(blob_map(fd, 0, &seen, NULL) == 0 && seen.n == 0, "no bytes are none");
    blob_unmap(seen);
    ok(blob_map(fd, size + 1, &seen, &err) < 0 && seen.n == 0, "%s", err.text);
    ok(blob_map(fd, SIZE_MAX, &seen, NULL) < 0 && blob_read(fd, back, 1, UINT64_MAX, NULL) < 0 &&
           blob_read(fd, back, SIZE_MAX, 1, NULL) < 0 && blob_read(fd, back, 1, size, NULL) < 0,
       "nor what no file holds");
    fd_close(&fd);
    ok(blob_map(fd, 1, &seen, &err) < 0 && seen.n == 0, "%s", err.text);
    ok(blob_read(fd, back, 1, 0, &err) < 0, "%s", err.text);
    free(bytes);
    free(back);
}

int main(void)
{
    a_blob_is_read_where_it_is_and_elsewhere();
    a_sealed_blob_can_only_be_read();
    what_is_no_blob_is_refused();
    a_blob_is_written_piece_by_piece();
    a_blob_may_be_empty();
    return plan_done();
}
