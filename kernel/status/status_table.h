/* SPDX-License-Identifier: BSD-3-Clause */
/* status_table.h - for status_table.c and status_cell.c: the table of ranks. Each view shows some
 * of its columns. */
#ifndef KERNEL_STATUS_STATUS_TABLE_H
#define KERNEL_STATUS_STATUS_TABLE_H

#include "kernel/status/status.h"

#define TABLE_CELL 128u /* bytes of one cell's text, with its NUL */
#define VIEW_GROUP 1u
#define VIEW_CELL  2u

/* Leaves out columns that are empty in all rows, except those that are always shown. */
MUST_USE int table_text(const struct status_rank *rows, size_t n, unsigned view, struct buf *out);
MUST_USE int table_html(const struct status_rank *rows, size_t n, unsigned view, struct buf *out);

void write_time(char out[static TABLE_CELL], uint64_t ns);    /* "0:07", "1:01:01" */
void write_size(char out[static TABLE_CELL], uint64_t bytes); /* "1.5 GiB" */
/* ---- grid.c ---- */
void write_text(char out[static TABLE_CELL],
                const char *text); /* cut at a character, without control characters; NULL: "" */

#endif
