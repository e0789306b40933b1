/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fork and exec the child calls only async-signal-safe functions. It reports a failure
 * through a close-on-exec pipe; if the pipe ends without a report, exec has succeeded. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define POLL_MS   20 /* where there is no pidfd */
#define KILLED_NS (2 * NS_PER_S)

extern char **environ;

/* ---- starting ---- */

enum step { STEP_DIR, STEP_FDS, STEP_SESSION, STEP_EXEC };

static const char *const step_words[] = {
    "its directory",
    "its descriptors",
    "a session of its own",
    "the program",
};

struct failure {
    enum step step;
    int error;
};

static void add_notices(sigset_t *set)
{
    (void)sigaddset(set, SIGUSR1);
    (void)sigaddset(set, SIGUSR2);
}

static int default_signals(bool holds_notices)
{
    sigset_t blocked;

    for (int signo = 1; signo < NSIG; signo++)
        if (signo != SIGKILL && signo != SIGSTOP)
            /* fails for signals that the C library reserves, which is fine */
            (void)signal(signo, SIG_DFL);
    (void)sigemptyset(&blocked);
    if (holds_notices)
        add_notices(&blocked);
    return sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* All sources are above 2 (see raise_low), so that no dup2 overwrites one that is still needed. */
static int place_standard(const int from[3])
{
    for (int to = 0; to < 3; to++)
        if (from[to] >= 0 && dup2(from[to], to) < 0)
            return -1;
    return 0;
}

static int keep_open(const int *fd, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const int flags = fcntl(fd[i], F_GETFD);

        if (flags < 0 || fcntl(fd[i], F_SETFD, flags & ~FD_CLOEXEC) < 0)
            return -1;
    }
    return 0;
}

struct start {
    const struct process_spec *spec;
    int from[3]; /* copies, numbered above 2, for 0, 1, 2; -1: leave that one unchanged */
    int report;  /* close-on-exec */
    pid_t parent;
};

static void child_fail(const struct start *s, enum step step)
{
    const struct failure f = { step, errno };
    ssize_t n;

    do
        n = write(s->report, &f, sizeof f);
    while (n < 0 && errno == EINTR);
    _exit(127);
}

/* Runs in the child. Never returns. */
static void child_run(const struct start *s)
{
    const struct process_spec *spec = s->spec;

    (void)default_signals(spec->holds_notices);
    if (spec->session && setsid() < 0)
        child_fail(s, STEP_SESSION);
    if (spec->die_with_parent &&
        process_die_with_parent(spec->last_words ? spec->last_words : SIGKILL, s->parent) < 0 &&
        errno == ESRCH)
        _exit(127);
    if (spec->cwd && chdir(spec->cwd) < 0)
        child_fail(s, STEP_DIR);
    if (place_standard(s->from) < 0 || keep_open(spec->keep, spec->n_keep) < 0)
        child_fail(s, STEP_FDS);
    if (spec->env)
        environ = (char **)(uintptr_t)spec->env;
    (void)execvp(spec->argv[0], (char *const *)(uintptr_t)spec->argv);
    child_fail(s, STEP_EXEC);
}

/* Duplicates what becomes 0, 1, 2 to numbers above 2. */
static int raise_low(struct start *s, const struct process_spec *spec)
{
    const int want[3] = { spec->in, spec->out, spec->errs };

    for (int i = 0; i < 3; i++)
        if (want[i] >= 0 && (s->from[i] = fcntl(want[i], F_DUPFD_CLOEXEC, 3)) < 0)
            return -1;
    if (want[0] < 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (null < 0 || (s->from[0] = fd_raise(null, 3)) < 0)
            return -1;
    }
    return 0;
}

/* Waits for the child's exec. 0, or -1 when it reported a failure and is gone. */
static int await_exec(int report, pid_t pid, const struct process_spec *spec, struct err *err)
{
    struct failure f;
    ssize_t n;

    do
        n = read(report, &f, sizeof f);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof f || (unsigned)f.step > STEP_EXEC)
        return err_set(err, "can't start %s: its child process failed before it ran",
                       spec->argv[0]);
    errno = f.error;
    if (f.step == STEP_DIR)
        return err_set(err, "can't start %s in %s: %s", spec->argv[0], spec->cwd,
                       strerror(f.error));
    return err_set(err, "can't start %s (%s): %s", spec->argv[0], step_words[f.step],
                   strerror(f.error));
}

/* Blocks all signals during the fork, so that none of our handlers runs in the child. */
static pid_t fork_masked(const struct start *s, int report_read)
{
    sigset_t all, old;
    pid_t pid;
    int saved;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    if ((pid = fork()) == 0) {
        (void)close(report_read);
        child_run(s);
    }
    saved = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    return pid;
}

pid_t process_start(const struct process_spec *spec, struct err *err)
{
    struct start s = { spec, { -1, -1, -1 }, -1, getpid() };
    int report[2] = { -1, -1 };
    char held[200];
    pid_t pid = -1;

    if (raise_low(&s, spec) < 0 || fd_pipe(report) < 0 ||
        (report[1] = fd_raise(report[1], 3)) < 0) {
        (void)err_set(err, "can't start %s: %s", spec->argv[0], strerror(errno));
        goto out;
    }
    s.report = report[1];
    if ((pid = fork_masked(&s, report[0])) < 0) {
        const int why = errno;

        (void)err_set(err, "can't start %s: %s", spec->argv[0],
                      limit_held(held, sizeof held) ? held : strerror(why));
        goto out;
    }
    fd_close(&report[1]);
    if (await_exec(report[0], pid, spec, err) < 0)
        pid = -1;
out:
    for (int i = 0; i < 3; i++)
        fd_close(&s.from[i]);
    fd_close(&report[0]);
    fd_close(&report[1]);
    return pid;
}

pid_t process_start_piped(const struct process_spec *spec, int *in, struct err *err)
{
    struct process_spec piped = *spec;
    int ends[2];
    pid_t pid;

    *in = -1;
    if (fd_pipe(ends) < 0)
        return err_set(err, "can't start %s: pipe: %s", spec->argv[0], strerror(errno));
    piped.in = ends[0];
    if (fd_write(ends[1], spec->first) < 0)
        pid = err_set(err, "can't start %s: pipe: %s", spec->argv[0], strerror(errno));
    else
        pid = process_start(&piped, err);
    fd_close(&ends[0]);
    if (pid < 0)
        fd_close(&ends[1]);
    *in = ends[1];
    return pid;
}

pid_t process_start_streams(const struct process_spec *spec, int *in, int *out, int *errs,
                            struct err *err)
{
    struct process_spec piped = *spec;
    int from_out[2] = { -1, -1 }, from_errs[2] = { -1, -1 };
    pid_t pid = -1;

    *in = -1;
    if (fd_pipe(from_out) < 0 || fd_pipe(from_errs) < 0 || fd_nonblock(from_out[0], true) < 0 ||
        fd_nonblock(from_errs[0], true) < 0)
        (void)err_set(err, "can't start %s: pipe: %s", spec->argv[0], strerror(errno));
    else {
        piped.out = from_out[1];
        piped.errs = from_errs[1];
        pid = process_start_piped(&piped, in, err);
    }
    fd_close(&from_out[1]);
    fd_close(&from_errs[1]);
    if (pid < 0) {
        fd_close(&from_out[0]);
        fd_close(&from_errs[0]);
    }
    *out = from_out[0];
    *errs = from_errs[0];
    return pid;
}

/* ---- life and death ---- */

/* Waits until fd can be read. false: the time is over. fd < 0: a short while, and true. */
static bool await_fd(int fd, uint64_t end_ns)
{
    const uint64_t now = clock_now(&clock_system);
    const uint64_t ms = now < end_ns ? (end_ns - now) / NS_PER_MS + 1 : 0;
    struct pollfd p = { fd, POLLIN, 0 };

    if (fd < 0)
        return poll(NULL, 0, POLL_MS) == 0 && now < end_ns;
    return poll(&p, 1, ms > INT_MAX ? INT_MAX : (int)ms) != 0 || clock_now(&clock_system) < end_ns;
}

/* 1: out has all, or more than `most`; 0: the time is over. */
static int read_until(int fd, size_t most, uint64_t end_ns, struct buf *out)
{
    char bytes[4096];

    while (out->n <= most) {
        ssize_t n;

        if (!await_fd(fd, end_ns))
            return 0;
        n = read(fd, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
            (n > 0 && buf_add(out, bytes, (size_t)n) < 0))
            break;
    }
    return 1;
}

/* true: it has ended in time, and *status is its status. */
static bool ends_in_time(pid_t pid, uint64_t end_ns, int *status)
{
    int fd = process_pidfd(pid);
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && await_fd(fd, end_ns))
        fd_close(
            &fd); /* where a debugger is told first, the descriptor says too early that it ends */
    fd_close(&fd);
    return ended != 0;
}

void process_reap(pid_t pid)
{
    int status;

    (void)!ends_in_time(pid, clock_now(&clock_system) + KILLED_NS, &status);
}

void process_end_tree(pid_t pid)
{
    if (pid <= 0 || waitpid(pid, NULL, WNOHANG) != 0)
        return;
    orphans_kill_tree(pid);
    process_reap(pid);
}

int process_answer(pid_t pid, int *from, size_t most, uint64_t end_ns, struct buf *out, int *status)
{
    const bool in_time = read_until(*from, most, end_ns, out);

    fd_close(from);
    if (in_time && (pid <= 0 || ends_in_time(pid, end_ns, status)))
        return 0;
    process_end_tree(pid);
    errno = ETIMEDOUT;
    return -1;
}

int process_output(const struct process_spec *spec, size_t most, uint64_t limit_ns, struct buf *out,
                   struct err *err)
{
    const uint64_t end_ns = clock_now(&clock_system) + limit_ns;
    struct process_spec piped = *spec;
    int ends[2], status = -1;
    pid_t pid;

    if (fd_pipe(ends) < 0)
        return err_set(err, "no pipe: %s", strerror(errno));
    piped.out = ends[1];
    pid = process_start(&piped, err);
    fd_close(&ends[1]);
    if (pid <= 0)
        fd_close(&ends[0]);
    if (pid <= 0 || process_answer(pid, &ends[0], most, end_ns, out, &status) == 0)
        return status;
    (void)err_set(err, "%s has not answered within %.3g s, and was ended", spec->argv[0],
                  (double)limit_ns / 1e9);
    errno = ETIMEDOUT;
    return -1;
}

int process_adopt_orphans(void)
{
#if defined(__linux__) && defined(PR_SET_CHILD_SUBREAPER)
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

int process_die_with_parent(int signo, pid_t parent)
{
#if defined(__linux__) && defined(PR_SET_PDEATHSIG)
    if (prctl(PR_SET_PDEATHSIG, signo, 0, 0, 0) < 0)
        return -1;
    if (getppid() == parent)
        return 0;
    errno = ESRCH; /* it ended before we asked to be told */
    return -1;
#else
    (void)signo;
    (void)parent;
    errno = ENOSYS;
    return -1;
#endif
}

int process_pidfd(pid_t pid)
{
#if defined(__linux__) && defined(SYS_pidfd_open)
    return (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

bool process_memory(long pid, uint64_t *bytes)
{
    char path[64], text[4096];
    struct slice rollup;

    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    rollup = file_start(path, text, sizeof text);
    *bytes = file_number_of(rollup, "Pss", 0) * 1024;
    return rollup.n > 0;
}

bool process_cpu(long pid, uint64_t *ns)
{
    const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    unsigned long long own, own_system, children, children_system;
    char path[64], text[1024];
    const char *end; /* of the program's name, which may hold anything */

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    if (ticks == 0 || ticks > NS_PER_S || !(end = strrchr(text, ')')) ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &own,
               &own_system, &children, &children_system) != 4)
        return false;
    *ns = (own + own_system + children + children_system) * (NS_PER_S / ticks);
    return true;
}

/* The clock by which the system says when a process has started. */
static bool boot_time(uint64_t *ns)
{
#ifdef CLOCK_BOOTTIME
    struct timespec t;

    if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
        return false;
    *ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
    return true;
#else
    (void)ns;
    return false;
#endif
}

bool process_age(long pid, uint64_t *ns)
{
    const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    unsigned long long start;
    char path[64], text[1024];
    const char *end; /* of the program's name */
    uint64_t now;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    if (ticks == 0 || ticks > NS_PER_S || !(end = strrchr(text, ')')) ||
        sscanf(end + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &start) != 1 ||
        !boot_time(&now) || now < start * (NS_PER_S / ticks))
        return false;
    *ns = now - start * (NS_PER_S / ticks);
    return true;
}

bool process_uid(long pid, uid_t *uid)
{
    char path[64], text[4096];
    const char *line;

    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    if (!(line = strstr(text, "\nUid:")))
        return false;
    *uid = (uid_t)strtoul(line + strlen("\nUid:"), NULL, 10);
    return true;
}

/* The letter of its state in /proc; '\0': there is no such process. */
static char state_letter(long pid)
{
    char path[64], text[1024];
    const char *end; /* of the program's name */

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : '\0';
}

bool process_is_stopped(long pid)
{
    return state_letter(pid) == 'T';
}

bool process_has_ended(long pid)
{
    const char state = state_letter(pid);

    return !state || state == 'Z' || state == 'X';
}

int process_kill_group(pid_t pid, int signo)
{
    if (pid <= 1) {
        errno = EINVAL; /* kill(-1) and kill(0) would reach everybody, or us */
        return -1;
    }
    return kill(-pid, signo) < 0 && errno != ESRCH ? -1 : 0;
}

/* ---- signals ---- */

bool process_ignores(int signo)
{
    struct sigaction is;

    return (signo == SIGHUP || signo == SIGINT) && sigaction(signo, NULL, &is) == 0 &&
           is.sa_handler == SIG_IGN;
}

static void change_notices(int how)
{
    sigset_t notices;

    (void)sigemptyset(&notices);
    add_notices(&notices);
    (void)sigprocmask(how, &notices, NULL);
}

void process_hold_notices(void)
{
    change_notices(SIG_BLOCK);
}

void process_take_notices(void)
{
    change_notices(SIG_UNBLOCK);
}

/* ---- threads ---- */

int thread_start(pthread_t *thread, void *(*f)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, f, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
