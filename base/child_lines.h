/* SPDX-License-Identifier: BSD-3-Clause */
/* child_lines.h - splits what a child process writes into lines. Lines come without their newline.
 * Empty lines and NUL bytes are left out. The output of ranks has its own splitter, which keeps
 * every byte: worker/agent/output/lines.h. */
#ifndef BASE_CHILD_LINES_H
#define BASE_CHILD_LINES_H

#include "base/buf.h"

#define CHILD_LINE_MAX 4096u /* bytes */

typedef void (*child_lines_f)(void *arg, const char *line); /* borrowed for the call */

struct child_lines {
    struct buf rest; /* the start of a line whose end has not come */
    bool messages;   /* made with CHILD_LINES_MESSAGES */
};

/* For text that people read: '\r' also ends a line, and a line that is too long is split. */
#define CHILD_LINES_TEXT { BUF_INIT, false }
/* For messages to this program: only '\n' ends a line, and a line that is too long is cut. */
#define CHILD_LINES_MESSAGES { BUF_INIT, true }

void child_lines_release(struct child_lines *l);
/* Calls f for every line that the bytes complete. -1: memory was out; a line lost its start. */
MUST_USE int child_lines_add(struct child_lines *l, struct slice bytes, child_lines_f f, void *arg);
/* No more bytes will come: calls f for the last line, if it had no newline. */
void child_lines_end(struct child_lines *l, child_lines_f f, void *arg);
/* Reads once from a non-blocking descriptor. false: its end, or an error. When memory is out, lines
 * are lost. */
bool child_lines_read(struct child_lines *l, int fd, child_lines_f f, void *arg);

/* ---- tail.c ---- */
/* The last bytes that a child wrote. The caller says how many of their lines an error shows. */

#define TAIL_SIZE 8192u /* bytes: between this and twice as many are kept */

struct tail {
    struct buf bytes;
};

#define TAIL_INIT { BUF_INIT }

void tail_release(struct tail *t);
void tail_clear(struct tail *t);                          /* Forgets what was added. */
MUST_USE int tail_add(struct tail *t, struct slice data); /* -1: memory is out */
/* Appends the last `lines` lines to out, as valid UTF-8. -1: memory is out. */
MUST_USE int tail_text(const struct tail *t, unsigned lines, struct buf *out);

#endif
