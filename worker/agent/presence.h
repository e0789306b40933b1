/* SPDX-License-Identifier: BSD-3-Clause */
/* presence.h - the program `cellspan-agent --presence FOLDER`: a launcher whose connection to an
 * agent has broken starts it on the agent's machine. It says whether the agent is still there,
 * waits for its end, and ends it if it is told to. */
#ifndef WORKER_AGENT_PRESENCE_H
#define WORKER_AGENT_PRESENCE_H

#include "base/err.h"

/* Returns when there is no agent in the folder any more, or when stdin is over; after the line END
 * there, once it has told the agent to end. -1: *err says why it can't check. */
MUST_USE int presence_run(const char *folder, struct err *err);

#endif
