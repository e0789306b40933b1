/* SPDX-License-Identifier: BSD-3-Clause */
/* The display of a running cell's ranks is short, since it is sent once a second. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/rank_set.h"
#include "kernel/status/status_table.h"

#define LIST_MAX  40u /* bytes of ranks' numbers in a line */
#define NODES_MAX 3u  /* names of nodes in a line */

/* In JupyterLab and its like it has the size of text, and begins at the left edge of text. */
#define STYLE                                                                                      \
    "opacity:0.8;white-space:pre-line;font-size:var(--jp-ui-font-size1,inherit);"                  \
    "padding-left:calc(1.6*var(--jp-code-padding,0px))"

/* Shows the display above the cell's output, although it comes later: only after some time is it
 * known that a cell takes long. JupyterLab, Notebook 7 and pages made by nbconvert follow this;
 * elsewhere it has no effect. */
#define ON_TOP                                                                                     \
    "<style>.jp-OutputArea:has(> .jp-OutputArea-child .cellspan-status)"                           \
    "{display:grid;grid-template-columns:minmax(0,1fr);align-content:start}"                       \
    ".jp-OutputArea-child:has(.cellspan-status){order:-1}</style>"

static bool same_state(const struct status_rank *a, const struct status_rank *b)
{
    return strcmp(a->state, b->state) == 0 && a->in_cell_ns / NS_PER_S == b->in_cell_ns / NS_PER_S;
}

static bool same_name(const struct status_rank *a, const struct status_rank *b)
{
    return strcmp(a->state, b->state) == 0;
}

/* Finds the ranks that have the same state as rank `first`. false: an earlier rank had the same
 * state, so this group was written already. */
static int alike(const struct status_cell *s, size_t first,
                 bool (*same)(const struct status_rank *, const struct status_rank *),
                 struct ranks *found)
{
    ranks_clear(found);
    for (size_t i = 0; i < first; i++)
        if (same(&s->rows[i], &s->rows[first]))
            return 0;
    for (size_t i = first; i < s->n; i++)
        if (same(&s->rows[i], &s->rows[first]) && ranks_add(found, s->rows[i].rank) < 0)
            return -1;
    return 1;
}

/* "4 ranks, 0:12: 3 running, 1 done" */
static int add_heading(const struct status_cell *s, struct buf *out)
{
    struct ranks found = RANKS_INIT;
    char time[TABLE_CELL], state[TABLE_CELL];
    int rc, listed = 0;

    write_time(time, s->elapsed_ns);
    rc = buf_addf(out, "%zu rank%s, %s", s->n, s->n == 1 ? "" : "s", time);
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const int news = alike(s, i, same_name, &found);

        write_text(state, s->rows[i].state);
        rc = news < 0   ? -1
             : news > 0 ? buf_addf(out, "%s %zu %s", listed++ ? "," : ":",
                                   (size_t)ranks_count(&found), state)
                        : 0;
    }
    ranks_release(&found);
    return rc;
}

/* "ranks 0-2", or only their number if the list is long. */
static int add_ranks(const struct ranks *found, struct buf *out)
{
    struct buf list = BUF_INIT;
    const size_t n = ranks_count(found);
    int rc = ranks_format(found, &list);

    if (rc == 0)
        rc = list.n > LIST_MAX ? buf_addf(out, "%zu ranks", n)
                               : buf_addf(out, "rank%s %s", n == 1 ? "" : "s", list.p);
    buf_release(&list);
    return rc;
}

/* "37 of 200, 2 failed, 1 tried again", or "37 so far" */
static int add_count(const struct status_cell *s, struct buf *out)
{
    const struct status_count *n = &s->count;
    int rc = n->of ? buf_addf(out, "%" PRIu64 " of %" PRIu64, n->done, n->of)
                   : buf_addf(out, "%" PRIu64 "%s", n->done, s->over ? " items" : " so far");

    if (rc == 0 && n->failed)
        rc = buf_addf(out, ", %" PRIu64 " failed", n->failed);
    if (rc == 0 && n->again)
        rc = buf_addf(out, ", %" PRIu64 " tried again", n->again);
    return rc;
}

/* The line of a cell that is over: "ranks 0-3 done in 0:12", "rank 0 interrupted, ranks 1-3 failed
 * in 0:12". Before it is what they have done: "200 of 200: ". */
static int add_end(const struct status_cell *s, struct buf *out)
{
    struct ranks found = RANKS_INIT;
    char time[TABLE_CELL], state[TABLE_CELL];
    int rc = s->counts && (add_count(s, out) < 0 || buf_add_text(out, ": ") < 0) ? -1 : 0;

    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const int news = alike(s, i, same_name, &found);

        if ((rc = news < 0 ? -1 : 0) < 0 || news == 0)
            continue;
        write_text(state, s->rows[i].state);
        if (i && buf_add_text(out, ", ") < 0)
            rc = -1;
        rc = rc < 0 || add_ranks(&found, out) < 0 ? -1 : buf_addf(out, " %s", state);
    }
    ranks_release(&found);
    write_time(time, s->elapsed_ns);
    return rc < 0 ? rc : buf_addf(out, " in %s", time);
}

struct spread {
    uint64_t least, most, total;
    int use_least, use_most;
    size_t n, crowded; /* ranks with GPUs; ranks whose GPUs others use, too */
};

static struct spread spread_of(const struct status_cell *s)
{
    struct spread g = { .least = UINT64_MAX, .use_least = -1, .use_most = -1 };

    for (size_t i = 0; i < s->n; i++) {
        const struct status_rank *r = &s->rows[i];

        if (!r->gpu || !r->gpu_total)
            continue;
        g.n++;
        g.least = r->gpu_used < g.least ? r->gpu_used : g.least;
        g.most = r->gpu_used > g.most ? r->gpu_used : g.most;
        g.total = r->gpu_total > g.total ? r->gpu_total : g.total;
        g.crowded += r->gpu_others > 0;
        if (r->gpu_use < 0)
            continue;
        g.use_least = g.use_least < 0 || r->gpu_use < g.use_least ? r->gpu_use : g.use_least;
        g.use_most = r->gpu_use > g.use_most ? r->gpu_use : g.use_most;
    }
    return g;
}

/* "gpu memory 11 GiB to 12 GiB of 80 GiB, use 80 to 97 %, others on those of 3 ranks": the least
 * and the most of many ranks. */
static int add_gpus(const struct status_cell *s, struct buf *out)
{
    const struct spread g = spread_of(s);
    char least[TABLE_CELL], most[TABLE_CELL], total[TABLE_CELL];

    if (g.n == 0)
        return 0;
    write_size(least, g.least);
    write_size(most, g.most);
    write_size(total, g.total);
    if (buf_addf(out, "gpu memory %s to %s of %s", least, most, total) < 0)
        return -1;
    if (g.use_least >= 0 && buf_addf(out, ", use %d to %d %%", g.use_least, g.use_most) < 0)
        return -1;
    if (g.crowded && buf_addf(out, ", others on %s of %zu rank%s", g.crowded > 1 ? "those" : "that",
                              g.crowded, g.crowded > 1 ? "s" : "") < 0)
        return -1;
    return buf_add_text(out, "\n");
}

static bool is_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* " (h1, h2)": the nodes of the ranks that are like rank `first`. */
static int add_nodes(const struct status_cell *s, size_t first, struct buf *out)
{
    const char *seen[NODES_MAX];
    char name[TABLE_CELL];
    size_t n = 0;

    for (size_t i = first; i < s->n; i++) {
        const char *node = s->rows[i].node;

        if (!node || !same_state(&s->rows[i], &s->rows[first]) || is_in(node, seen, n))
            continue;
        if (n == NODES_MAX)
            return buf_add_text(out, ", \xe2\x80\xa6)");
        write_text(name, node);
        if (buf_addf(out, "%s%s", n ? ", " : " (", name) < 0)
            return -1;
        seen[n++] = node;
    }
    return n ? buf_add_text(out, ")") : 0;
}

/* "ranks 0-3 running 0:12 (vm)": the ranks that are like rank `first`. */
static int add_line(const struct status_cell *s, size_t first, const struct ranks *found,
                    struct buf *out)
{
    char state[TABLE_CELL], time[TABLE_CELL] = "";

    write_text(state, s->rows[first].state);
    if (s->rows[first].in_cell_ns)
        write_time(time, s->rows[first].in_cell_ns);
    if (add_ranks(found, out) < 0 || buf_addf(out, " %s%s%s", state, time[0] ? " " : "", time) < 0)
        return -1;
    return add_nodes(s, first, out);
}

/* ", as of 2026-11-21 14:03:07, ends in 0:14:10". A closed page keeps the last state, which must
 * stay true. */
static int add_time(const struct status_cell *s, struct buf *out)
{
    const unsigned left = (unsigned)(s->left_ns / NS_PER_S);

    if (s->as_of && s->as_of[0] && buf_addf(out, ", as of %s", s->as_of) < 0)
        return -1;
    return s->left_ns
               ? buf_addf(out, ", ends in %u:%02u:%02u", left / 3600, left / 60 % 60, left % 60)
               : 0;
}

/* A line for each state and time. */
static int add_lines(const struct status_cell *s, struct buf *out)
{
    struct ranks found = RANKS_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const int news = alike(s, i, same_state, &found);

        if ((rc = news < 0 ? -1 : 0) < 0 || news == 0)
            continue;
        rc = add_line(s, i, &found, out);
        if (rc == 0 && i == 0 && !s->doing)
            rc = add_time(s, out);
        if (rc == 0)
            rc = buf_add_text(out, "\n");
    }
    ranks_release(&found);
    return rc < 0 ? rc : add_gpus(s, out);
}

/* Each rank has a row of its own if some have GPUs, unless there are too many ranks. */
static bool is_table(const struct status_cell *s)
{
    if (s->over || s->doing || s->n > STATUS_ROWS)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].gpu)
            return true;
    return false;
}

/* "1.2 of 4.0 GiB, ", "900 MiB of 4.0 GiB, ", or "4.0 GiB, " if it is not known how much is there
 */
static int add_amount(const struct status_cell *s, struct buf *out)
{
    char had[TABLE_CELL], all[TABLE_CELL];
    char *unit;

    write_size(all, s->bytes);
    if (s->had == UINT64_MAX)
        return buf_addf(out, "%s, ", all);
    write_size(had, s->had);
    unit = strchr(had, ' ');
    if (unit && strcmp(unit, strchr(all, ' ')) == 0)
        *unit = '\0';
    return buf_addf(out, "%s of %s, ", had, all);
}

/* "importing torch (0:12), as of 2026-11-21 14:03:07", "sending data (1.2 of 4.0 GiB, 0:12)" */
static int add_doing(const struct status_cell *s, struct buf *out)
{
    char time[TABLE_CELL];

    write_time(time, s->elapsed_ns);
    if (buf_addf(out, "%s (", s->doing) < 0 || (s->bytes && add_amount(s, out) < 0))
        return -1;
    return buf_addf(out, "%s)", time) < 0 || add_time(s, out) < 0 ? -1 : buf_add_text(out, "\n");
}

/* The text before the table, or the whole text if there is no table. */
static int add_words(const struct status_cell *s, struct buf *out)
{
    if (s->over)
        return add_end(s, out);
    if (s->doing && add_doing(s, out) < 0)
        return -1;
    if (s->doing && !s->bytes)
        return 0;
    if (s->counts && (add_count(s, out) < 0 || buf_add_text(out, "\n") < 0))
        return -1;
    if (!is_table(s))
        return add_lines(s, out);
    return add_heading(s, out) < 0 || add_time(s, out) < 0 ? -1 : buf_add_text(out, "\n");
}

int status_cell_text(const struct status_cell *s, struct buf *out)
{
    if (add_words(s, out) < 0)
        return -1;
    return is_table(s) ? table_text(s->rows, s->n, VIEW_CELL, out) : 0;
}

/* Without an end there is no bar. */
static int add_bar(struct buf *out, uint64_t done, uint64_t of)
{
    return of ? buf_addf(out, "<progress value=\"%" PRIu64 "\" max=\"%" PRIu64 "\"></progress> ",
                         done, of)
              : 0;
}

int status_cell_html(const struct status_cell *s, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = buf_add_text(out, "<div class=\"cellspan-status\" style=\"" STYLE "\">" ON_TOP);

    if (rc == 0 && (s->doing || (s->counts && !s->over)))
        rc = add_bar(out, s->doing ? s->done : s->count.done, s->doing ? s->of : s->count.of);
    if (rc == 0)
        rc = add_words(s, &text);
    while (text.n && text.p[text.n - 1] == '\n')
        text.n--;
    if (rc == 0 && (buf_add(&text, "", 1) < 0 || html_add(out, text.p) < 0))
        rc = -1;
    buf_release(&text);
    if (rc == 0 && is_table(s))
        rc = table_html(s->rows, s->n, VIEW_CELL, out);
    return rc < 0 ? rc : buf_add_text(out, "</div>\n");
}
