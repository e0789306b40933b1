/* SPDX-License-Identifier: BSD-3-Clause */
/* wake.h - makes signals visible to poll(2). For loop.c only. A signal handler has no argument, so
 * this module has global state; a process has one loop. */
#ifndef BASE_LOOP_WAKE_H
#define BASE_LOOP_WAKE_H

#include <stdbool.h>

#include "base/err.h"

/* Catches signo. Returns the descriptor (borrowed) that becomes readable when a signal comes. */
int wake_catch(int signo, struct err *err);
/* restores the signal's action; the last release closes the descriptor */
void wake_release(int signo);
void wake_drain(void);     /* to be called before wake_take, when the descriptor was readable */
bool wake_take(int signo); /* came since the last call? */

#endif
