/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ask_at_once.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/clock.h"
#include "base/process.h"

#define AT_ONCE   128u /* processes: few enough for the limit of open files */
#define LEAVE_MS  100  /* for one that has closed its pipe: it ends by itself */
#define GONE_MS   1000 /* for one that got SIGKILL: only the system can hold it */
#define ANSWER_FD 3    /* in a new process: the only one beside 0, 1 and 2 */

struct asked_process {
    struct answer *answer;
    pid_t pid;
    uint64_t end_ns;
};

/* All that run; poll() wants the descriptors beside each other. */
struct all_asked {
    const struct ask_limits *limits;
    struct asked_process of[AT_ONCE];
    struct pollfd fd[AT_ONCE];
    size_t n;
    pid_t *left; /* owned: those that are asked no more, and have not been waited for */
    size_t n_left;
};

/* ---- in a new process ---- */

static void close_from(int first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0)
        return;
#endif
    const long most = sysconf(_SC_OPEN_MAX);

    for (int fd = first; fd < (most > 0 ? (int)most : 1024); fd++)
        (void)close(fd);
}

/* Leaves the terminal and all files of the program that it comes from. false: it can't. */
static bool stand_apart(int fd)
{
    const int high = fcntl(fd, F_DUPFD, ANSWER_FD + 1); /* 0 to 3 are overwritten */
    const int null = open("/dev/null", O_RDWR);

    if (setsid() < 0 || high < 0 || null < 0)
        return false;
    for (int i = 0; i < ANSWER_FD; i++)
        if (null != i && dup2(null, i) < 0)
            return false;
    if (dup2(high, ANSWER_FD) < 0 || fd_cloexec(ANSWER_FD) < 0)
        return false;
    close_from(ANSWER_FD + 1);
    return true;
}

/* ---- in ours ---- */

static int start(struct all_asked *a, struct answer *answer, uint64_t now_ns, struct err *err)
{
    const pid_t self = getpid();
    struct asked_process *one = &a->of[a->n];
    int ends[2];

    if (fd_pipe(ends) < 0)
        return err_set(err, "no pipe: %s", strerror(errno));
    if ((one->pid = fork()) == 0) {
        if (stand_apart(ends[1]) &&
            (process_die_with_parent(SIGKILL, self) == 0 || errno == ENOSYS))
            answer->f(answer->arg, ANSWER_FD);
        _exit(0);
    }
    fd_close(&ends[1]);
    if (one->pid < 0) {
        fd_close(&ends[0]);
        return err_set(err, "no process can be started: %s", strerror(errno));
    }
    answer->begun = true;
    one->answer = answer;
    one->end_ns = now_ns + a->limits->limit_ns;
    a->fd[a->n++] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
    return 0;
}

/* 1: there may be more; 0: that is all, or more than there may be; -1: memory is out. */
static int take(struct all_asked *a, size_t i)
{
    struct answer *answer = a->of[i].answer;
    char bytes[16384];
    const ssize_t n = read(a->fd[i].fd, bytes, sizeof bytes);

    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return 0;
    if (answer->text.n + (size_t)n > a->limits->most) {
        answer->too_long = true;
        return 0;
    }
    return buf_add(&answer->text, bytes, (size_t)n) < 0 ? -1 : 1;
}

static bool is_gone(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) != 0; /* -1: somebody else has waited for it */
}

/* Asks it no more. */
static void drop(struct all_asked *a, size_t i, bool kill_it)
{
    if (kill_it)
        (void)kill(a->of[i].pid, SIGKILL);
    fd_close(&a->fd[i].fd);
    if (!is_gone(a->of[i].pid))
        a->left[a->n_left++] = a->of[i].pid;
    a->of[i] = a->of[--a->n];
    a->fd[i] = a->fd[a->n];
}

static uint64_t first_end(const struct all_asked *a)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < a->n; i++)
        if (a->of[i].end_ns < first)
            first = a->of[i].end_ns;
    return first;
}

/* Takes what has come, and drops who is late. */
static int collect(struct all_asked *a, struct err *err)
{
    const uint64_t before = clock_now(&clock_system), end_ns = first_end(a);
    const int ms = end_ns > before ? (int)((end_ns - before) / 1000000) + 1 : 0;
    const int ready = poll(a->fd, (nfds_t)a->n, ms);
    const uint64_t now = clock_now(&clock_system);

    for (size_t i = a->n; i-- > 0;) { /* the last takes the place of one that is dropped */
        const int more = ready > 0 && a->fd[i].revents ? take(a, i) : 1;

        if (more < 0)
            return err_set(err, "out of memory");
        if (more == 0)
            drop(a, i, a->of[i].answer->too_long);
        else if (now >= a->of[i].end_ns)
            drop(a, i, true);
    }
    return 0;
}

static void wait_for_left(struct all_asked *a, int ms)
{
    const struct timespec pause = { .tv_nsec = 2 * 1000 * 1000 };
    const uint64_t end_ns = clock_now(&clock_system) + (uint64_t)ms * 1000000;

    for (;;) {
        for (size_t i = a->n_left; i-- > 0;)
            if (is_gone(a->left[i]))
                a->left[i] = a->left[--a->n_left];
        if (a->n_left == 0 || clock_now(&clock_system) >= end_ns)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

/* A process that the system holds, such as one that reads from a file server which is gone, does
 * not even end by SIGKILL. Nobody waits for that. */
static void end(struct all_asked *a)
{
    while (a->n)
        drop(a, a->n - 1, true);
    wait_for_left(a, LEAVE_MS);
    for (size_t i = 0; i < a->n_left; i++)
        (void)kill(a->left[i], SIGKILL);
    wait_for_left(a, GONE_MS);
    free(a->left);
}

int ask_at_once(struct answer *of, size_t n, const struct ask_limits *p, struct err *err)
{
    const uint64_t begin_ns = clock_now(&clock_system);
    struct all_asked a = { .limits = p, .left = calloc(n + 1, sizeof *a.left) };
    int rc = a.left ? 0 : err_set(err, "out of memory");

    for (size_t next = 0; rc == 0 && (next < n || a.n);) {
        const uint64_t now = clock_now(&clock_system);

        for (; rc == 0 && next < n && a.n < AT_ONCE; next++)
            if (of[next].f && now - begin_ns < p->begin_ns)
                rc = start(&a, &of[next], now, err);
        if (rc == 0 && a.n)
            rc = collect(&a, err);
    }
    if (a.left)
        end(&a);
    return rc;
}
