/* The list of cells that have run, for %ranks logs. */
#include <stdlib.h>
#include <string.h>

#include "kernel/notebook/notebook.h"

#define RAN_MAX 4096u /* entries; at this number the older half is forgotten */

void cells_ran_note(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks)
{
    struct ran *more;

    if (nb->ran.n == RAN_MAX) {
        nb->ran.n /= 2;
        memmove(nb->ran.of, nb->ran.of + nb->ran.n, nb->ran.n * sizeof *nb->ran.of);
    }
    if (nb->ran.n == nb->ran.room) {
        if (!(more = realloc(nb->ran.of, (nb->ran.room * 2 + 16) * sizeof *more)))
            return;
        nb->ran.of = more;
        nb->ran.room = nb->ran.room * 2 + 16;
    }
    nb->ran.of[nb->ran.n++] = (struct ran){ .id = id, .count = count, .ranks = ranks };
}
