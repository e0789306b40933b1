/* status.h - the ranks of a group, for %ranks, and those of a running cell, for the display under
 * it; as text and as HTML. Pure. */
#ifndef KERNEL_STATUS_STATUS_H
#define KERNEL_STATUS_STATUS_H

#include <stdbool.h>

#include "base/buf.h"

/* All borrowed; a text may be NULL where nothing is known. */
struct status_rank {
    unsigned rank;
    const char *state; /* "running", "waiting", "dead" … */
    const char *node;
    long pid; /* 0: there is no process */
    /* bytes that are the rank's own share (PSS where known, else RSS); 0: unknown */
    uint64_t memory;
    uint64_t in_cell_ns; /* how long it has been running the current cell; 0: it is not */
    /* which GPUs it has; NULL: none. Without it the rest is not looked at */
    const char *gpu;
    unsigned cells;               /* that it ran since it started */
    uint64_t gpu_used, gpu_total; /* bytes, of all its GPUs; total 0: unknown */
    int gpu_use;                  /* percent, their mean; -1: unknown */
    int gpu_others;               /* processes on them that are not this notebook's; -1: unknown */
    /* the one of them with the most memory: "alice's python"; NULL: unknown */
    const char *gpu_other;
    uint64_t gpu_other_memory; /* its bytes; 0: unknown */
};

/* Appends the table; group: its name, n: its size. A group without ranks is one line. -1: memory is
 * out. */
MUST_USE int status_text(const struct status_rank *rows, size_t n, const char *group,
                         struct buf *out);
MUST_USE int status_html(const struct status_rank *rows, size_t n, const char *group,
                         struct buf *out);

#define STATUS_ROWS 32u /* of a cell with more ranks, those with GPUs share lines, too */

/* A cell's ranks, by number. */
struct status_cell {
    const struct status_rank *rows;
    size_t n;
    uint64_t elapsed_ns; /* since it began */
    const char *as_of;   /* the time of day, as the reader is to see it; NULL: unknown */
    bool over;           /* nothing runs any more: one line is enough */
};

/* Ranks in the same state share a line, but for those with GPUs, which have a table. HTML stands
 * above the cell's lines where the page allows for that. -1: memory is out. */
MUST_USE int status_cell_text(const struct status_cell *s, struct buf *out);
MUST_USE int status_cell_html(const struct status_cell *s, struct buf *out);

#endif
