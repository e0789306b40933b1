/* SPDX-License-Identifier: BSD-3-Clause */
/* relay_program.h - the program `cellspan-agent --relay FOLDER`: one end of a relay, on the agent's
 * machine. A launcher starts it by its own way in, such as ssh, when the agent can't reach the
 * kernel. It listens at a unix socket in the agent's folder, and forwards what the agent dials
 * there over its stdin and stdout to the launcher, which dials the kernel. What passes is encrypted
 * between agent and kernel; docs/launchers.md. */
#ifndef WORKER_AGENT_RELAY_PROGRAM_H
#define WORKER_AGENT_RELAY_PROGRAM_H

#include "base/err.h"

/* Until the launcher ends, or the agent's folder is gone. -1: *err says why. */
MUST_USE int relay_program_run(const char *folder, struct err *err);

#endif
