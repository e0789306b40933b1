/* SPDX-License-Identifier: BSD-3-Clause */
/* ask_at_once.c - whatever the processes that answer do, the one that asks comes to its end, has
 * what the others said, and leaves none of them. A process has nothing of the one that asks. */
#include "cli/ask_at_once.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/process.h"
#include "tests/unit/tap.h"

#define MANY 140u /* more than run at once */

static bool held; /* the system ends no process */

pid_t waitpid(pid_t pid, int *status, int options)
{
    if (held && (options & WNOHANG))
        return 0;
    return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

static const struct ask_limits patient = { 1u << 16, 300 * NS_PER_S, 300 * NS_PER_S };
static const struct ask_limits brief = { 1u << 16, 5 * NS_PER_S, 300 * NS_PER_S };

static void says_yes(const void *arg, int fd)
{
    (void)arg;
    (void)!fd_write(fd, slice_text("yes"));
}

static void says_too_much(const void *arg, int fd)
{
    static char much[1u << 20];

    (void)arg;
    (void)signal(SIGPIPE, SIG_IGN); /* as where root's command got that from its parent */
    while (fd_write(fd, slice_of(much, sizeof much)) == 0)
        ;
    for (;;)
        pause();
}

static void stops_itself(const void *arg, int fd)
{
    (void)arg;
    (void)fd;
    (void)raise(SIGSTOP);
}

static void says_yes_and_stays(const void *arg, int fd)
{
    says_yes(arg, fd);
    close(fd);
    for (;;)
        pause();
}

static bool is_yes(const struct answer *a)
{
    return a->begun && !a->too_long && a->text.n == 3 && memcmp(a->text.p, "yes", 3) == 0;
}

static bool has_child(void)
{
    return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

/* One that does this, and behind it one that answers. */
static void beside(void (*f)(const void *, int), const struct ask_limits *p, const char *what)
{
    struct answer a[2] = { { .f = f, .text = BUF_INIT }, { .f = says_yes, .text = BUF_INIT } };
    struct err err = { "" };

    ok(ask_at_once(a, 2, p, &err) == 0 && is_yes(&a[1]), "%s: the other's answer is there %s", what,
       err.text);
    ok(!has_child(), "%s: no process is left", what);
    ok(a[0].too_long == (f == says_too_much) && a[0].text.n <= p->most,
       "%s: whether it said too much is known", what);
    buf_release(&a[0].text);
    buf_release(&a[1].text);
}

/* More that never answer than run at once, and one behind them. */
static void many_that_sleep(void)
{
    static struct answer a[MANY];
    const struct ask_limits none = { 16, 300 * NS_PER_S, 0 };
    struct err err = { "" };

    for (unsigned i = 0; i < MANY; i++)
        a[i] = (struct answer){ .f = i + 1 < MANY ? stops_itself : says_yes, .text = BUF_INIT };
    a[1].f = NULL;
    ok(ask_at_once(a, MANY, &brief, &err) == 0 && is_yes(&a[MANY - 1]) && !a[1].begun,
       "behind many that do not answer, one does; what asks nothing is not begun");
    ok(!has_child(), "of many, no process is left");
    buf_release(&a[MANY - 1].text);
    a[MANY - 1] = (struct answer){ .f = says_yes, .text = BUF_INIT };
    ok(ask_at_once(&a[MANY - 1], 1, &none, &err) == 0 && !a[MANY - 1].begun,
       "once the time is over, nothing is begun");
}

static void says_what_it_has(const void *arg, int fd)
{
    struct stat null, is;
    bool good = getsid(0) == getpid() && stat("/dev/null", &null) == 0;

    (void)arg;
    for (int i = 0; i < 3; i++)
        good = good && fstat(i, &is) == 0 && is.st_rdev == null.st_rdev;
    for (int i = 3; i < 1000; i++)
        good = good && (i == fd) == (fcntl(i, F_GETFD) >= 0);
    if (good)
        says_yes(arg, fd);
}

static void nothing_is_inherited(void)
{
    struct answer a[3];
    const int before = dup(1), far = fcntl(1, F_DUPFD, 700);
    struct err err = { "" };

    for (unsigned i = 0; i < 3; i++)
        a[i] = (struct answer){ .f = i < 2 ? stops_itself : says_what_it_has, .text = BUF_INIT };
    ok(before > 2 && far >= 700 && ask_at_once(a, 3, &brief, &err) == 0 && is_yes(&a[2]),
       "a process has its answer's descriptor, no other, and no terminal");
    close(before);
    close(far);
    buf_release(&a[2].text);
}

static void one_is_held_by_the_system(void)
{
    struct answer a = { .f = stops_itself, .text = BUF_INIT };
    struct err err = { "" };

    held = true;
    ok(ask_at_once(&a, 1, &brief, &err) == 0, "one that does not end by SIGKILL is left");
    held = false;
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

int main(void)
{
    beside(says_too_much, &patient, "an answer without end");
    beside(stops_itself, &brief, "one that stops itself");
    beside(says_yes_and_stays, &patient, "one that stays after its answer");
    many_that_sleep();
    nothing_is_inherited();
    one_is_held_by_the_system();
    return plan_done();
}
