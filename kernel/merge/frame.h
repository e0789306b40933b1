/* frame.h - tables and panels that are drawn with lines: their rows belong together. Pure. */
#ifndef KERNEL_MERGE_FRAME_H
#define KERNEL_MERGE_FRAME_H

#include <stdbool.h>

#include "base/slice.h"

#define FRAME_MAX 65536u /* bytes; what is longer is shown as lines */

enum frame_row {
    FRAME_NONE,  /* a line of text */
    FRAME_FIRST, /* ┌─┐ of any kind, or +--+ */
    /* starts with a drawn character, or with | or +; of a frame only where one has begun */
    FRAME_MIDDLE,
    FRAME_LAST, /* └─┘: nothing of the frame follows */
};

/* Most lines are text, which their first byte tells. */
static inline bool frame_is_text(struct slice line)
{
    return line.n && *line.p > '+' && *line.p < '|';
}

/* What a line is by its first character that shows; colours and blanks before it don't count.
 * within: a frame has begun. */
enum frame_row frame_row(struct slice line, bool within);

#endif
