/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_process.c - starts an engine as a child process, reads its output and ends it (declared in
 * private.h). */
#include "kernel/engines/private.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/utf8.h"

#define READ_SIZE      16384
#define READS_PER_TURN 4
#define READS_AT_END   64 /* a pipe holds less; processes that it left may go on writing */
#define VARIABLE       "CELLSPAN_SECRET="
#define PYTHON         "CELLSPAN_HOME_PYTHON="
#define TERM_NS        (1500 * NS_PER_MS) /* from the end of its stdin to SIGTERM */
/* from there to SIGKILL: it may have to give back an allocation */
#define KILL_NS (5 * NS_PER_S)

extern char **environ;

struct engine_process {
    char *name;
    pid_t pid;
    int in, out, errs;
    struct watch *out_watch, *errs_watch, *patience;
    struct child_lines lines;
    struct tail errors;
    int status;
    bool ended, ending, termed;
    void (*said)(void *arg, const struct engine_line *said);
    void *arg;
};

/* ---- what it writes ---- */

/* Makes the line valid UTF-8. Replacement characters can make it longer than the limit, so it is
 * cut again. */
static struct slice clean_line(struct slice line, struct buf *clean)
{
    if (utf8_is_valid(line) || utf8_add_short(clean, line, CHILD_LINE_MAX) < 0)
        return line;
    return buf_slice(clean);
}

static void take_line(void *arg, const char *line)
{
    struct engine_process *e = arg;
    struct buf clean = BUF_INIT;
    const struct engine_line said = engine_line_parse(clean_line(slice_text(line), &clean));

    if (said.kind == ENGINE_LINE_NONSENSE)
        log_warn("engine", "%s says what is no message of an engine: %.200s", e->name, line);
    else if (!e->ending)
        e->said(e->arg, &said);
    buf_release(&clean);
}

/* Reads once. false: there is nothing more, for now or for ever. */
static bool read_some(struct engine_process *e, int *fd, struct watch **watch)
{
    char bytes[READ_SIZE];
    const ssize_t n = read(*fd, bytes, sizeof bytes);
    int rc;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        watch_clear(watch);
        fd_close(fd);
        return false;
    }
    if (fd == &e->out)
        rc = child_lines_add(&e->lines, slice_of(bytes, (size_t)n), take_line, e);
    else
        rc = tail_add(&e->errors, slice_of(bytes, (size_t)n));
    if (rc < 0)
        log_error("engine", "%s: out of memory, %zd bytes that it wrote are lost", e->name, n);
    return true;
}

static void out_readable(void *arg, int fd, unsigned events)
{
    struct engine_process *e = arg;

    (void)fd, (void)events;
    for (int k = 0; k < READS_PER_TURN && read_some(e, &e->out, &e->out_watch); k++)
        ;
}

static void errs_readable(void *arg, int fd, unsigned events)
{
    struct engine_process *e = arg;

    (void)fd, (void)events;
    for (int k = 0; k < READS_PER_TURN && read_some(e, &e->errs, &e->errs_watch); k++)
        ;
}

/* ---- its start ---- */

/* The kernel's environment, the notebook's Python and the secret. Only the last two strings are
 * allocated, the secret last. */
static char **environment(const char *python, const struct secret *secret, struct err *err)
{
    size_t n = 0, kept = 0;
    struct buf ours = BUF_INIT;
    char **env, *variable = malloc(sizeof VARIABLE + SECRET_TEXT_SIZE);

    while (environ[n])
        n++;
    if (!variable || buf_addf(&ours, PYTHON "%s", python ? python : "") < 0 ||
        !(env = calloc(n + 3, sizeof *env))) {
        free(variable);
        buf_release(&ours);
        return err_null(err, "out of memory");
    }
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], VARIABLE, sizeof VARIABLE - 1) != 0 &&
            strncmp(environ[i], PYTHON, sizeof PYTHON - 1) != 0)
            env[kept++] = environ[i];
    env[kept++] = ours.p; /* now env's */
    memcpy(variable, VARIABLE, sizeof VARIABLE);
    secret_format(secret, variable + sizeof VARIABLE - 1);
    env[kept] = variable;
    return env;
}

static void environment_free(char **env)
{
    size_t last = 0;

    while (env[last + 1])
        last++;
    sodium_memzero(env[last], strlen(env[last]));
    free(env[last]);
    free(env[last - 1]);
    free(env);
}

static int start_process(struct engine_process *e, const struct engine_process_spec *s,
                         const char *launcher, const char *agent, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    char **env = environment(s->python, s->secret, err);
    const char *argv[12];
    char ranks[16];
    unsigned n = 0;

    snprintf(ranks, sizeof ranks, "%u", s->ranks);
    argv[n++] = launcher;
    if (*s->spec) {
        argv[n++] = "--spec";
        argv[n++] = s->spec;
    }
    if (s->ranks) {
        argv[n++] = "--ranks";
        argv[n++] = ranks;
    }
    argv[n++] = "--";
    argv[n++] = agent;
    argv[n++] = "--connect";
    argv[n++] = s->endpoints;
    argv[n] = NULL;
    if (!env)
        return -1;
    spec.argv = argv;
    spec.env = (const char *const *)env;
    spec.session = true;
    e->pid = process_start_streams(&spec, &e->in, &e->out, &e->errs, err);
    environment_free(env);
    if (e->pid > 0)
        log_info("child", "%s runs as process %ld", path_name(launcher), (long)e->pid);
    return e->pid < 0 ? -1 : 0;
}

/* ---- its end ---- */

void engine_process_signal(struct engine_process *e, int signo)
{
    if (e->pid <= 0)
        return;
    if (signo == SIGKILL)
        (void)process_kill_group(e->pid, SIGKILL);
    (void)kill(e->pid, signo);
}

static void patience_over(void *arg)
{
    struct engine_process *e = arg;

    engine_process_signal(e, e->termed ? SIGKILL : SIGTERM);
    if (!e->termed)
        loop_timer_again(e->patience, KILL_NS);
    e->termed = true;
}

void engine_process_end(struct engine_process *e)
{
    if (e->ending)
        return;
    e->ending = true;
    fd_close(&e->in);
    if (e->pid > 0)
        loop_timer_again(e->patience, TERM_NS);
}

static void streams_close(struct engine_process *e)
{
    watch_clear(&e->out_watch);
    watch_clear(&e->errs_watch);
    fd_close(&e->in);
    fd_close(&e->out);
    fd_close(&e->errs);
}

void engine_process_ended(struct engine_process *e, int status)
{
    for (int k = 0; k < READS_AT_END && e->out >= 0 && read_some(e, &e->out, &e->out_watch); k++)
        ;
    child_lines_end(&e->lines, take_line, e);
    for (int k = 0; k < READS_AT_END && e->errs >= 0 && read_some(e, &e->errs, &e->errs_watch); k++)
        ;
    (void)process_kill_group(e->pid, SIGKILL); /* processes that it left */
    e->status = status;
    e->ended = true;
    e->pid = 0;
    loop_timer_off(e->patience);
    streams_close(e);
}

pid_t engine_process_pid(const struct engine_process *e)
{
    return e->pid;
}

/* Exit status 1 (it failed) and 2 (it can't do that) add nothing to the engine's own text. */
int engine_process_words(const struct engine_process *e, struct buf *out)
{
    const size_t start = out->n;
    int rc = 0;

    if (!e->ended)
        return engine_errors(&e->errors, out);
    if (WIFSIGNALED(e->status))
        rc = buf_addf(out, "cellspan-launch-%s was killed by signal %d", e->name,
                      WTERMSIG(e->status));
    else if (WEXITSTATUS(e->status) < 1 || WEXITSTATUS(e->status) > 2 || e->errors.bytes.n == 0)
        rc = buf_addf(out, "cellspan-launch-%s ended with exit status %d", e->name,
                      WEXITSTATUS(e->status));
    if (rc == 0 && e->errors.bytes.n && out->n > start)
        rc = buf_add_text(out, ":\n");
    return rc < 0 ? -1 : engine_errors(&e->errors, out);
}

/* ---- made and freed ---- */

static struct engine_process *
engine_process_create(struct loop *loop, const struct engine_process_spec *spec, struct err *err)
{
    struct engine_process *e = calloc(1, sizeof *e);

    if (!e)
        return err_null(err, "out of memory");
    e->in = e->out = e->errs = -1;
    e->lines = (struct child_lines)CHILD_LINES_MESSAGES;
    e->said = spec->said;
    e->arg = spec->arg;
    if ((e->name = strdup(spec->name)) &&
        (e->patience = loop_timer(loop, LOOP_OFF, 0, patience_over, e, err)))
        return e;
    engine_process_free(e);
    return err_null(err, "out of memory");
}

struct engine_process *engine_process_start(struct loop *loop,
                                            const struct engine_process_spec *spec, struct err *err)
{
    struct engine_process *e = engine_process_create(loop, spec, err);
    char *launcher = e ? engine_find(spec->name, err) : NULL;
    char *agent = launcher ? runtime_find("cellspan-agent", err) : NULL;

    if (!agent || start_process(e, spec, launcher, agent, err) < 0 ||
        !(e->out_watch = loop_fd(loop, e->out, LOOP_READ, out_readable, e, err)) ||
        !(e->errs_watch = loop_fd(loop, e->errs, LOOP_READ, errs_readable, e, err))) {
        engine_process_free(e);
        e = NULL;
    }
    free(launcher);
    free(agent);
    return e;
}

void engine_process_free(struct engine_process *e)
{
    if (!e)
        return;
    if (e->pid > 0) {
        engine_process_signal(e, SIGKILL);
        (void)waitpid(e->pid, NULL, 0);
    }
    streams_close(e);
    watch_stop(e->patience);
    child_lines_release(&e->lines);
    tail_release(&e->errors);
    free(e->name);
    free(e);
}
