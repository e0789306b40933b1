/* child_lines.h - what a child writes, as lines: complete ones, cut where one is too long. */
#ifndef BASE_CHILD_LINES_H
#define BASE_CHILD_LINES_H

#include <stdbool.h>

#include "base/buf.h"

typedef void (*child_lines_f)(void *arg, const char *line); /* no newline; borrowed for the call */

struct child_lines {
    struct buf rest;
};

#define CHILD_LINES_INIT { BUF_INIT }

void child_lines_release(struct child_lines *p);
/* Passes on every line that the bytes complete. A '\r' ends a line too; empty lines are left
 * out. */
void child_lines_bytes(struct child_lines *p, const char *bytes, size_t n, child_lines_f f,
                       void *arg);
/* Nothing follows: what is there is the last line. */
void child_lines_end(struct child_lines *p, child_lines_f f, void *arg);
/* Reads once what waits in the descriptor (not blocking). false: it is over. */
bool child_lines_read(struct child_lines *p, int fd, child_lines_f f, void *arg);

#endif
