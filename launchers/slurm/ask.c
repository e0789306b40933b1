/* ask.c - see ask.h. */
#include "launchers/slurm/ask.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

#define PATIENCE_NS (10 * NS_PER_S)

static void close_all(struct ask *a)
{
    watch_stop(a->watch);
    watch_stop(a->timer);
    a->watch = a->timer = NULL;
    fd_close(&a->out);
    pour_release(&a->lines);
    a->pid = 0;
}

void ask_release(struct ask *a)
{
    close_all(a);
    free(a->line);
    a->line = NULL;
}

static void finish(struct ask *a)
{
    char *line = a->line;

    a->line = NULL;
    close_all(a); /* before the call, which may ask again */
    if (a->f)
        a->f(a->arg, line ? line : "");
    free(line);
}

static void keep_first(void *arg, const char *line)
{
    struct ask *a = arg;

    if (!a->line)
        a->line = strdup(line);
}

static void readable(struct loop *loop, int fd, unsigned events, void *arg)
{
    struct ask *a = arg;

    (void)loop;
    (void)events;
    if (pour_read(&a->lines, fd, keep_first, a))
        return;
    pour_end(&a->lines, keep_first, a);
    finish(a);
}

static void too_late(struct loop *loop, void *arg)
{
    struct ask *a = arg;

    (void)loop;
    (void)kill(a->pid, SIGKILL);
    finish(a);
}

bool ask_start(struct ask *a, struct loop *loop, const char *const *argv, ask_f f, void *arg)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };
    int out[2];

    if (fd_pipe(out) < 0)
        return false;
    a->f = f;
    a->arg = arg;
    a->out = out[0];
    spec.argv = argv;
    spec.out = out[1];
    spec.errs = out[1]; /* what it says of an error is no answer, and no line for the user */
    spec.die_with_parent = f != NULL;
    a->pid = process_start(&spec, &err);
    fd_close(&out[1]);
    if (a->pid > 0 && fd_nonblock(a->out, true) == 0 &&
        (a->watch = loop_fd(loop, a->out, LOOP_READ, readable, a, &err)) &&
        (a->timer = loop_timer(loop, PATIENCE_NS, 0, too_late, a, &err)))
        return true;
    if (a->pid > 0)
        (void)kill(a->pid, SIGKILL);
    close_all(a);
    return false;
}
