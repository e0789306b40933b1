/* wake.h - signals as something that poll(2) sees. For loop.c only. A signal handler has no
 * argument, so this is the one place with state of the process's own; the process has one loop. */
#ifndef BASE_LOOP_WAKE_H
#define BASE_LOOP_WAKE_H

#include <stdbool.h>

#include "base/err.h"

/* Catches signo from now on. Returns the descriptor (borrowed) that becomes readable when a caught
 * signal came. */
int wake_catch(int signo, struct err *err);
/* the action is as it was before; the last one closes the descriptor */
void wake_release(int signo);
void wake_drain(void);     /* to be called before wake_take, when the descriptor was readable */
bool wake_take(int signo); /* came since the last call? */

#endif
