/* screen.h - what a terminal's programs write for its screen alone, such as the hidden cursor: no
 * page can show it. Pure. */
#ifndef KERNEL_MERGE_SCREEN_H
#define KERNEL_MERGE_SCREEN_H

#include <stdbool.h>

#include "base/buf.h"

/* Is there a private mode (ESC [ ? n h, or l) in the text? Who sets one draws what follows. */
bool screen_set(struct slice text);
/* The text without them: *out is text itself, or what was written to *room. -1: memory is out. */
MUST_USE int screen_strip(struct slice text, struct buf *room, struct slice *out);
/* Does the text set colours, and show nothing? */
bool screen_colours(struct slice text);

#endif
