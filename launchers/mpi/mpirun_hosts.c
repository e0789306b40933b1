/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun_hosts.c - hosts that are named to mpirun more than once (declared in mpirun.h). */
#include "launchers/mpi/mpirun.h"

#include <stdlib.h>
#include <string.h>

/* "user@h1:2" and "h1 slots=2" are host h1. An address of IPv6 has several colons. */
static int add_host(struct words *hosts, struct slice text)
{
    const char *at = text.n ? memchr(text.p, '@', text.n) : NULL;
    const char *colon;
    char *name;
    int rc;

    if (at)
        text = slice_of(at + 1, text.n - (size_t)(at + 1 - text.p));
    colon = text.n ? memchr(text.p, ':', text.n) : NULL;
    if (colon && !memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.p)))
        text.n = (size_t)(colon - text.p);
    /* "+n2", "^h1": Open MPI's words for other hosts than named */
    if (!text.n || text.p[0] == '+' || text.p[0] == '^')
        return 0;
    if (!(name = slice_copy(text)))
        return -1;
    rc = words_add(hosts, name);
    free(name);
    return rc;
}

int mpi_hosts_of_list(struct words *hosts, const char *list)
{
    for (struct slice rest = slice_text(list); rest.n;)
        if (add_host(hosts, slice_cut(&rest, ',')) < 0)
            return -1;
    return 0;
}

int mpi_hosts_of_file(struct words *hosts, struct slice text)
{
    while (text.n) {
        struct slice line = slice_cut(&text, '\n');
        size_t from = 0, to;

        while (from < line.n && strchr(" \t\r", line.p[from]))
            from++;
        for (to = from; to < line.n && !strchr(" \t\r#", line.p[to]);)
            to++;
        if (to > from && add_host(hosts, slice_of(line.p + from, to - from)) < 0)
            return -1;
    }
    return 0;
}

/* Where the name is first; `before` itself if nowhere before. */
static size_t first_of(const struct words *hosts, size_t before)
{
    size_t i = 0;

    while (i < before && strcmp(hosts->v[i], hosts->v[before]) != 0)
        i++;
    return i;
}

int mpi_hosts_check(const struct words *hosts, const char *from, enum mpi_kind kind, unsigned n,
                    struct err *err)
{
    const char *twice = NULL, *apart = NULL;
    unsigned machines = 0, blocks = 0;

    for (size_t i = 0; i < hosts->n; i++) {
        const bool is_new = first_of(hosts, i) == i;

        machines += is_new;
        if (!is_new && !twice)
            twice = hosts->v[i];
        if (i > 0 && strcmp(hosts->v[i], hosts->v[i - 1]) == 0)
            continue;
        if (!is_new && !apart && (!n || n > blocks))
            apart = hosts->v[i];
        blocks++;
    }
    if (twice && n > machines)
        return err_set(err,
                       "%s names %s twice, and one agent runs on each machine: that is %u for the "
                       "%u of mpirun's -n; ask for %u there, or name more hosts; the cell's -n is "
                       "the number of ranks",
                       from, twice, machines, n, machines);
    if (apart && kind != MPI_OPEN)
        return err_set(err,
                       "%s names %s twice, with other hosts in between: this MPI would start a "
                       "second agent there, and one runs on each machine; name each host once",
                       from, apart);
    return 0;
}
