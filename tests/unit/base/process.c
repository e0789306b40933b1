/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/ptrace.h>
#endif

#include "base/buf.h"
#include "tests/unit/tap.h"

#define WAIT_MS 60000

static int exit_status(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* All that comes from fd until its end. */
static void read_all(int fd, struct buf *out)
{
    char part[512];
    ssize_t n;

    while ((n = read(fd, part, sizeof part)) > 0)
        if (buf_add(out, part, (size_t)n) < 0)
            return;
}

/* Runs `sh -c script` as spec says (its argv and out are set here); what it wrote comes in *out. */
static int run_sh(struct process_spec *spec, const char *script, struct buf *out)
{
    const char *const argv[] = { "sh", "-c", script, NULL };
    struct err err = { "" };
    int ends[2];
    pid_t pid;

    if (fd_pipe(ends) < 0)
        return -1;
    spec->argv = argv;
    spec->out = ends[1];
    pid = process_start(spec, &err);
    fd_close(&ends[1]);
    if (pid < 0)
        diag("%s", err.text);
    else
        read_all(ends[0], out);
    fd_close(&ends[0]);
    return pid < 0 ? -1 : exit_status(pid);
}

static void a_child_gets_what_it_was_given(void)
{
    const char *const env[] = { "PATH=/usr/bin:/bin", "CELLSPAN_TEST=yes", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf out = BUF_INIT;

    spec.env = env;
    spec.cwd = "/";
    is_int(run_sh(&spec, "read x || echo end; echo $CELLSPAN_TEST; pwd; exit 3", &out), 3,
           "a child runs, and its status is told");
    is_text(out.p, "end\nyes\n/\n", "with an empty stdin, its environment and its directory");
    buf_release(&out);
}

static void only_what_is_kept_is_inherited(void)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf out = BUF_INIT;
    char script[128];
    int kept[2], other[2];

    if (fd_pipe(kept) < 0 || fd_pipe(other) < 0)
        return;
    spec.keep = kept;
    spec.n_keep = 1;
    snprintf(script, sizeof script,
             "test -e /dev/fd/%d && echo kept; test -e /dev/fd/%d || echo closed", kept[0],
             other[0]);
    is_int(run_sh(&spec, script, &out), 0, "a child runs");
    is_text(out.p, "kept\nclosed\n", "it has the descriptor that it keeps, and no other");
    is_int(fcntl(kept[0], F_GETFD), FD_CLOEXEC, "ours stays close-on-exec");
    for (int i = 0; i < 2; i++) {
        fd_close(&kept[i]);
        fd_close(&other[i]);
    }
    buf_release(&out);
}

static void what_can_not_start_is_an_error_here(void)
{
    const char *const none[] = { "/nonexistent/program", NULL };
    const char *const sh[] = { "sh", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" }, dir = { "" };

    spec.argv = none;
    ok(process_start(&spec, &err) < 0 && strstr(err.text, "No such file"), "%s", err.text);
    ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "and leaves no child behind");
    spec.argv = sh;
    spec.cwd = "/nonexistent";
    ok(process_start(&spec, &dir) < 0 && strstr(dir.text, "/nonexistent"), "%s", dir.text);
}

static void signals_are_as_in_a_fresh_process(void)
{
    const char *const sh[] = { "sh", "-c", "kill -USR1 $$; kill -TERM $$; exit 0", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    sigset_t all, old;
    pid_t pid;

    (void)signal(SIGTERM, SIG_IGN);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    spec.argv = sh;
    pid = process_start(&spec, NULL);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    (void)signal(SIGTERM, SIG_DFL);
    is_int(exit_status(pid), 1000 + SIGUSR1, "our mask and our ignored signals are not passed on");
}

static void a_session_can_be_killed_as_a_whole(void)
{
    const char *const sh[] = { "sh", "-c", "sleep 100 & echo up; wait", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    char up[8];
    int ends[2];
    pid_t pid;

    if (fd_pipe(ends) < 0)
        return;
    spec.argv = sh;
    spec.out = ends[1];
    spec.session = true;
    pid = process_start(&spec, NULL);
    fd_close(&ends[1]);
    ok(read(ends[0], up, sizeof up) > 0 && getpgid(pid) == pid, "a child leads a group of its own");
    ok(process_kill_group(pid, SIGKILL) == 0, "the group can be killed");
    is_int(exit_status(pid), 1000 + SIGKILL, "the child is dead");
    is_int(read(ends[0], up, sizeof up), 0, "and so is all that held its stdout");
    ok(process_kill_group(pid, SIGKILL) == 0, "a group that is gone is fine");
    ok(process_kill_group(0, SIGKILL) < 0 && process_kill_group(1, SIGKILL) < 0 &&
           process_kill_group(-1, 0) < 0,
       "nobody can be made to kill everybody");
    fd_close(&ends[0]);
}

static void the_end_of_stdin_reaches_the_child(void)
{
    const char *const cat[] = { "cat", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf out = BUF_INIT;
    int ends[2], in;
    pid_t pid;

    if (fd_pipe(ends) < 0)
        return;
    spec.argv = cat;
    spec.out = ends[1];
    pid = process_start_piped(&spec, &in, NULL);
    fd_close(&ends[1]);
    ok(pid > 0 && fcntl(in, F_GETFD) == FD_CLOEXEC && write(in, "text", 4) == 4,
       "a child has a pipe for stdin");
    fd_close(&in);
    read_all(ends[0], &out);
    is_text(out.p, "text", "it gets what is written, then the end");
    is_int(exit_status(pid), 0, "and exits");
    fd_close(&ends[0]);
    buf_release(&out);
}

static void a_death_can_be_polled(void)
{
    const char *const cat[] = { "cat", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct pollfd p = { -1, POLLIN, 0 };
    int in;
    pid_t pid;

    spec.argv = cat;
    pid = process_start_piped(&spec, &in, NULL);
    if ((p.fd = process_pidfd(pid)) < 0 && errno == ENOSYS) {
        skip("no pidfd here");
    } else {
        is_int(poll(&p, 1, 0), 0, "a pidfd is silent while its process lives");
        fd_close(&in);
        is_int(poll(&p, 1, WAIT_MS), 1, "and speaks when it ends");
    }
    fd_close(&in);
    fd_close(&p.fd);
    is_int(exit_status(pid), 0, "the status is there still");
}

/* A child starts a grandchild that dies with it, and is killed: the end of the grandchild's pipe
 * tells. */
static void children_die_with_their_parent(void)
{
    int ends[2];
    char byte;
    pid_t pid;

    if (fd_pipe(ends) < 0)
        return;
    if ((pid = fork()) == 0) {
        const char *const sh[] = { "sh", "-c", "echo up; exec sleep 100", NULL };
        struct process_spec spec = PROCESS_SPEC_INIT;

        spec.argv = sh;
        spec.out = ends[1];
        spec.session = true;
        spec.die_with_parent = true;
        _exit(process_start(&spec, NULL) > 0 && pause() ? 0 : 1);
    }
    fd_close(&ends[1]);
    ok(pid > 0 && read(ends[0], &byte, 1) == 1, "a grandchild is up");
    (void)kill(pid, SIGKILL);
    (void)exit_status(pid);
#ifdef __linux__
    while (read(ends[0], &byte, 1) == 1)
        ;
    ok(true, "it dies with the child: its pipe ends at once, not in 100 s");
#endif
    fd_close(&ends[0]);
}

static void orphans_come_to_who_adopts_them(void)
{
    pid_t pid;
    int grown = 0;

    if (process_adopt_orphans() < 0) {
        skip("no subreaper here");
        return;
    }
    if ((pid = fork()) == 0)
        _exit(fork() < 0 ? 1 : 0);
    is_int(exit_status(pid), 0, "a child leaves a grandchild behind");
    while (waitpid(-1, NULL, 0) > 0)
        grown++;
    ok(grown >= 1, "which we can wait for (%d)", grown);
}

static void the_start_of_a_file(void)
{
    char text[8] = "";
    struct slice s = file_start("/proc/self/stat", text, sizeof text);

    ok(s.n == sizeof text && s.p == text && strtol(text, NULL, 10) == getpid(),
       "a file's start, as much as there is room");
    s = file_start("/nowhere/at/all", text, sizeof text);
    ok(s.n == 0, "nothing of one that is not there");
    s = file_start("/dev/null", text, sizeof text);
    ok(s.n == 0, "nor of an empty one");
}

static void closed_streams_get_null(void)
{
    const pid_t pid = fork();
    int status = -1;
    char byte;

    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++)
            (void)close(fd);
        if (fd_open_standard() || read(0, &byte, 1) != 0 || write(1, "", 1) >= 0 ||
            write(2, "", 1) >= 0)
            _exit(1);
        _exit(fd_open_standard() && open("/dev/null", O_RDONLY) > 2 ? 0 : 2);
    }
    ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
       "closed streams are opened: no input, and writes that fail");
}

static void descriptors_are_moved_and_measured(void)
{
    int ends[2], high;

    if (fd_pipe(ends) < 0)
        return;
    ok(write(ends[1], "abc", 3) == 3 && fd_waiting(ends[0]) == 3, "what waits can be measured");
    ok(fd_waiting(-1) == 0, "nothing waits where nothing is");
    ok(!fd_is_over(ends[0]) && fd_waiting(ends[0]) == 0,
       "what comes before an input's end is dropped");
    ok(fd_nonblock(ends[0], true) == 0 && !fd_is_over(ends[0]), "and no word is no end");
    high = fd_raise(ends[0], 100);
    ok(high >= 100 && fcntl(ends[0], F_GETFD) < 0 && fcntl(high, F_GETFD) == FD_CLOEXEC,
       "a descriptor can be moved up");
    is_int(fd_raise(high, 50), high, "one that is high enough stays");
    ok(fd_nonblock(high, true) == 0 && (fcntl(high, F_GETFL) & O_NONBLOCK) &&
           fd_nonblock(high, false) == 0 && !(fcntl(high, F_GETFL) & O_NONBLOCK),
       "blocking goes off and on");
    fd_close(&ends[1]);
    ok(fd_is_over(high) && fd_is_over(-1),
       "the end is seen, and what can't be read is over as well");
    ok(fd_nonblock(-1, true) < 0 && fd_cloexec(-1) < 0 && fd_raise(-1, 3) < 0,
       "a bad one is an error");
    fd_close(&high);
    fd_close(&high);
    is_int(high, -1, "closing twice is fine");
}

/* In a child, as a user who may have no more processes: 0: the error names the limit. */
static int start_at_the_limit(uid_t user)
{
    const struct rlimit one = { 1, 1 };
    const char *const argv[] = { "true", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };

    spec.argv = argv;
    if (setrlimit(RLIMIT_NPROC, &one) < 0 || setuid(user) < 0)
        return 2;
    return process_start(&spec, &err) < 0 && strstr(err.text, "RLIMIT_NPROC") ? 0 : 1;
}

static void the_limit_that_is_reached_is_named(void)
{
    char text[200];
    int status = -1;
    pid_t pid;

    ok(!limit_held(text, sizeof text) && !text[0], "here no limit is reached");
    if ((pid = fork()) == 0)
        _exit(start_at_the_limit(getuid() == 0 ? 65534 : getuid()));
    ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
       "a process that may not be started names the limit (%d)", status);
}

/* What sh answers to the script, as "STATUS OUTPUT"; with a limit of a second. */
static void is_answer(const char *script, size_t most, const char *right, const char *why)
{
    const char *const argv[] = { "sh", "-c", script, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf out = BUF_INIT, said = BUF_INIT;
    struct err err = { "" };
    int status;

    spec.argv = argv;
    errno = 0;
    status = process_output(&spec, most, NS_PER_S, &out, &err);
    if (buf_addf(&said, "%d %.*s%s%s", status < 0 ? status : WEXITSTATUS(status), (int)out.n,
                 out.n ? out.p : "", status < 0 && errno == ETIMEDOUT ? "(late) " : "",
                 err.text) == 0)
        is_text(said.p, right, why);
    ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "and no child is left");
    buf_release(&out);
    buf_release(&said);
}

static void who_never_answers_is_ended(void)
{
    static const char late[] = "(late) sh has not answered within 1 s, and was ended";
    struct pollfd held_open = { -1, POLLIN, 0 };
    int held[2]; /* by all that it has started */
    char right[200], byte;

    is_answer("echo a; echo b; exit 3", 100, "3 a\nb\n", "what a program prints, and its status");
    is_answer("sleep 0.1; echo late", 100, "0 late\n", "it may take a while");
    snprintf(right, sizeof right, "-1 %s", late);
    is_answer("exec sleep 100", 100, right, "one that says nothing is ended");
    snprintf(right, sizeof right, "-1 ab%s", late);
    is_answer("printf ab; sleep 100", 100, right, "one that goes on for ever, too");
    snprintf(right, sizeof right, "-1 %s", late);
    is_answer("exec >/dev/null; sleep 100", 100, right,
              "one that closes its output and stays, too");
    if (pipe(held) < 0)
        return;
    is_answer("(sleep 100; sleep 100) & sleep 100", 100, right, "with what it has started");
    fd_close(&held[1]);
    held_open.fd = held[0];
    ok(poll(&held_open, 1, WAIT_MS) == 1 && read(held[0], &byte, 1) == 0, "all of which is gone");
    fd_close(&held[0]);
}

#ifdef __linux__
/* A debugger has not taken note of its end, so we are not told: as of one that can't end. */
static pid_t traced(pid_t *tracer)
{
    int ready[2];
    char byte = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        for (;;)
            pause();
    }
    if (pipe(ready) < 0)
        abort();
    if ((*tracer = fork()) == 0) {
        for (unsigned k = 0; k < 100 && !byte; k++) /* until the child lets it */
            if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
                byte = 1;
            else
                usleep(20000);
        if (write(ready[1], &byte, 1) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        abort();
    fd_close(&ready[0]);
    fd_close(&ready[1]);
    if (byte)
        return pid;
    kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return 0;
}

/* Without a limit, this test would hang. */
static void who_can_not_be_ended_is_not_waited_for(void)
{
    struct buf out = BUF_INIT;
    int from[2], status = -1;
    pid_t tracer;
    const pid_t pid = traced(&tracer);

    if (pid == 0)
        skip("no process may trace another one");
    else if (pipe(from) == 0) {
        ok(process_answer(pid, &from[0], 100, 0, &out, &status) < 0 && errno == ETIMEDOUT,
           "one that gives no answer and can't be ended is left alone");
        fd_close(&from[1]);
    }
    kill(tracer, SIGKILL);
    ok(waitpid(tracer, NULL, 0) == tracer, "it can end now");
    ok(pid == 0 || (waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL),
       "as it was told");
}
#endif

int main(void)
{
    a_child_gets_what_it_was_given();
    only_what_is_kept_is_inherited();
    what_can_not_start_is_an_error_here();
    signals_are_as_in_a_fresh_process();
    a_session_can_be_killed_as_a_whole();
    the_end_of_stdin_reaches_the_child();
    a_death_can_be_polled();
    children_die_with_their_parent();
    who_never_answers_is_ended();
#ifdef __linux__
    who_can_not_be_ended_is_not_waited_for();
#endif
    orphans_come_to_who_adopts_them();
    the_start_of_a_file();
    closed_streams_get_null();
    descriptors_are_moved_and_measured();
    the_limit_that_is_reached_is_named();
    return plan_done();
}
