/* frame.h - recognises tables and panels that are drawn with line characters, so that their rows
 * stay together. Pure. */
#ifndef KERNEL_MERGE_FRAME_H
#define KERNEL_MERGE_FRAME_H

#include <stdbool.h>

#include "base/slice.h"

#define FRAME_MAX 65536u /* bytes; a longer frame is shown as separate lines */

enum frame_row {
    FRAME_NONE,  /* a line of text */
    FRAME_FIRST, /* ┌─┐ of any kind, or +--+ */
    /* starts with a line character, or with | or +; only within a frame */
    FRAME_MIDDLE,
    FRAME_LAST, /* └─┘: the frame's end */
};

/* A quick test by the first byte: most lines are text. */
static inline bool frame_is_text(struct slice line)
{
    return line.n && *line.p > '+' && *line.p < '|';
}

/* Decides by the first visible character, after colours and blanks. within: a frame has begun. */
enum frame_row frame_row(struct slice line, bool within);

#endif
