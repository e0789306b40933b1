/* SPDX-License-Identifier: BSD-3-Clause */
/* cut.h - ends TCP connections of other processes, as a firewall does that forgets them. */
#ifndef TESTS_SIM_CUT_H
#define TESTS_SIM_CUT_H

#include <sys/types.h>

/* All that this process and those that descend from it have. How many ends that were. */
unsigned cut_connections(pid_t pid);

#endif
