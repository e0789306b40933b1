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
#define FIRST_SIZE     (SECRET_TEXT_SIZE + 32)
#define STARTER        "/cellspan/_launch/__main__.py"
/* from the end of its stdin to SIGTERM, unless it has asked for more */
#define TERM_NS (1500 * NS_PER_MS)
/* from there to SIGKILL: it may have to give back an allocation */
#define KILL_NS (5 * NS_PER_S)

struct engine_process {
    char *name;
    pid_t pid;
    int in, out, errs;
    struct watch *out_watch, *errs_watch, *end_timer;
    struct child_lines lines;
    struct tail errors;
    int status;
    bool ended, ending, termed;
    uint64_t term_ns;
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

/* It wants that many seconds for its end, which may have begun. */
static void end_within(struct engine_process *e, unsigned seconds)
{
    const uint64_t ns = seconds * NS_PER_S;

    e->term_ns = ns > TERM_NS ? ns : TERM_NS;
    if (e->ending && !e->termed && e->pid > 0)
        loop_timer_again(e->end_timer, e->term_ns);
}

static void take_line(void *arg, const char *line)
{
    struct engine_process *e = arg;
    struct buf clean = BUF_INIT;
    const struct engine_line said = engine_line_parse(clean_line(slice_text(line), &clean));

    if (said.kind == ENGINE_LINE_END)
        end_within(e, said.n);
    else if (said.kind == ENGINE_LINE_NONSENSE)
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

/* A program runs as it is. A module of the package is run by home's Python. -1: memory is out. */
static int add_program(const char **argv, unsigned *n, char **starter,
                       const struct engine_process_spec *s, const struct engine_program *program)
{
    struct buf path = BUF_INIT;

    if (!program->package) {
        argv[(*n)++] = program->path;
        return 0;
    }
    if (buf_addf(&path, "%s" STARTER, program->package) < 0) {
        buf_release(&path);
        return -1;
    }
    *starter = path.p;
    argv[(*n)++] = s->python;
    argv[(*n)++] = *starter;
    argv[(*n)++] = s->name;
    return 0;
}

/* The programs that come with cellspan, as the agent does, hand their environment on to the nodes.
 * What home has set may be secret, and ranks get it from home, encrypted. */
static bool is_beside(const char *path, const char *agent)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    const size_t n = slash ? (size_t)(slash - path) : 0;

    return slash && strncmp(path, agent, n + 1) == 0 && !strchr(agent + n + 1, '/');
}

/* What an engine that home's Python runs gets first: what a process has had in its environment can
 * be read in /proc as long as it lives, whatever it does. */
static struct slice first_line(const struct secret *secret, char line[FIRST_SIZE])
{
    char text[SECRET_TEXT_SIZE];

    secret_format(secret, text);
    snprintf(line, FIRST_SIZE, "CELLSPAN_SECRET=%s\n", text);
    sodium_memzero(text, sizeof text);
    return slice_text(line);
}

static int start_process(struct engine_process *e, const struct engine_process_spec *s,
                         const struct engine_program *program, const char *agent, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct engine_environment env;
    const char *argv[16];
    char ranks[16], line[FIRST_SIZE] = "", *starter = NULL;
    unsigned n = 0;

    if (add_program(argv, &n, &starter, s, program) < 0)
        return err_set(err, "out of memory");
    snprintf(ranks, sizeof ranks, "%u", s->ranks);
    if (*s->spec) {
        argv[n++] = "--spec";
        argv[n++] = s->spec;
    }
    if (s->ranks) {
        argv[n++] = "--ranks";
        argv[n++] = ranks;
    }
    if (s->image) {
        argv[n++] = "--in";
        argv[n++] = s->image;
    }
    argv[n++] = "--";
    argv[n++] = agent;
    argv[n++] = "--connect";
    argv[n++] = s->endpoints;
    argv[n] = NULL;
    if (engine_environment_make(&env, s->python, s->own, program->package ? NULL : s->secret,
                                is_beside(program->path, agent) ? NULL : s->changes, err) == 0) {
        spec.argv = argv;
        spec.env = (const char *const *)env.v;
        spec.session = true;
        if (program->package)
            spec.first = first_line(s->secret, line);
        e->pid = process_start_streams(&spec, &e->in, &e->out, &e->errs, err);
        engine_environment_release(&env);
        sodium_memzero(line, sizeof line);
    }
    free(starter);
    if (e->pid > 0)
        log_info("child", "cellspan-launch-%s runs as process %ld", e->name, (long)e->pid);
    return e->pid <= 0 ? -1 : 0;
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

static void end_is_late(void *arg)
{
    struct engine_process *e = arg;

    engine_process_signal(e, e->termed ? SIGKILL : SIGTERM);
    if (!e->termed)
        loop_timer_again(e->end_timer, KILL_NS);
    e->termed = true;
}

void engine_process_end(struct engine_process *e)
{
    if (e->ending)
        return;
    e->ending = true;
    fd_close(&e->in);
    if (e->pid > 0)
        loop_timer_again(e->end_timer, e->term_ns);
}

bool engine_process_takes_long(const struct engine_process *e)
{
    return e->pid > 0 && e->term_ns > TERM_NS;
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
    loop_timer_off(e->end_timer);
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
    e->term_ns = TERM_NS;
    e->lines = (struct child_lines)CHILD_LINES_MESSAGES;
    e->said = spec->said;
    e->arg = spec->arg;
    if ((e->name = strdup(spec->name)) &&
        (e->end_timer = loop_timer(loop, LOOP_OFF, 0, end_is_late, e, err)))
        return e;
    engine_process_free(e);
    return err_null(err, "out of memory");
}

struct engine_process *engine_process_start(struct loop *loop,
                                            const struct engine_process_spec *spec, struct err *err)
{
    struct engine_process *e = engine_process_create(loop, spec, err);
    struct engine_program program = ENGINE_PROGRAM_INIT;
    char *agent = NULL;

    if (e && engine_find(spec->name, &program, err) == 0)
        agent = runtime_find("cellspan-agent", err);
    if (!agent || start_process(e, spec, &program, agent, err) < 0 ||
        !(e->out_watch = loop_fd(loop, e->out, LOOP_READ, out_readable, e, err)) ||
        !(e->errs_watch = loop_fd(loop, e->errs, LOOP_READ, errs_readable, e, err))) {
        engine_process_free(e);
        e = NULL;
    }
    engine_program_release(&program);
    free(agent);
    return e;
}

void engine_process_free(struct engine_process *e)
{
    if (!e)
        return;
    if (e->pid > 0 && !(e->ending && engine_process_takes_long(e))) {
        engine_process_signal(e, SIGKILL);
        process_reap(e->pid);
    }
    streams_close(e);
    watch_stop(e->end_timer);
    child_lines_release(&e->lines);
    tail_release(&e->errors);
    free(e->name);
    free(e);
}
