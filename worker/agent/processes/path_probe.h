/* path_probe.h - which of several programs is there, and whether a folder is. A child process
 * probes, for a file system whose server does not answer holds up for ever whoever asks it: the
 * agent goes on, and tells after a limit where the child hangs. */
#ifndef WORKER_AGENT_PROCESSES_PATH_PROBE_H
#define WORKER_AGENT_PROCESSES_PATH_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"

struct path_probe;

/* Those that are not over. */
struct path_probes {
    struct loop *loop;
    struct path_probe *first;
};

struct path_probe_for {
    char *const *program; /* n of them; until it is over, the caller's */
    size_t n;
    const char *folder; /* "": none is looked for */
    uint64_t limit_ns;
};

/* found: the number of the first program that we may run, -1: none. folder: it is there, and we may
 * enter it. why: it could not be found out, in words; NULL: it was. Called once, never before
 * path_probe_start() has returned. */
typedef void (*path_probe_f)(void *arg, int found, bool folder, const char *why);

MUST_USE int path_probe_start(struct path_probes *probes, const struct path_probe_for *what,
                              path_probe_f f, void *arg, struct err *err);
void path_probes_end(struct path_probes *probes); /* each f is called, with a `why` */

#endif
