/* SPDX-License-Identifier: BSD-3-Clause */
/* stacks.h - how a worker that runs is asked for its stacks. First by STACKS: a thread of the
 * worker takes Python's lock and writes them. If nothing has come after a while, by a signal, whose
 * handler needs no lock. */
#ifndef WORKER_LINK_STACKS_H
#define WORKER_LINK_STACKS_H

#include <signal.h>

#include "base/clock.h"

#define STACKS_LOCK_NS (1 * NS_PER_S) /* the agent waits this long until it sends the signal */

#ifdef SIGRTMIN
#define STACKS_SIGNAL (SIGRTMIN + 3)
#else
#define STACKS_SIGNAL 0 /* this system has no such signals: only STACKS is sent */
#endif

#endif
