/* pour.h - what a child writes, as lines: complete ones, cut where one is too long. */
#ifndef LAUNCHERS_POUR_H
#define LAUNCHERS_POUR_H

#include <stdbool.h>

#include "base/buf.h"

typedef void (*pour_f)(void *arg, const char *line); /* no newline; borrowed for the call */

struct pour {
    struct buf rest;
};

#define POUR_INIT { BUF_INIT }

void pour_release(struct pour *p);
/* Passes on every line that the bytes complete. A '\r' ends a line too; empty lines are left
 * out. */
void pour_bytes(struct pour *p, const char *bytes, size_t n, pour_f f, void *arg);
/* Nothing follows: what is there is the last line. */
void pour_end(struct pour *p, pour_f f, void *arg);
/* Reads once what waits in the descriptor (not blocking). false: it is over. */
bool pour_read(struct pour *p, int fd, pour_f f, void *arg);

#endif
