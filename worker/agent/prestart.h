/* prestart.h - WARM: starts the zygote before ranks are wanted. Finds the notebook's Python on
 * another machine. */
#ifndef WORKER_AGENT_PRESTART_H
#define WORKER_AGENT_PRESTART_H

#include "protocol/span.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/python_paths.h"

struct agent;

void prestart_zygote(struct agent *a, const struct span *m);
/* Finds out which Python is there, and whether the folder is ("": none is looked for). Fills
 * `paths` with candidates; keep it alive until f runs. */
MUST_USE int prestart_look(struct agent *a, const char *python, const char *cwd,
                           struct python_paths *paths, path_probe_f f, void *arg, struct err *err);

#endif
