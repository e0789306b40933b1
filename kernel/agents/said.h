/* said.h - what an engine writes: lines of its stdout, as docs/launchers.md has them, and the end
 * of its stderr, for when it fails. Pure. */
#ifndef KERNEL_AGENTS_SAID_H
#define KERNEL_AGENTS_SAID_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/tail.h"

#define SAID_NODES_MAX 65535u

enum said_kind { SAID_NONSENSE, SAID_NODES, SAID_NODE, SAID_SAY, SAID_FAILED };

struct said {
    enum said_kind kind;
    unsigned n;        /* NODES: how many; NODE, FAILED: which */
    unsigned slots;    /* NODE; 0: not said */
    struct slice text; /* NODE: its name; SAY, FAILED: the text. Borrowed from the line */
};

struct said said_parse(struct slice line);

/* Appends the last lines of stderr as UTF-8 without control characters, and without blank lines at
 * the end. -1: memory is out. */
MUST_USE int said_errors(const struct tail *errors, struct buf *out);

#endif
