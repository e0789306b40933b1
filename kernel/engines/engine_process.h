/* engine_process.h - one run of an engine: cellspan-launch-NAME as a child process, what it says,
 * and its end. A door. */
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
    const char *endpoints;   /* for the agents */
    const struct secret *secret;
    void (*said)(void *arg, struct engine_process *e, const struct engine_line *said);
    void *arg;
};

/* All of spec is borrowed for the call. */
struct engine_process *
engine_process_start(struct loop *loop, const struct engine_process_spec *spec, struct err *err);
void engine_process_free(
    struct engine_process *e); /* kills it first if it still runs; NULL is fine */

pid_t engine_process_pid(const struct engine_process *e); /* 0: it has ended */
/* Its stdin ends; if it then lives on, SIGTERM and SIGKILL follow. */
void engine_process_end(struct engine_process *e);
/* No more waiting: SIGTERM, or SIGKILL to all of its session's group. */
void engine_process_signal(struct engine_process *e, int signo);
/* It was waited for. What it said last is read first. */
void engine_process_ended(struct engine_process *e, int status);
/* How it ended, in words for the user, with the end of its stderr. */
MUST_USE int engine_process_words(const struct engine_process *e, struct buf *out);
/* Only the end of its stderr. */
MUST_USE int engine_process_errors(const struct engine_process *e, struct buf *out);

#endif
