/* look.h - which of several programs is there, and whether a folder is. A child process looks, for
 * a file system whose server does not answer holds up for ever whoever asks it: the agent goes on,
 * and tells after a limit where the child hangs. */
#ifndef WORKER_AGENT_LOOK_H
#define WORKER_AGENT_LOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"

struct look;

/* Those that are not over. */
struct looks {
    struct loop *loop;
    struct look *first;
};

struct look_for {
    char *const *program; /* n of them; until it is over, the caller's */
    size_t n;
    const char *folder; /* "": none is looked for */
    uint64_t limit_ns;
};

/* found: the number of the first program that we may run, -1: none. folder: it is there, and we may
 * enter it. why: it could not be found out, in words; NULL: it was. Called once, never before
 * look_start() has returned. */
typedef void (*look_f)(void *arg, int found, bool folder, const char *why);

MUST_USE int look_start(struct looks *looks, const struct look_for *what, look_f f, void *arg,
                        struct err *err);
void looks_end(struct looks *looks); /* each f is called, with a `why` */

#endif
