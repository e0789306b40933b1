/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/ssh/relogin_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/agent_lines.h"
#include "base/child_lines.h"
#include "base/process.h"
#include "launchers/ssh/cause.h"

#define AGAIN_NS     (300 * NS_PER_MS) /* doubled with each try */
#define AGAIN_MAX_NS (5 * NS_PER_S)
#define NOT_RUN      126 /* a shell says that the program is there, but cannot be run */
#define NOT_FOUND    127 /* and that there is none */

struct relogin_child {
    struct relogin_child_spec spec; /* argv NULL */
    struct words argv;
    struct login login;
    pid_t pid; /* 0: none runs */
    int in, out, errs;
    struct child_lines lines, err_lines;
    struct watch *out_watch, *err_watch, *timer;
    uint64_t wait_ns;
    bool restarted;  /* the machine was */
    bool gone;       /* the agent is not there any more */
    bool ending;     /* no other login follows */
    struct buf said; /* what ssh has said; the same words are not said again */
};

static void start(void *arg);

/* ---- what it runs ---- */

/* $0: the agent's program; $1: the agent's folder, cellspan-PID-RANDOM. It has no single quotes and
 * no newlines, so that every kind of login shell passes it on. */
#define SCRIPT                                                                                     \
    "if \"$0\" --version >/dev/null 2>&1; then exec \"$0\" --presence \"$1\"; fi; "                \
    "b=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null) && "                                     \
    "echo \"" AGENT_LINE_PRESENCE AGENT_LINE_BOOT "$b\"; "                                         \
    "p=${1##*/cellspan-}; p=${p%%-*}; "                                                            \
    "[ \"$p\" -gt 1 ] 2>/dev/null && { kill -0 \"$p\" 2>/dev/null || "                             \
    "echo \"" AGENT_LINE_PRESENCE AGENT_LINE_GONE "\"; }; exit 127"

int relogin_child_command(struct buf *line, const char *program, const char *folder)
{
    return buf_add_text(line, "exec sh -c '" SCRIPT "' ") < 0 || words_quote(line, program) < 0 ||
                   buf_add_text(line, " ") < 0 || words_quote(line, folder) < 0
               ? -1
               : 0;
}

static void streams_close(struct relogin_child *l)
{
    watch_clear(&l->out_watch);
    watch_clear(&l->err_watch);
    fd_close(&l->in);
    fd_close(&l->out);
    fd_close(&l->errs);
}

/* ---- what it says ---- */

static void out_line(void *arg, const char *line)
{
    struct relogin_child *l = arg;
    const char *word = line + strlen(AGENT_LINE_PRESENCE);

    if (strncmp(line, AGENT_LINE_PRESENCE, strlen(AGENT_LINE_PRESENCE)) != 0)
        return; /* of the user's shell */
    login_over(&l->login);
    loop_timer_off(l->timer);
    l->wait_ns = AGAIN_NS;
    if (strncmp(word, AGENT_LINE_BOOT, strlen(AGENT_LINE_BOOT)) == 0)
        l->restarted = l->spec.boot && strcmp(word + strlen(AGENT_LINE_BOOT), l->spec.boot) != 0;
    else if (strcmp(word, AGENT_LINE_GONE) == 0)
        l->gone = true;
    else if (strncmp(word, AGENT_LINE_WANTED, strlen(AGENT_LINE_WANTED)) == 0)
        l->spec.wanted(l->spec.arg, word + strlen(AGENT_LINE_WANTED));
    else if (strcmp(word, AGENT_LINE_UNWANTED) == 0)
        l->spec.wanted(l->spec.arg, NULL);
}

static void err_line(void *arg, const char *line)
{
    struct relogin_child *l = arg;

    if (text_is_new(&l->said, line))
        fprintf(stderr, "%s: %s\n", l->spec.host, line);
}

static void out_ready(void *arg, int fd, unsigned events)
{
    struct relogin_child *l = arg;

    (void)events;
    if (!child_lines_read(&l->lines, fd, out_line, l)) {
        watch_clear(&l->out_watch);
        fd_close(&l->out);
    }
}

static void err_ready(void *arg, int fd, unsigned events)
{
    struct relogin_child *l = arg;

    (void)events;
    if (!child_lines_read(&l->err_lines, fd, err_line, l)) {
        watch_clear(&l->err_watch);
        fd_close(&l->errs);
    }
}

/* ---- its process ---- */

/* No answer within the time, or it is time for the next login. */
static void on_timer(void *arg)
{
    struct relogin_child *l = arg;

    if (l->pid > 0)
        relogin_child_kill(l, SIGKILL);
    else
        login_ask(&l->login);
}

static void wait_and_start(struct relogin_child *l)
{
    login_over(&l->login);
    loop_timer_again(l->timer, login_pause_ns(l->wait_ns));
    l->wait_ns = 2 * l->wait_ns < AGAIN_MAX_NS ? 2 * l->wait_ns : AGAIN_MAX_NS;
}

static int watch(struct relogin_child *l, struct err *err)
{
    if (fd_nonblock(l->in, true) < 0)
        return err_set(err, "the pipes to ssh: %s", strerror(errno));
    return (l->out_watch = loop_fd(l->spec.loop, l->out, LOOP_READ, out_ready, l, err)) &&
                   (l->err_watch = loop_fd(l->spec.loop, l->errs, LOOP_READ, err_ready, l, err))
               ? 0
               : -1;
}

static void start(void *arg)
{
    struct relogin_child *l = arg;
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };

    spec.argv = (const char *const *)l->argv.v;
    spec.session = true;
    spec.die_with_parent = true;
    spec.last_words = SIGTERM;
    l->pid = process_start_streams(&spec, &l->in, &l->out, &l->errs, &err);
    if (l->pid > 0 && watch(l, &err) == 0) {
        loop_timer_again(l->timer, l->spec.limit_ns);
        return;
    }
    err_line(l, err.text);
    if (l->pid > 0) {
        relogin_child_kill(l, SIGKILL);
        return;
    }
    l->pid = 0;
    wait_and_start(l);
}

/* It could log in, but the program can't be run. */
static bool has_lost_its_program(int status)
{
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == NOT_RUN || WEXITSTATUS(status) == NOT_FOUND);
}

bool relogin_child_ended(struct relogin_child *l, pid_t pid, int status)
{
    if (!l || l->pid != pid)
        return false;
    l->pid = 0;
    while (l->out >= 0 && fd_waiting(l->out))
        out_ready(l, l->out, LOOP_READ);
    while (l->errs >= 0 && fd_waiting(l->errs))
        err_ready(l, l->errs, LOOP_READ);
    child_lines_end(&l->lines, out_line, l);
    child_lines_end(&l->err_lines, err_line, l);
    streams_close(l);
    login_over(&l->login);
    loop_timer_off(l->timer);
    if (l->ending)
        l->spec.over(l->spec.arg);
    else if (l->gone || (l->restarted && has_lost_its_program(status)))
        l->spec.gone(l->spec.arg, l->restarted);
    else
        wait_and_start(l);
    return true;
}

/* ---- begin and end ---- */

static void release(struct relogin_child *l)
{
    login_over(&l->login);
    streams_close(l);
    watch_stop(l->timer);
    child_lines_release(&l->lines);
    child_lines_release(&l->err_lines);
    buf_release(&l->said);
    words_release(&l->argv);
    free(l);
}

struct relogin_child *relogin_child_start(const struct relogin_child_spec *spec, struct err *err)
{
    struct relogin_child *l = calloc(1, sizeof *l);

    if (!l) {
        words_release(spec->argv);
        return err_null(err, "out of memory");
    }
    *l = (struct relogin_child){ .spec = *spec,
                                 .argv = *spec->argv,
                                 .in = -1,
                                 .out = -1,
                                 .errs = -1,
                                 .lines = CHILD_LINES_TEXT,
                                 .err_lines = CHILD_LINES_TEXT,
                                 .wait_ns = AGAIN_NS };
    *spec->argv = (struct words)WORDS_INIT;
    l->spec.argv = NULL;
    l->login = (struct login){ .login_limit = spec->login_limit, .start = start, .arg = l };
    if (!(l->timer = loop_timer(spec->loop, LOOP_OFF, 0, on_timer, l, err))) {
        release(l);
        return NULL;
    }
    login_ask(&l->login);
    return l;
}

bool relogin_child_end(struct relogin_child *l)
{
    l->ending = true;
    loop_timer_off(l->timer);
    if (l->pid <= 0) {
        login_over(&l->login);
        return false;
    }
    if (fd_write(l->in, slice_text(AGENT_LINE_END)) < 0)
        relogin_child_kill(l, SIGTERM);
    fd_close(&l->in);
    return true;
}

void relogin_child_kill(struct relogin_child *l, int signo)
{
    if (l && l->pid > 0)
        (void)process_kill_group(l->pid, signo);
}

void relogin_child_stop(struct relogin_child *l)
{
    if (!l)
        return;
    relogin_child_kill(l, SIGTERM);
    release(l);
}
