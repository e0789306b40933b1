/* prestart.h - the notebook's Python, as another machine has it, and WARM, which starts its zygote.
 */
#ifndef WORKER_AGENT_PRESTART_H
#define WORKER_AGENT_PRESTART_H

#include "protocol/span.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/python_paths.h"

struct agent;

void prestart_zygote(struct agent *a, const struct span *m);
/* Looks for the Python, and for the folder (""; none): `paths`, which stays until f is called, gets
 * what it may be. */
MUST_USE int prestart_look(struct agent *a, const char *python, const char *cwd,
                           struct python_paths *paths, path_probe_f f, void *arg, struct err *err);

#endif
