/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_panel.h - the output of a cell as tabs, with --merge panel. */
#ifndef KERNEL_CELL_CELL_PANEL_H
#define KERNEL_CELL_CELL_PANEL_H

#include "kernel/cell/cell.h"
#include "kernel/merge/panel.h"

#define TABS_PLACES 40u

/* The tabs of a cell; cell_panel.c makes and frees it. */
struct cell_tabs {
    struct panel *panel;   /* owned */
    bool shown;            /* the bar and the texts were sent */
    uint64_t due_ns;       /* when the texts may be sent again */
    size_t size;           /* bytes of the last texts, in JSON */
    unsigned outputs;      /* of the page */
    struct ranks clearing; /* ranks whose next output clears what they have shown */
    /* displays of ranks, in the order in which they stand on the page */
    struct tabs_place {
        unsigned rank;
        bool marked;  /* the mark is in its HTML, not before it */
        bool fixed;   /* its id is ours: the rank can't update it */
        char *id;     /* owned: else its own id, or NULL */
        bool cleared; /* the rank's next display takes its place */
    } place[TABS_PLACES];
    size_t places;
    /* owned: for each rank, the last display and the last update that wait because Jupyter's server
     * would drop them now */
    struct tabs_kept {
        unsigned rank;
        char type[24];
        struct buf content; /* empty: it has been shown */
    } *kept;
    size_t kepts, kept_room;
};

/* Are there tabs? The first call makes them. A single rank has none. */
bool cell_panel_on(struct cell *c);
/* Shows what has changed, regardless of the rate: before another kind of message, and at the end.
 */
void cell_panel_flush(struct cell *c);
/* Lines of a rank. -1: memory is out. */
MUST_USE int cell_panel_lines(struct cell *c, unsigned rank, unsigned stream, unsigned flags,
                              struct slice data, struct err *err);
/* A display of the rank, an update of one, or clear_output. Only if cell_panel_on(). A display that
 * is only text is no output of its own: its text is added to `lines`, which are printed next. */
void cell_panel_display(struct cell *c, unsigned rank, const char *type, const struct content *p,
                        struct buf *lines);
/* A rank has ended: the tabs say so, though nobody prints. */
void cell_panel_rank_over(struct cell *c, unsigned rank);
void cell_panel_tick(struct cell *c);
uint64_t cell_panel_due(const struct cell *c);
void cell_panel_close(struct cell *c);

/* ---- contents, also of outputs without tabs ---- */
bool cell_panel_content_waits(struct slice content); /* of clear_output */
char *cell_panel_content_id(struct slice content); /* of a display: its id, to be freed; or NULL */

#endif
