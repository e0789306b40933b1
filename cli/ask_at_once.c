/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ask_at_once.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

#define AT_ONCE 128u /* processes: few enough for the limit of open files */

struct asked_process {
    struct answer *answer;
    pid_t pid; /* 0: not started */
};

/* All that run; poll() wants the descriptors beside each other. */
struct round {
    struct asked_process of[AT_ONCE];
    struct pollfd fd[AT_ONCE]; /* fd -1: its text is complete */
    size_t n, open;
};

static int start(struct round *r, struct answer *answer, struct err *err)
{
    struct asked_process *one = &r->of[r->n];
    int ends[2];

    if (fd_pipe(ends) < 0)
        return err_set(err, "no pipe: %s", strerror(errno));
    if ((one->pid = fork()) == 0) {
        answer->f(answer->arg, ends[1]);
        _exit(0);
    }
    fd_close(&ends[1]);
    if (one->pid < 0) {
        fd_close(&ends[0]);
        return err_set(err, "no process can be started: %s", strerror(errno));
    }
    one->answer = answer;
    r->fd[r->n] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
    r->n++;
    r->open++;
    return 0;
}

static int take(struct round *r, size_t i, size_t most)
{
    struct buf *text = &r->of[i].answer->text;
    char bytes[16384];
    const ssize_t n = read(r->fd[i].fd, bytes, sizeof bytes);

    if (n < 0 && errno == EINTR)
        return 0;
    if (n > 0 && text->n + (size_t)n <= most)
        return buf_add(text, bytes, (size_t)n);
    fd_close(&r->fd[i].fd);
    r->open--;
    return 0;
}

static int collect(struct round *r, size_t most, uint64_t end_ns, struct err *err)
{
    while (r->open) {
        const uint64_t now = clock_now(&clock_system);
        const int left = now < end_ns ? (int)((end_ns - now) / 1000000) + 1 : 0;
        const int ready = left ? poll(r->fd, (nfds_t)r->n, left) : 0;

        if (ready == 0)
            return 0;
        for (size_t i = 0; ready > 0 && i < r->n; i++)
            if (r->fd[i].fd >= 0 && r->fd[i].revents && take(r, i, most) < 0)
                return err_set(err, "out of memory");
    }
    return 0;
}

/* Whoever has not ended yet is late, or holds its end of the pipe without need. */
static void end(struct round *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->fd[i].fd >= 0)
            (void)kill(r->of[i].pid, SIGKILL);
        fd_close(&r->fd[i].fd);
    }
    for (size_t i = 0; i < r->n; i++)
        while (waitpid(r->of[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

int ask_at_once(struct answer *of, size_t n, size_t most, uint64_t limit_ns, struct err *err)
{
    int rc = 0;

    for (size_t next = 0; rc == 0 && next < n;) {
        struct round r = { .n = 0, .open = 0 };

        while (rc == 0 && next < n && r.n < AT_ONCE)
            rc = start(&r, &of[next++], err);
        if (rc == 0)
            rc = collect(&r, most, clock_now(&clock_system) + limit_ns, err);
        end(&r);
    }
    return rc;
}
