/* engine.h - one run of an engine: cellspan-launch-NAME as a child process, what it says, and its end. A door. */
#ifndef KERNEL_AGENTS_ENGINE_H
#define KERNEL_AGENTS_ENGINE_H

#include <sys/types.h>

#include "base/loop/loop.h"
#include "kernel/agents/said.h"
#include "protocol/keys.h"

struct engine;

struct engine_spec {
    const char *name, *spec; /* spec: "" for none */
    unsigned ranks;          /* 0: not said */
    const char *endpoints;   /* for the agents */
    const struct secret *secret;
    void (*said)(void *arg, struct engine *e, const struct said *said);
    void *arg;
};

/* All of spec is borrowed for the call. */
struct engine *engine_start(struct loop *loop, const struct engine_spec *spec, struct err *err);
void engine_free(struct engine *e); /* kills it first if it still runs; NULL is fine */

pid_t engine_pid(const struct engine *e); /* 0: it has ended */
/* Its stdin ends; if it then lives on, SIGTERM and SIGKILL follow. */
void engine_end(struct engine *e);
/* No more waiting: SIGTERM, or SIGKILL to all of its session's group. */
void engine_signal(struct engine *e, int signo);
/* It was waited for. What it said last is read first. */
void engine_ended(struct engine *e, int status);
/* How it ended, in words for the user, with the end of its stderr. */
MUST_USE int engine_words(const struct engine *e, struct buf *out);
/* Only the end of its stderr. */
MUST_USE int engine_errors(const struct engine *e, struct buf *out);

#endif
