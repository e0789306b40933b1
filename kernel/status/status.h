/* SPDX-License-Identifier: BSD-3-Clause */
/* status.h - writes the ranks of a group (for %ranks) and those of a running cell (for the display
 * below it) as text and as HTML. Pure. */
#ifndef KERNEL_STATUS_STATUS_H
#define KERNEL_STATUS_STATUS_H

#include "base/buf.h"

/* All pointers are borrowed. A text is NULL if nothing is known. */
struct status_rank {
    unsigned rank;
    const char *state; /* "running", "waiting", "dead" … */
    bool suspended;    /* its process is stopped, as by SIGSTOP; false, too: unknown */
    const char *node;
    long pid;        /* 0: there is no process */
    uint64_t memory; /* bytes of memory (PSS if known, else RSS); 0: unknown */
    bool cpu_known;
    unsigned cpu;                 /* percent of one processor that its processes use */
    uint64_t in_cell_ns;          /* how long it has been running the current cell; 0: it is not */
    const char *gpu;              /* its GPUs; NULL: none, and the other gpu_ fields are ignored */
    unsigned cells;               /* number of cells it ran since it started */
    uint64_t gpu_used, gpu_total; /* bytes of all its GPUs; total 0: unknown */
    int gpu_use;                  /* percent, the mean of its GPUs; -1: unknown */
    int gpu_others;               /* processes on them that are not this notebook's; -1: unknown */
    /* the one of these processes with the most memory: "alice's python"; NULL: unknown */
    const char *gpu_other;
    uint64_t gpu_other_memory; /* bytes of that process; 0: unknown */
};

/* Appends a title and the table of n ranks; without ranks, one line. -1: memory is out. */
MUST_USE int status_text(const struct status_rank *rows, size_t n, const char *title,
                         struct buf *out);
MUST_USE int status_html(const struct status_rank *rows, size_t n, const char *title,
                         struct buf *out);

#define STATUS_ROWS 32u /* with more ranks, those with GPUs have no table, but shared lines */

/* Items that ranks work on. */
struct status_count {
    uint64_t done, of;      /* of 0: nobody knows how many there will be */
    uint64_t failed, again; /* of those that are done; how often one was tried again */
};

/* The ranks of a cell, in the order of their numbers. */
struct status_cell {
    const struct status_rank *rows;
    size_t n;
    uint64_t elapsed_ns; /* since it began */
    const char *as_of;   /* the local time, as text; NULL: unknown */
    uint64_t left_ns;    /* until the job of their machines ends; 0: not to be shown */
    bool over;           /* nothing runs any more: write only one line */
    /* what is done before ranks run it, in place of the ranks; NULL: they run it */
    const char *doing;
    unsigned done, of; /* how much of that is done; of 0: unknown */
    bool counts;       /* they work on items */
    struct status_count count;
    /* of data that is sent while ranks have the cell already: these are shown, too; 0: none is */
    uint64_t bytes, had; /* had: how many have arrived; UINT64_MAX: unknown */
};

/* Ranks in the same state share a line, but ranks with GPUs have a table. Where the page supports
 * it, HTML is shown above the cell's output. -1: memory is out. */
MUST_USE int status_cell_text(const struct status_cell *s, struct buf *out);
MUST_USE int status_cell_html(const struct status_cell *s, struct buf *out);

/* ---- grid.c ---- */
/* Writes a small table of texts as plain text and as HTML. Pure. */

struct grid {
    size_t columns;
    const bool *right; /* borrowed: for each column, is it aligned right? NULL: none is */
    char **cell;       /* owned, n of them: row after row, the headings first */
    size_t n, room;
    bool failed; /* memory was out in grid_add: writing will fail */
};

void grid_add(struct grid *g, const char *format, ...) PRINTF_LIKE(2, 3); /* the next cell */
void grid_release(struct grid *g);
MUST_USE int grid_text(const struct grid *g, struct buf *out);
MUST_USE int grid_html(const struct grid *g, struct buf *out);
MUST_USE int html_add(struct buf *out, const char *text); /* Appends text, escaped for HTML. */

#endif
