/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/process.h"

#define BACKLOG 16

static int name_of(struct sockaddr_un *name, const char *path)
{
    const size_t n = strlen(path);

    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (n >= sizeof name->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name->sun_path, path, n + 1);
    return 0;
}

/* fd, or -1 after fd was closed. */
static int keep_if(int rc, int fd)
{
    if (rc < 0)
        fd_close(&fd);
    return fd;
}

static int open_socket(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    return fd < 0 ? -1 : keep_if(fd_cloexec(fd), fd);
}

int unix_listen(const char *path)
{
    struct sockaddr_un name;
    int fd;

    if (name_of(&name, path) < 0 || (fd = open_socket()) < 0)
        return -1;
    (void)unlink(path);
    if (bind(fd, (const struct sockaddr *)&name, sizeof name) < 0)
        return keep_if(-1, fd);
    return keep_if(listen(fd, BACKLOG) < 0 ? -1 : fd_nonblock(fd, true), fd);
}

int unix_connect(const char *path)
{
    struct sockaddr_un name;
    int fd;

    if (name_of(&name, path) < 0 || (fd = open_socket()) < 0)
        return -1;
    return keep_if(connect(fd, (const struct sockaddr *)&name, sizeof name), fd);
}

int unix_accept(int listening)
{
    const int fd = accept(listening, NULL, NULL);

    return fd < 0 ? -1 : keep_if(fd_cloexec(fd), fd);
}
