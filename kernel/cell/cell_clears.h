/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_clears.h - clear_output() of several ranks that share the output of a cell. A page can only
 * be cleared as a whole. So from a rank's first clear_output() on, what it has shown since the last
 * one is kept. When a rank clears, the page is cleared, and what the others have kept is shown
 * again. It begins when the first rank clears; what ranks have shown that never clear goes with it,
 * too. */
#ifndef KERNEL_CELL_CELL_CLEARS_H
#define KERNEL_CELL_CELL_CLEARS_H

#include "kernel/cell/cell.h"
#include "kernel/cell/display_order.h"

/* What struct output_path of cell_output.c begins with. */
struct output_head {
    struct cell_clears *clears; /* owned, of cell_clears.c; NULL: no rank has cleared the output */
};

/* Is clear_output() of every rank applied? Else only the first rank's is. */
bool clears_shared(const struct cell *c);
/* Text or a display of a rank, as `what` describes it. false: it is kept, and shown when the page
 * is drawn again, which is soon. */
bool clears_pass(struct cell *c, const struct held_output *what, const struct content *p);
/* The same for a display, an update of one, or clear_output. */
bool clears_pass_display(struct cell *c, unsigned rank, const char *type, const struct content *p);
/* The rank prints nothing more. false: that is said when the page has been drawn. */
bool clears_pass_over(struct cell *c, unsigned rank);
void clears_tick(struct cell *c, uint64_t now);
uint64_t clears_due(const struct cell *c);
void clears_flush(struct cell *c); /* draws now what is due later */
void clears_close(struct cell *c);

#endif
