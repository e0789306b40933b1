/* screen.h - removes escape sequences that only terminals understand (hide the cursor …). Pure. */
#ifndef KERNEL_MERGE_SCREEN_H
#define KERNEL_MERGE_SCREEN_H

#include <stdbool.h>

#include "base/buf.h"

/* Does the text set a private mode (ESC [ ? n h, or l)? Then its program draws as on a terminal. */
bool screen_set(struct slice text);
/* Removes private modes. *out is text itself, or what was written to *room. -1: memory is out. */
MUST_USE int screen_strip(struct slice text, struct buf *room, struct slice *out);
/* Does the text only set colours, and show nothing? */
bool screen_colours(struct slice text);

#endif
