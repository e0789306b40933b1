/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_probe.c - finds out why a tcp endpoint can't be reached (declared in dial.h). */
#include "worker/agent/net/dial.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/process.h"

struct tcp_probe {
    struct loop *loop;
    int fd;
    struct watch *watch, *later; /* `later`: connect(2) failed at once */
    int error;
    tcp_probe_f f;
    void *arg;
    bool over;
};

void tcp_probe_stop(struct tcp_probe *p)
{
    if (!p || p->over)
        return;
    p->over = true;
    watch_stop(p->watch);
    watch_stop(p->later);
    fd_close(&p->fd);
    loop_free(p->loop, p); /* functions up the stack still use it */
}

static void answered(void *arg)
{
    struct tcp_probe *p = arg;

    tcp_probe_stop(p);
    p->f(p->arg, p->error);
}

static void writable(void *arg, int fd, unsigned events)
{
    struct tcp_probe *p = arg;
    socklen_t size = sizeof p->error;

    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &p->error, &size) < 0)
        p->error = errno;
    answered(p);
}

struct tcp_probe *tcp_probe_start(struct loop *loop, struct slice endpoint, tcp_probe_f f,
                                  void *arg, struct err *err)
{
    struct tcp_probe *p = calloc(1, sizeof *p);
    struct address to;

    if (!p)
        return err_null(err, "out of memory");
    p->loop = loop;
    p->f = f;
    p->arg = arg;
    p->fd = -1;
    if (address_parse(endpoint, &to, err) < 0)
        goto fail;
    if ((p->fd = socket(to.socket.ss_family, SOCK_STREAM, 0)) < 0 || fd_cloexec(p->fd) < 0 ||
        fd_nonblock(p->fd, true) < 0 ||
        (connect(p->fd, (const struct sockaddr *)&to.socket, to.size) < 0 &&
         errno != EINPROGRESS)) {
        p->error = errno;
        if ((p->later = loop_timer(loop, 0, 0, answered, p, err)))
            return p;
    } else if ((p->watch = loop_fd(loop, p->fd, LOOP_WRITE, writable, p, err))) {
        return p;
    }
fail:
    tcp_probe_stop(p);
    return NULL;
}
