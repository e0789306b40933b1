/* engine_process.h - an engine as a child process: its start, its output and its end. */
#ifndef KERNEL_ENGINES_ENGINE_PROCESS_H
#define KERNEL_ENGINES_ENGINE_PROCESS_H

#include <sys/types.h>

#include "base/loop/loop.h"
#include "kernel/engines/engine_output.h"
#include "protocol/keys.h"

struct engine_process;

struct engine_process_spec {
    const char *name, *spec; /* spec: "" for none */
    unsigned ranks;          /* 0: not said */
    const char *endpoints;   /* where its agents dial */
    const struct secret *secret;
    void (*said)(void *arg, const struct engine_line *said);
    void *arg;
};

/* All of spec is borrowed for the call. */
struct engine_process *
engine_process_start(struct loop *loop, const struct engine_process_spec *spec, struct err *err);
void engine_process_free(
    struct engine_process *e); /* kills it first if it still runs; NULL is fine */

pid_t engine_process_pid(const struct engine_process *e); /* 0: it has ended */
/* Closes its stdin, at which it should end. If it does not, SIGTERM and SIGKILL follow. */
void engine_process_end(struct engine_process *e);
/* Sends it a signal; SIGKILL to its whole process group. */
void engine_process_signal(struct engine_process *e, int signo);
/* It has been waited for. Reads what it wrote last. */
void engine_process_ended(struct engine_process *e, int status);
/* Appends how it ended, for the user, and the last lines of its stderr. */
MUST_USE int engine_process_words(const struct engine_process *e, struct buf *out);
/* Appends only the last lines of its stderr. */
MUST_USE int engine_process_errors(const struct engine_process *e, struct buf *out);

#endif
