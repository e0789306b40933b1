/* SPDX-License-Identifier: BSD-3-Clause */
/* If a node of the engine does not start, the cell fails. It waits a moment, since more nodes may
 * fail; the error names all of them, in order. A node with another Python is of no use, either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rows.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"

#define MOMENT_NS (1500 * NS_PER_MS)
#define NAMED_MAX 8u

/* Nodes that did not start. */
struct node_errors {
    struct node_error {
        unsigned node;
        char *name, *why; /* owned */
        bool shown;       /* scratch flag, used only while the error's text is made */
    } *row;               /* by node */
    size_t n, room;
};

/* Is a node still starting? */
static bool any_starting(const struct notebook *nb)
{
    unsigned first = 0, n = 0, ranks;

    nb->ops.engine_nodes(nb->ops.arg, nb->group->engine, &first, &n, &ranks);
    for (unsigned k = 0; k < n; k++) {
        const struct node *info = nb->ops.node(nb->ops.arg, first + k);

        if (!info || info->state == NODE_ASKED)
            return true;
    }
    return n == 0;
}

#define MARK_SIZE 64u

/* " (ENGINE: ": in a reason, the text after it comes from the engine and differs by node. */
static void mark_of(const struct cell *c, char mark[static MARK_SIZE])
{
    const char *on = c->nb->group->on ? c->nb->group->on : "";

    snprintf(mark, MARK_SIZE, " (%.*s: ", (int)strcspn(on, ":"), on);
}

/* Are the two reasons equal up to the mark? */
static bool same_reason(const char *a, const char *b, const char *mark)
{
    const char *const end_a = strstr(a, mark), *const end_b = strstr(b, mark);
    const size_t n = end_a ? (size_t)(end_a - a) : strlen(a);

    return n == (end_b ? (size_t)(end_b - b) : strlen(b)) && memcmp(a, b, n) == 0;
}

/* Adds "h7, h9": the nodes that failed like `like` and were not added yet; sets their `shown`. like
 * NULL: adds all nodes and sets nothing. */
static int add_names(struct node_errors *a, const struct node_error *like, const char *mark,
                     struct buf *out)
{
    unsigned n = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct node_error *row = &a->row[i];

        if (like && (row->shown || !same_reason(row->why, like->why, mark)))
            continue;
        row->shown = like != NULL;
        if (n++ < NAMED_MAX && buf_addf(out, "%s%s", n > 1 ? ", " : "", row->name) < 0)
            return -1;
    }
    return n > NAMED_MAX ? buf_addf(out, " and %u more", n - NAMED_MAX) : 0;
}

/* Adds each of the first NAMED_MAX reasons once, after the names of its nodes. */
static int add_reasons(struct node_errors *a, const char *mark, struct buf *out)
{
    unsigned n = 0, more = 0;

    for (size_t i = 0; i < a->n; i++) {
        const struct node_error *row = &a->row[i];

        if (row->shown)
            continue;
        if (n == NAMED_MAX) {
            more++;
            continue;
        }
        if (buf_add_text(out, "\n  ") < 0 || add_names(a, row, mark, out) < 0 ||
            buf_addf(out, ": %s", row->why) < 0)
            return -1;
        n++;
    }
    return more ? buf_addf(out, "\n  and %u more, for other reasons", more) : 0;
}

static bool is_alike(const struct node_errors *a, const char *mark)
{
    for (size_t i = 1; i < a->n; i++)
        if (!same_reason(a->row[i].why, a->row[0].why, mark))
            return false;
    return true;
}

void node_errors_fail(struct cell *c)
{
    struct node_errors *a = c->engine.errors;
    struct buf words = BUF_INIT;
    char mark[MARK_SIZE];
    int rc;

    mark_of(c, mark);
    rc = add_names(a, NULL, mark, &words) < 0 || buf_add_text(&words, " did not come up:") < 0;
    if (rc == 0)
        rc = is_alike(a, mark) ? buf_addf(&words, " %s", a->row[0].why)
                               : add_reasons(a, mark, &words);
    if (rc == 0)
        cell_fail(c, "RankNotStarted", "%s", words.p);
    else
        cell_fail(c, "RankNotStarted", "%zu machines did not come up: run the cell again", a->n);
    buf_release(&words);
}

void node_errors_poll(struct cell *c)
{
    if (c->engine.errors && !any_starting(c->nb))
        node_errors_fail(c);
}

static uint64_t number(const void *rows, size_t i)
{
    return ((const struct node_error *)rows)[i].node;
}

static int add(struct node_errors *a, unsigned node, const char *name, const char *why)
{
    struct node_error *row = rows_insert(&a->row, &a->n, &a->room, sizeof *row,
                                         rows_place(a->row, a->n, number, node));

    if (!row)
        return -1;
    *row = (struct node_error){ .node = node, .name = strdup(name), .why = strdup(why) };
    if (row->name && row->why)
        return 0;
    free(row->name);
    free(row->why);
    rows_remove(a->row, &a->n, sizeof *row, (size_t)(row - a->row));
    return -1;
}

void node_errors_add(struct cell *c, unsigned node, const char *name, const char *why)
{
    struct node_errors *a = c->engine.errors;

    if (!a)
        a = c->engine.errors = calloc(1, sizeof *a);
    if (!a || add(a, node, name, why) < 0) {
        cell_fail(c, "RankNotStarted", "%s did not come up: %s", name, why);
        return;
    }
    if (a->n == 1)
        cell_limit_step(c, notebook_now(c->nb) + MOMENT_NS);
    node_errors_poll(c);
}

void node_errors_release(struct cell *c)
{
    struct node_errors *a = c->engine.errors;

    for (size_t i = 0; a && i < a->n; i++) {
        free(a->row[i].name);
        free(a->row[i].why);
    }
    if (a)
        free(a->row);
    free(a);
    c->engine.errors = NULL;
}

/* ---- another Python ---- */

/* "3.11" of "3.11.7". */
static size_t minor_size(const char *version, size_t n)
{
    const char *dot = memchr(version, '.', n);
    const char *second = dot ? memchr(dot + 1, '.', n - (size_t)(dot + 1 - version)) : NULL;

    return second ? (size_t)(second - version) : n;
}

/* Ranks must be able to unpickle what home pickles. Pickles can hold byte code, which needs the
 * same minor version of Python. */
bool node_errors_python(struct cell *c, const struct rank *r, struct slice version)
{
    struct notebook *nb = c->nb;
    const char *ours = nb->config.python_version;
    const size_t n = minor_size(ours, strlen(ours));
    struct ranks all = RANKS_INIT;

    if (r->node == NODE_HERE || version.n == 0 ||
        (minor_size(version.p, version.n) == n && memcmp(version.p, ours, n) == 0))
        return false;
    for (size_t k = 0; k < c->n; k++)
        if (c->group->rank[c->member[k].rank].node == r->node &&
            ranks_add(&all, c->member[k].rank) < 0)
            break;
    stop_signal_ranks(nb, c->group, &all, 9, 0);
    ranks_release(&all);
    cell_fail(
        c, "RankNotStarted",
        "rank %u: Python on %s is %.*s, the notebook's is %s: variables can't be sent between them (set "
        "CELLSPAN_REMOTE_PYTHON to a "
        "Python %.*s there)",
        r->number, notebook_node_name(nb, r->node), SLICE_ARG(version), ours, (int)n, ours);
    return true;
}
