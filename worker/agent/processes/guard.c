/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

#define NAME         "cellspan-guard"
#define LEFT_NS      (5 * NS_PER_S) /* how long ending the remaining processes may take */
#define PARENT_ENDED (SIGRTMIN + 5) /* nobody else sends it */
#define END          SIGHUP         /* to the agent; SIGTERM may be a notice */

/* Gives the guard its own name: somebody who kills all agents shall not kill their guards. */
static void rename_self(int argc, char **argv)
{
    const size_t size = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]);

    memset(argv[0], 0, size);
    memcpy(argv[0], NAME, size < sizeof NAME ? size : sizeof NAME);
}

/* The engine waits until all copies of the agent's streams are closed, so the guard closes its
 * copies, but for stderr, which it may need. */
static void let_go_of_streams(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return;
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    if (null > STDERR_FILENO)
        (void)close(null);
}

/* Waits for all children that have ended. true: the agent is among them. */
static bool reap(pid_t agent, int *how)
{
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == agent) {
            *how = status;
            ended = true;
        }
    return ended;
}

static void end_what_is_left(void)
{
    const uint64_t until_ns = clock_now(&clock_system) + LEFT_NS;
    const struct timespec nap = { 0, 5000000 };
    int status;

    while ((waitpid(-1, &status, WNOHANG) >= 0 || errno != ECHILD) &&
           clock_now(&clock_system) < until_ns) {
        orphans_kill(0);
        (void)nanosleep(&nap, NULL);
    }
}

/* The system sends PARENT_ENDED when the thread that started us ends, though its process goes on:
 * then another thread of it is our parent, whose end is told in the same way. */
static void pass_on(pid_t agent, int signo, pid_t above)
{
    if (signo == PARENT_ENDED && getppid() == above)
        return;
    (void)kill(agent, signo == PARENT_ENDED ? END : signo);
}

static int watch(pid_t agent, const sigset_t *wanted, pid_t above, const char *node)
{
    int how = 0, signo;

    while (!reap(agent, &how))
        if (sigwait(wanted, &signo) == 0 && signo != SIGCHLD)
            pass_on(agent, signo, above);
    end_what_is_left();
    if (WIFEXITED(how))
        return WEXITSTATUS(how);
    fprintf(stderr, "cellspan-agent on %s was killed by signal %d (%s)\n", node, WTERMSIG(how),
            strsignal(WTERMSIG(how)));
    return 128 + WTERMSIG(how);
}

int guard_start(int argc, char **argv, const char *node, bool alone, struct keys *keys, int *status,
                struct err *err)
{
    const pid_t above = getppid(), self = getpid();
    sigset_t wanted, before;
    char name[257]; /* a copy: node may be in argv, which is overwritten */
    pid_t agent;

    if (process_adopt_orphans() < 0)
        return 0; /* on a system without that, a guard could do nothing */
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGCHLD);
    (void)sigaddset(&wanted, SIGTERM);
    (void)sigaddset(&wanted, SIGINT);
    (void)sigaddset(&wanted, SIGHUP);
    (void)sigaddset(&wanted, SIGUSR1); /* two notices */
    (void)sigaddset(&wanted, SIGUSR2);
    (void)sigaddset(&wanted, PARENT_ENDED);
    (void)sigprocmask(SIG_BLOCK, &wanted, &before);
    if ((agent = fork()) < 0)
        return err_set(err, "can't start a process: %s", strerror(errno));
    if (agent == 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        if (process_die_with_parent(END, self) < 0 && errno == ESRCH)
            _exit(1);
        return 0;
    }
    keys_wipe(keys);
    snprintf(name, sizeof name, "%s", node);
    rename_self(argc, argv);
    let_go_of_streams();
    (void)signal(SIGPIPE, SIG_IGN); /* whoever read our stderr may be gone */
    if (!alone && process_die_with_parent(PARENT_ENDED, above) < 0 && errno == ESRCH)
        (void)kill(agent, END);
    *status = watch(agent, &wanted, above, name);
    return 1;
}
