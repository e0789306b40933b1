/* status.h - the table of a group's ranks, for %ranks, as text and as HTML. Pure. */
#ifndef KERNEL_STATUS_STATUS_H
#define KERNEL_STATUS_STATUS_H

#include "base/buf.h"

/* All borrowed; a text may be NULL where nothing is known. */
struct status_rank {
    unsigned rank;
    const char *state; /* "running", "waiting", "dead" … */
    const char *node;
    long pid;            /* 0: there is no process */
    uint64_t memory;     /* bytes that are the rank's own share (PSS where known, else RSS); 0: unknown */
    uint64_t in_cell_ns; /* how long it has been running the current cell; 0: it is not */
    const char *gpu;
    unsigned cells; /* that it ran since it started */
};

/* Appends the table; group: its name, n: its size. A group without ranks is one line. -1: memory is out. */
MUST_USE int status_text(const struct status_rank *rows, size_t n, const char *group, struct buf *out);
MUST_USE int status_html(const struct status_rank *rows, size_t n, const char *group, struct buf *out);

#endif
