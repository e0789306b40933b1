/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "protocol/span_fields.h"

static void tell(const struct notice *n, uint64_t seconds, struct slice text)
{
    struct span m = { .kind = SPAN_NOTICE };

    if (!n->kernel->uplink)
        return;
    m.v[F_NOTICE_SECONDS].u64 = seconds;
    m.v[F_NOTICE_TEXT].s = text;
    kernel_link_send(n->kernel, &m);
}

static void on_usr1(void *notice)
{
    tell(notice, setting_value(SETTING_NOTICE) / NS_PER_S, slice_text("SIGUSR1 has come"));
}

static void on_usr2(void *notice)
{
    tell(notice, setting_value(SETTING_NOTICE) / NS_PER_S, slice_text("SIGUSR2 has come"));
}

/* "SECONDS TEXT" */
static void on_socket(void *notice, int fd, unsigned events)
{
    char line[1024], *end;
    ssize_t n;

    (void)events;
    while ((n = recv(fd, line, sizeof line - 1, MSG_DONTWAIT)) > 0) {
        unsigned long long seconds;

        line[n] = '\0';
        errno = 0;
        seconds = strtoull(line, &end, 10);
        if (end == line || *end != ' ' || errno)
            log_warn("agent", "what has come to its socket is no notice");
        else
            tell(notice, seconds, slice_text(end + 1));
    }
}

static int open_socket(const char *folder, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char *path = runtime_path(folder, RUNTIME_NOTICE, err);
    int fd = -1;

    if (!path)
        return -1;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    (void)unlink(path); /* an agent that was here before has left it */
    free(path);
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0 || fd_cloexec(fd) < 0 || bind(fd, (const void *)&at, sizeof at) < 0) {
        fd_close(&fd);
        return err_set(err, "no socket for `cellspan notice`: %s", strerror(errno));
    }
    return fd;
}

int notice_listen(struct notice *n, struct loop *loop, struct kernel_link *kernel,
                  const char *folder, struct err *err)
{
    struct err none = { "" };

    n->kernel = kernel;
    if (folder && (n->socket = open_socket(folder, &none)) < 0)
        log_warn("agent", "%s", none.text);
    if (!loop_signal(loop, SIGUSR1, on_usr1, n, err) ||
        !loop_signal(loop, SIGUSR2, on_usr2, n, err) ||
        (n->socket >= 0 && !loop_fd(loop, n->socket, LOOP_READ, on_socket, n, err)))
        return -1;
    return 0;
}

void notice_release(struct notice *n)
{
    fd_close(&n->socket);
}
