/* SPDX-License-Identifier: BSD-3-Clause */
/* slurm_command.h - runs one of Slurm's commands, and reads the first line of its answer. */
#ifndef LAUNCHERS_SLURM_SLURM_COMMAND_H
#define LAUNCHERS_SLURM_SLURM_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "base/child_lines.h"

/* line: "" if there was none. Called once for each command. */
typedef void (*slurm_command_f)(void *arg, const char *line);

struct slurm_command {
    int in;            /* its stdin; -1: none */
    uint64_t limit_ns; /* 0: 10 s */
    pid_t pid;         /* 0: none runs */
    int out;
    char *line; /* the answer's first line; owned */
    const char
        *has; /* what each line of an answer has, and no error or warning; NULL: any line is one */
    struct child_lines lines;
    struct watch *watch, *timer;
    slurm_command_f f;
    void *arg;
};

#define SLURM_COMMAND_INIT { .in = -1, .out = -1, .lines = CHILD_LINES_TEXT }
/* For questions to squeue with '|' in their format. */
#define SLURM_QUESTION_INIT { .in = -1, .out = -1, .has = "|", .lines = CHILD_LINES_TEXT }

void slurm_command_release(struct slurm_command *c);
static inline bool slurm_command_busy(const struct slurm_command *c)
{
    return c->pid > 0 || c->watch;
}
/* Runs the command (argv[0] on PATH). f is called when it has closed its stdout, or after its
 * limit, when it is killed. f NULL: no answer is needed, and the command continues even if we
 * end before it. false: it couldn't be started, and f won't be called. Its exit status does not
 * matter to the caller. */
bool slurm_command_start(struct slurm_command *c, struct loop *loop, const char *const *argv,
                         slurm_command_f f, void *arg);

/* Asks Slurm from time to time when the job's time is over, and tells the kernel. */
struct time_left {
    struct loop *loop; /* borrowed */
    unsigned long job;
    struct slurm_command command;
    struct watch *again;
};

#define TIME_LEFT_INIT { .command = SLURM_QUESTION_INIT }

/* All agents of the job are up. Without an answer, or a limit, the kernel is told nothing. */
void time_left_begin(struct time_left *t, struct loop *loop, unsigned long job);
void time_left_release(struct time_left *t);

#endif
