/* SPDX-License-Identifier: BSD-3-Clause */
/* path_probe.c - see path_probe.h. The child is forked from a process with threads, so it only
 * makes async-signal-safe calls. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/agent/processes/path_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/process.h"

#define OVER (-1)
/* descriptors that are closed one by one, if the system can't close a range */
#define FDS_MAX 65536

/* What the child writes: which path it examines now, and at the end what it found. */
struct news {
    int at; /* index of a program; n: the folder; OVER: the end */
    int found, folder;
};

struct path_probe {
    struct path_probe *next;
    struct path_probes *probes;
    struct path_probe_for what;
    pid_t pid;
    int fd;
    struct watch *watch, *limit;
    int at;
    path_probe_f f;
    void *arg;
};

/* ---- in the child ---- */

/* The file is opened and read, too: only then a network file system asks its server whether it is
 * still there. */
static bool is_program(const char *path)
{
    struct stat s;
    char byte;
    int fd;

    if (stat(path, &s) < 0 || !S_ISREG(s.st_mode) || access(path, X_OK) < 0)
        return false;
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
        (void)!read(fd, &byte, 1);
        close(fd);
    }
    return true;
}

static bool is_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && access(path, X_OK) == 0;
}

/* Closes all descriptors but one. A child that hangs must not keep the agent's sockets open,
 * because others notice the agent's end by them. */
static void close_others(int keep, int most)
{
#ifdef SYS_close_range
    if ((keep == 0 || syscall(SYS_close_range, 0u, (unsigned)keep - 1, 0u) == 0) &&
        syscall(SYS_close_range, (unsigned)keep + 1, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = 0; fd < most; fd++)
        if (fd != keep)
            (void)close(fd);
}

static void say(int fd, int at, int found, bool folder)
{
    const struct news n = { at, found, folder };

    if (write(fd, &n, sizeof n) != (ssize_t)sizeof n)
        _exit(1);
}

static void child(const struct path_probe_for *what, int fd, int most, pid_t parent)
{
    int found = -1;
    bool folder = false;

    if (process_die_with_parent(SIGKILL, parent) < 0 && errno == ESRCH)
        _exit(1);
    close_others(fd, most);
    for (size_t i = 0; found < 0 && i < what->n; i++) {
        say(fd, (int)i, -1, false);
        if (is_program(what->program[i]))
            found = (int)i;
    }
    if (what->folder[0]) {
        say(fd, (int)what->n, found, false);
        folder = is_folder(what->folder);
    }
    say(fd, OVER, found, folder);
    _exit(0);
}

/* ---- in the agent ---- */

static void finish_probe(struct path_probe *l, int found, bool folder, const char *why)
{
    struct path_probe **at = &l->probes->first;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    watch_stop(l->watch);
    watch_stop(l->limit);
    fd_close(&l->fd);
    l->f(l->arg, found, folder, why);
    free(l);
}

static void readable(void *arg, int fd, unsigned events)
{
    struct path_probe *l = arg;
    struct news n;
    const ssize_t size = read(fd, &n, sizeof n);

    (void)events;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size != (ssize_t)sizeof n)
        finish_probe(l, -1, false, "the process that probes for its Python ended early");
    else if (n.at == OVER)
        finish_probe(l, n.found, n.folder != 0, NULL);
    else
        l->at = n.at;
}

static void too_long(void *arg)
{
    struct path_probe *l = arg;
    const char *at = l->at >= 0 && (size_t)l->at < l->what.n ? l->what.program[l->at]
                                                             : l->what.folder;
    char why[512];

    snprintf(
        why, sizeof why,
        "nothing came back about %.300s for %g s: the file system that it is on does not answer",
        at, (double)l->what.limit_ns / (double)NS_PER_S);
    (void)kill(l->pid, SIGKILL);
    finish_probe(l, -1, false, why);
}

static int most_fds(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < FDS_MAX ? (int)limit.rlim_cur
                                                                             : FDS_MAX;
}

/* All signals are blocked during the fork and in the child: no handler of the agent runs there. */
static pid_t fork_child(const struct path_probe_for *what, int fd)
{
    const pid_t parent = getpid();
    const int most = most_fds();
    sigset_t all, old;
    pid_t pid;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    if ((pid = fork()) == 0)
        child(what, fd, most, parent);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static int start(struct path_probe *l, struct err *err)
{
    struct loop *loop = l->probes->loop;
    int fd[2];

    if (fd_pipe(fd) < 0)
        return err_set(err, "pipe: %s", strerror(errno));
    l->fd = fd[0];
    if ((l->pid = fork_child(&l->what, fd[1])) < 0)
        (void)err_set(err, "fork: %s", strerror(errno));
    close(fd[1]);
    if (l->pid < 0 || fd_nonblock(l->fd, true) < 0 ||
        !(l->watch = loop_fd(loop, l->fd, LOOP_READ, readable, l, err)))
        return err->text[0] ? -1 : err_set(err, "pipe: %s", strerror(errno));
    return (l->limit = loop_timer(loop, l->what.limit_ns, 0, too_long, l, err)) ? 0 : -1;
}

int path_probe_start(struct path_probes *probes, const struct path_probe_for *what, path_probe_f f,
                     void *arg, struct err *err)
{
    struct path_probe *l = calloc(1, sizeof *l);

    if (!l)
        return err_set(err, "out of memory");
    *l = (struct path_probe){ .probes = probes, .what = *what, .fd = -1, .f = f, .arg = arg };
    if (start(l, err) == 0) {
        l->next = probes->first;
        probes->first = l;
        return 0;
    }
    if (l->pid > 0)
        (void)kill(l->pid, SIGKILL);
    watch_stop(l->watch);
    fd_close(&l->fd);
    free(l);
    return -1;
}

void path_probes_end(struct path_probes *probes)
{
    while (probes->first)
        finish_probe(probes->first, -1, false, "the agent ends");
}
