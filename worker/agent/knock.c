/* knock.c - see knock.h. */
#include "worker/agent/knock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "worker/agent/address.h"

struct knock {
    struct loop *loop;
    int fd;
    struct watch *watch, *later; /* `later`: connect(2) failed at once */
    int error;
    knock_f f;
    void *arg;
    bool over;
};

void knock_stop(struct knock *k)
{
    if (!k || k->over)
        return;
    k->over = true;
    watch_stop(k->watch);
    watch_stop(k->later);
    fd_close(&k->fd);
    loop_free(k->loop, k); /* callers up the stack still look at it */
}

static void answered(struct loop *loop, void *arg)
{
    struct knock *k = arg;

    (void)loop;
    knock_stop(k);
    k->f(k->arg, k->error);
}

static void writable(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct knock *k = arg;
    socklen_t size = sizeof k->error;

    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &k->error, &size) < 0)
        k->error = errno;
    answered(loop, k);
}

struct knock *knock_start(struct loop *loop, struct slice endpoint, knock_f f, void *arg,
                          struct err *err)
{
    struct knock *k = calloc(1, sizeof *k);
    struct address to;

    if (!k)
        return err_null(err, "out of memory");
    k->loop = loop;
    k->f = f;
    k->arg = arg;
    k->fd = -1;
    if (address_parse(endpoint, &to, err) < 0)
        goto fail;
    if ((k->fd = socket(to.socket.ss_family, SOCK_STREAM, 0)) < 0 || fd_cloexec(k->fd) < 0 ||
        fd_nonblock(k->fd, true) < 0 ||
        (connect(k->fd, (const struct sockaddr *)&to.socket, to.size) < 0 &&
         errno != EINPROGRESS)) {
        k->error = errno;
        if ((k->later = loop_timer(loop, 0, 0, answered, k, err)))
            return k;
    } else if ((k->watch = loop_fd(loop, k->fd, LOOP_WRITE, writable, k, err))) {
        return k;
    }
fail:
    knock_stop(k);
    return NULL;
}
