/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of cells that have run, for %ranks logs. */
#include <string.h>

#include "base/rows.h"
#include "kernel/notebook/notebook.h"

#define RAN_MAX 4096u /* entries; at this number the older half is forgotten */

void cells_ran_note(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks)
{
    struct ran *row;

    if (nb->ran.n == RAN_MAX) {
        nb->ran.n /= 2;
        memmove(nb->ran.of, nb->ran.of + nb->ran.n, nb->ran.n * sizeof *nb->ran.of);
    }
    if ((row = rows_add(&nb->ran.of, &nb->ran.n, &nb->ran.room, sizeof *row)))
        *row = (struct ran){ .id = id, .count = count, .ranks = ranks };
}
