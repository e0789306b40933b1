/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of tasks, threads and child processes whose cell is over. A page shows it under that cell.
 * A program that executes a notebook (nbclient, and with it nbconvert and papermill) reads only
 * what belongs to the cell that it waits for, so it gets such output with that cell. */
#include <string.h>

#include "kernel/notebook/notebook.h"

/* These programs answer no questions. Consoles, which do, show output whenever it comes. */
static bool is_of_program(const struct request *r)
{
    return strcmp(request_type(r), "execute_request") == 0 &&
           !request_flag(r, "allow_stdin", true) && request_is_of_python(r);
}

static bool is_late(const struct request *parent)
{
    return parent && request_is_over(parent) && is_of_program(parent);
}

static const struct request *running(const struct notebook *nb)
{
    const struct request *r = nb->home.executing ? nb->home.executing->r : nb->on_ranks;

    return r && is_of_program(r) && !request_flag(r, "silent", false) ? r : NULL;
}

const struct request *late_parent(const struct notebook *nb, const struct request *parent,
                                  const char *type)
{
    const struct request *now;

    /* clear_output would clear the output of the other cell */
    if (!is_late(parent) || !(now = running(nb)) ||
        !(strcmp(type, "stream") == 0 || strstr(type, "display_data") ||
          strncmp(type, "comm_", 5) == 0))
        return parent;
    return now;
}

void late_stream(struct notebook *nb, const struct request *parent, unsigned stream,
                 struct slice text)
{
    if (!is_late(parent) || running(nb) || !home_keep(nb, stream, text))
        publish_stream(nb, parent, stream, text);
}
