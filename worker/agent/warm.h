/* warm.h - the notebook's Python, as another machine has it, and WARM, which starts its zygote. */
#ifndef WORKER_AGENT_WARM_H
#define WORKER_AGENT_WARM_H

#include "protocol/span.h"
#include "worker/agent/look.h"
#include "worker/agent/place.h"

struct agent;

void warm_zygote(struct agent *a, const struct span *m);
/* Looks for the Python, and for the folder (""; none): `place`, which stays until f is called, gets
 * what it may be. */
MUST_USE int warm_look(struct agent *a, const char *python, const char *cwd, struct place *place,
                       look_f f, void *arg, struct err *err);

#endif
