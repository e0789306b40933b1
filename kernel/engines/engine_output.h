/* engine_output.h - what an engine writes: the lines of its stdout, which docs/launchers.md
 * specifies, and the last lines of its stderr. Pure. */
#ifndef KERNEL_ENGINES_ENGINE_OUTPUT_H
#define KERNEL_ENGINES_ENGINE_OUTPUT_H

#include "base/buf.h"
#include "base/slice.h"
#include "base/tail.h"

#define ENGINE_NODES_MAX 65535u

enum engine_line_kind {
    ENGINE_LINE_NONSENSE,
    ENGINE_LINE_NODES,
    ENGINE_LINE_NODE,
    ENGINE_LINE_SAY,
    ENGINE_LINE_FAILED
};

struct engine_line {
    enum engine_line_kind kind;
    unsigned n;        /* NODES: how many; NODE, FAILED: which */
    unsigned slots;    /* NODE; 0: not said */
    struct slice text; /* NODE: its name; SAY, FAILED: the text. Borrowed from the line */
};

struct engine_line engine_line_parse(struct slice line);

/* Appends the last lines of stderr as UTF-8 without control characters, and without blank lines at
 * the end. -1: memory is out. */
MUST_USE int engine_errors(const struct tail *errors, struct buf *out);

#endif
