/* ask.h - a question to one of Slurm's commands: the first line that it prints. */
#ifndef LAUNCHERS_SLURM_ASK_H
#define LAUNCHERS_SLURM_ASK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "launchers/pour.h"

/* "" when there was none; once for each question */
typedef void (*ask_f)(void *arg, const char *line);

struct ask {
    pid_t pid; /* 0: no question is out */
    int out;
    char *line; /* the first; owned */
    struct pour lines;
    struct watch *watch, *timer;
    ask_f f;
    void *arg;
};

#define ASK_INIT { .out = -1, .lines = POUR_INIT }

void ask_release(struct ask *a);
static inline bool ask_busy(const struct ask *a)
{
    return a->pid > 0 || a->watch;
}
/* Runs the command (argv[0] on PATH); f is called when it has closed its stdout, or after 10 s. f
 * NULL: an order, which is carried out also when we end before it. False: it couldn't be started,
 * and f won't be called. Whoever reaps children may ignore this one. */
bool ask_start(struct ask *a, struct loop *loop, const char *const *argv, ask_f f, void *arg);

#endif
