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

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/uplink.h"

#define AGAIN_NS (100 * NS_PER_MS)

static void send_kept(void *notice);

static void keep(struct notice *n, uint64_t seconds, bool is_signal, struct slice text)
{
    struct err err = { "" };

    n->until_ns = clock_now(&clock_system) + seconds * NS_PER_S;
    n->is_signal = is_signal;
    snprintf(n->text, sizeof n->text, "%.*s", SLICE_ARG(text));
    if (!n->kept && !(n->kept = loop_timer(n->loop, AGAIN_NS, AGAIN_NS, send_kept, n, &err)))
        log_warn("agent", "a notice is lost: %s", err.text);
}

static void tell(struct notice *n, uint64_t seconds, bool is_signal, struct slice text)
{
    struct span m = { .kind = SPAN_NOTICE };

    if (!n->kernel->uplink) {
        keep(n, seconds, is_signal, text);
        return;
    }
    m.v[F_NOTICE_SECONDS].u64 = seconds;
    m.v[F_NOTICE_SIGNAL].u64 = is_signal;
    m.v[F_NOTICE_TEXT].s = text;
    kernel_link_send(n->kernel, &m);
}

static void send_kept(void *notice)
{
    struct notice *n = notice;
    const uint64_t now = clock_now(&clock_system);
    const uint64_t left_ns = n->until_ns > now ? n->until_ns - now : 0;

    if (!n->kernel->uplink)
        return;
    watch_clear(&n->kept);
    tell(n, (left_ns + NS_PER_S - 1) / NS_PER_S, n->is_signal, slice_text(n->text));
}

static void on_usr1(void *notice)
{
    tell(notice, setting_value(SETTING_NOTICE) / NS_PER_S, true, slice_text("SIGUSR1 has come"));
}

static void on_usr2(void *notice)
{
    tell(notice, setting_value(SETTING_NOTICE) / NS_PER_S, true, slice_text("SIGUSR2 has come"));
}

/* Before the kernel has taken the agent in, there is nothing that a notice could save. */
static void on_term(void *notice)
{
    struct notice *n = notice;

    if (n->kernel->uplink && uplink_is_welcome(n->kernel->uplink))
        tell(n, n->sigterm_s, true, slice_text("SIGTERM has come"));
    else
        kernel_link_end(n->kernel, "a signal");
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
            tell(notice, seconds, false, slice_text(end + 1));
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
    n->loop = loop;
    if (folder && (n->socket = open_socket(folder, &none)) < 0)
        log_warn("agent", "%s", none.text);
    if (!loop_signal(loop, SIGUSR1, on_usr1, n, err) ||
        !loop_signal(loop, SIGUSR2, on_usr2, n, err) ||
        (n->sigterm_s && !loop_signal(loop, SIGTERM, on_term, n, err)) ||
        (n->socket >= 0 && !loop_fd(loop, n->socket, LOOP_READ, on_socket, n, err)))
        return -1;
    process_take_notices();
    return 0;
}

void notice_release(struct notice *n)
{
    watch_clear(&n->kept);
    fd_close(&n->socket);
}
