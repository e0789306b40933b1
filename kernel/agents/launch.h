/* launch.h - one run of an engine: cellspan-launch-NAME as a child process, what it says, and its
 * end. A door. */
#ifndef KERNEL_AGENTS_LAUNCH_H
#define KERNEL_AGENTS_LAUNCH_H

#include <sys/types.h>

#include "base/loop/loop.h"
#include "kernel/agents/said.h"
#include "protocol/keys.h"

struct launch;

struct launch_spec {
    const char *name, *spec; /* spec: "" for none */
    unsigned ranks;          /* 0: not said */
    const char *endpoints;   /* for the agents */
    const struct secret *secret;
    void (*said)(void *arg, struct launch *e, const struct said *said);
    void *arg;
};

/* All of spec is borrowed for the call. */
struct launch *launch_start(struct loop *loop, const struct launch_spec *spec, struct err *err);
void launch_free(struct launch *e); /* kills it first if it still runs; NULL is fine */

pid_t launch_pid(const struct launch *e); /* 0: it has ended */
/* Its stdin ends; if it then lives on, SIGTERM and SIGKILL follow. */
void launch_end(struct launch *e);
/* No more waiting: SIGTERM, or SIGKILL to all of its session's group. */
void launch_signal(struct launch *e, int signo);
/* It was waited for. What it said last is read first. */
void launch_ended(struct launch *e, int status);
/* How it ended, in words for the user, with the end of its stderr. */
MUST_USE int launch_words(const struct launch *e, struct buf *out);
/* Only the end of its stderr. */
MUST_USE int launch_errors(const struct launch *e, struct buf *out);

#endif
