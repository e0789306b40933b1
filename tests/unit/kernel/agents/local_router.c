/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of kernel/agents/local_router.c: when there is no descriptor for a connection. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/unix_socket.h"
#include "kernel/agents/router.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/tap.h"

static unsigned asked; /* how often somebody asked for the time */

static uint64_t now_ns(void *arg)
{
    (void)arg;
    asked++;
    return clock_now(&clock_system);
}

static void stop(void *loop)
{
    loop_stop(loop);
}

static void pass(struct loop *loop, unsigned ms)
{
    struct watch *w = loop_timer(loop, ms * NS_PER_MS, 0, stop, loop, NULL);

    if (!w || loop_run(loop, NULL) < 0)
        abort();
    watch_stop(w);
}

static void without_descriptors_it_rests(void)
{
    const struct clock clock = { .now_ns = now_ns };
    const struct router_handler handler = { NULL, NULL, NULL, NULL };
    char folder[] = "/tmp/cellspan-local-XXXXXX", path[64];
    struct err err = { "" };
    struct loop *loop = loop_create(&clock, &err);
    struct router *r;
    struct rlimit was;
    int fd, next;

    if (!loop || !mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/s", folder);
    r = local_router_create(loop, path, &handler, &err);
    if (!ok(r, "a router %s", err.text))
        return;
    fd = unix_connect(path);
    descriptors_end(&was);
    asked = 0;
    pass(loop, 300);
    ok(asked < 200, "a connection that can't be accepted keeps nobody busy: %u", asked);
    if (setrlimit(RLIMIT_NOFILE, &was) < 0)
        abort();
    next = dup(STDIN_FILENO);
    close(next);
    for (unsigned k = 0; fcntl(next, F_GETFD) < 0 && k < 6000; k++)
        pass(loop, 10);
    ok(fcntl(next, F_GETFD) >= 0, "and is accepted when it can be");
    close(fd);
    router_destroy(r);
    loop_destroy(loop);
    (void)rmdir(folder);
}

int main(void)
{
    without_descriptors_it_rests();
    return plan_done();
}
