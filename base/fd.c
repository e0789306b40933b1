/* SPDX-License-Identifier: BSD-3-Clause */
/* fd.c - helpers for file descriptors: flags, closing, pipes, and small files such as those of
 * /proc (declared in process.h). */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int fd_cloexec(int fd)
{
    const int flags = fcntl(fd, F_GETFD);

    return flags < 0 ? -1 : fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

int fd_nonblock(int fd, bool on)
{
    const int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -1;
    return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

void fd_close(int *fd)
{
    const int saved = errno;

    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    errno = saved;
}

int fd_cloexec_both(int fd[2])
{
    if (fd_cloexec(fd[0]) == 0 && fd_cloexec(fd[1]) == 0)
        return 0;
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    return -1;
}

bool fd_open_standard(void)
{
    bool was_open[STDERR_FILENO + 1];

    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        was_open[fd] = fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
        if (!was_open[fd] && open("/dev/null", O_RDONLY) < 0) /* it gets the lowest free number */
            return was_open[STDIN_FILENO];
    }
    return was_open[STDIN_FILENO];
}

int fd_pipe(int fd[2])
{
#ifdef __linux__
    return pipe2(fd, O_CLOEXEC);
#else
    if (pipe(fd) < 0)
        return -1;
    return fd_cloexec_both(fd);
#endif
}

size_t fd_waiting(int fd)
{
    int n = 0;

    return ioctl(fd, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

int fd_write(int fd, struct slice bytes)
{
    while (bytes.n) {
        const ssize_t n = write(fd, bytes.p, bytes.n);

        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        if (n > 0)
            bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
    }
    return 0;
}

struct slice file_start(const char *path, char *to, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    if (fd < 0)
        return slice_of(to, 0);
    while (n < size && (got = read(fd, to + n, size - n)) > 0)
        n += (size_t)got;
    close(fd);
    return slice_of(to, n);
}

uint64_t file_number(struct slice text, uint64_t none)
{
    uint64_t value = 0;
    size_t i = 0;

    for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        value = value > UINT64_MAX / 16 ? value : value * 10 + (uint64_t)(text.p[i] - '0');
    return i == 0 ? none : value;
}

uint64_t file_number_of(struct slice text, const char *name, uint64_t none)
{
    const size_t n = strlen(name);

    while (text.n) {
        struct slice line = slice_line(&text);

        if (line.n <= n || memcmp(line.p, name, n) != 0 || (line.p[n] != ':' && line.p[n] != ' '))
            continue;
        for (line = slice_of(line.p + n + 1, line.n - n - 1); line.n && *line.p == ' ';)
            line = slice_of(line.p + 1, line.n - 1);
        return file_number(line, none);
    }
    return none;
}

bool fd_is_over(int fd)
{
    char junk[512];
    const ssize_t n = read(fd, junk, sizeof junk);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

int fd_raise(int fd, int least)
{
    int raised;

    if (fd >= least)
        return fd_cloexec(fd) < 0 ? -1 : fd;
    if ((raised = fcntl(fd, F_DUPFD_CLOEXEC, least)) >= 0)
        fd_close(&fd);
    return raised;
}
