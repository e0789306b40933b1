/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/slurm_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "launchers/launcher.h"
#include "launchers/slurm/srun_output.h"

#define LIMIT_NS (10 * NS_PER_S)
#define AGAIN_NS (300 * NS_PER_S) /* an administrator may have changed a job's limit */

static void close_all(struct slurm_command *c)
{
    watch_clear(&c->watch);
    watch_clear(&c->timer);
    fd_close(&c->out);
    child_lines_release(&c->lines);
    c->pid = 0;
}

void slurm_command_release(struct slurm_command *c)
{
    close_all(c);
    free(c->line);
    c->line = NULL;
}

static void finish_command(struct slurm_command *c)
{
    char *line = c->line;

    c->line = NULL;
    if (c->f) /* it has said all, or its time is over */
        process_end_tree(c->pid);
    close_all(c); /* before the callback, which may start another command */
    if (c->f)
        c->f(c->arg, line ? line : "");
    free(line);
}

static void keep_first(void *arg, const char *line)
{
    struct slurm_command *c = arg;

    if (!c->line && (!c->has || strstr(line, c->has)))
        c->line = strdup(line);
}

static void readable(void *arg, int fd, unsigned events)
{
    struct slurm_command *c = arg;

    (void)events;
    if (child_lines_read(&c->lines, fd, keep_first, c))
        return;
    child_lines_end(&c->lines, keep_first, c);
    finish_command(c);
}

static void too_late(void *arg)
{
    finish_command(arg);
}

bool slurm_command_start(struct slurm_command *c, struct loop *loop, const char *const *argv,
                         slurm_command_f f, void *arg)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };
    int out[2];

    if (fd_pipe(out) < 0)
        return false;
    c->f = f;
    c->arg = arg;
    c->out = out[0];
    spec.argv = argv;
    spec.in = c->in;
    spec.out = out[1];
    spec.errs = out[1]; /* so that its error texts don't reach the user */
    spec.die_with_parent = f != NULL;
    c->pid = process_start(&spec, &err);
    fd_close(&out[1]);
    if (c->pid > 0 && fd_nonblock(c->out, true) == 0 &&
        (c->watch = loop_fd(loop, c->out, LOOP_READ, readable, c, &err)) &&
        (c->timer = loop_timer(loop, c->limit_ns ? c->limit_ns : LIMIT_NS, 0, too_late, c, &err)))
        return true;
    process_end_tree(c->pid);
    close_all(c);
    return false;
}

/* ---- the time that is left ---- */

static void answered(void *arg, const char *line)
{
    const long left = *line == '|' ? srun_output_time(line + 1) : -1;

    (void)arg;
    if (left >= 0)
        report_job_ends((unsigned)left);
}

static void ask(void *arg)
{
    struct time_left *t = arg;
    char id[32];
    const char *const argv[] = { "squeue", "--noheader", "--jobs", id, "--format", "|%L", NULL };

    snprintf(id, sizeof id, "%lu", t->job);
    if (!slurm_command_busy(&t->command))
        (void)slurm_command_start(&t->command, t->loop, argv, answered, t);
}

void time_left_begin(struct time_left *t, struct loop *loop, unsigned long job)
{
    struct err err = { "" };

    if (!job || t->again)
        return;
    t->loop = loop;
    t->job = job;
    t->again = loop_timer(loop, 0, AGAIN_NS, ask, t, &err);
}

void time_left_release(struct time_left *t)
{
    watch_clear(&t->again);
    slurm_command_release(&t->command);
}
