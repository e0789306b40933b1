/* head.h - finds the cellspan magic at the start of a cell, or on one of its lines. */
#ifndef MAGICS_HEAD_H
#define MAGICS_HEAD_H

#include "magics/option.h"

struct head {
    const struct magic *magic;
    bool cell;            /* %%, not % */
    bool help;            /* "%ranks?" */
    size_t at;            /* where the magic's line starts in the cell, bytes */
    size_t end;           /* where it ends, without its newline */
    struct slice line;    /* the option line: what follows the name */
    struct slice body;    /* what follows the line */
    unsigned lines_above; /* newlines before the body */
};

/* 1: the cell is ours (see plan_peek); 0: it is not. */
int head_find(struct slice cell, struct head *h);
/* 1: the line at this offset is a cellspan magic's. A line magic may be anywhere in the cell. */
int head_at(struct slice cell, size_t at, struct head *h);

#endif
