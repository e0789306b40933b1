/* said.h - what an engine writes: lines of its stdout, as docs/launchers.md has them, and the end
 * of its stderr, kept for when it fails. Pure. */
#ifndef KERNEL_AGENTS_SAID_H
#define KERNEL_AGENTS_SAID_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

#define SAID_LINE_MAX   4096u /* bytes; of a longer line the rest is dropped */
#define SAID_NODES_MAX  65535u
#define SAID_TAIL_LINES 40u
#define SAID_TAIL_BYTES 16384u

enum said_kind { SAID_NONSENSE, SAID_NODES, SAID_NODE, SAID_SAY, SAID_FAILED };

struct said {
    enum said_kind kind;
    unsigned n;        /* NODES: how many; NODE, FAILED: which */
    unsigned slots;    /* NODE; 0: not said */
    struct slice text; /* NODE: its name; SAY, FAILED: the text. Borrowed from the line */
};

struct said said_parse(struct slice line);

typedef void (*said_f)(void *arg, struct slice line);

/* Bytes in, lines out (without their newline). An overlong line comes out once, cut. */
struct said_lines {
    struct buf buf;
    bool skipping; /* the rest of an overlong line */
};

#define SAID_LINES_INIT { BUF_INIT, false }

/* -1: memory is out; what came is lost. */
MUST_USE int said_lines_add(struct said_lines *l, struct slice bytes, said_f f, void *arg);
void said_lines_end(struct said_lines *l, said_f f, void *arg); /* a last line without newline */
void said_lines_release(struct said_lines *l);

/* Keeps the last lines of what was added. */
MUST_USE int said_tail_add(struct buf *tail, struct slice bytes);
/* Appends them as UTF-8 without control characters, and without blank lines at the end. */
MUST_USE int said_tail_show(const struct buf *tail, struct buf *out);

#endif
