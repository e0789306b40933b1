/* SPDX-License-Identifier: BSD-3-Clause */
/* ssh_command.h - the commands of ssh for one host. -1: memory is out. */
#ifndef LAUNCHERS_SSH_SSH_COMMAND_H
#define LAUNCHERS_SSH_SSH_COMMAND_H

#include "base/buf.h"
#include "launchers/launcher.h"
#include "launchers/ssh/ssh_child.h"

/* The one that starts the agent. */
MUST_USE int ssh_command_agent(const struct ssh_child *c, struct words *argv);
/* Another, which runs the agent's program for a relay of the agent with this folder. */
MUST_USE int ssh_command_relay(const struct ssh_child *c, const char *folder, struct words *argv);
/* Another, which asks whether the agent is there. */
MUST_USE int ssh_command_relogin(const struct ssh_child *c, struct words *argv);

#endif
