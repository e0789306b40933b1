/* SPDX-License-Identifier: BSD-3-Clause */
/* error_text.h - the texts of errors and notices. */
#ifndef KERNEL_CELL_ERROR_TEXT_H
#define KERNEL_CELL_ERROR_TEXT_H

#include "kernel/cell/cell.h"

/* the content of the error message; NULL: nothing failed, or memory is out */
json_t *error_of_cell(struct cell *c);
/* why ranks wait in vain for others, most often */
#define ERROR_UNEQUAL                                                                              \
    "Usually the ranks had unequal numbers of batches (use drop_last, or torch's Join)"
/* Adds lines to the end of this rank's error: what to do about a name that it lacks, and who had
 * returned when its collective failed. */
void error_add_hints(const struct cell *c, const struct member *m, json_t *traceback);
/* names ranks that failed by themselves, but whose errors came after the cell's was shown */
void error_note_late(struct cell *c);
/* names running ranks, which are killed now, and where each hangs */
void error_note_hangs(struct cell *c);
/* takes error and shows it at once; only the first is shown */
void error_show(struct cell *c, json_t *error);
/* the part of faulthandler's text that shows the main thread */
const char *error_main_thread(const char *stack);
/* A frame of a stack is in a cell, with the file name that IPython gives it or that the debugger
 * does. */
bool error_in_cell(struct slice frame);
/* A frame of ours that has called the user's function or script: those below it are ours, too. */
bool error_calls_user(struct slice frame);
/* where a rank is if the innermost frame is such a one */
#define ERROR_IN_C "a function in C"
bool error_in_runpy(struct slice frame);
/* The first frame from the text on that is in a cell: its `File "`. NULL: none. */
const char *error_find_cell(const char *text);
bool error_in_debugger(struct slice frame);
/* the main thread's innermost frame, and the line of the cell that led there */
int error_place(const char *stack, struct buf *out);
/* {"ename","evalue","traceback"} of a rank's death, and of any process: "who was killed (where)" */
json_t *error_of_death(const struct notebook *nb, const struct rank *r, const struct span *m);
json_t *error_of_exit(const char *ename, const char *who, const char *where, const struct span *m);

#endif
