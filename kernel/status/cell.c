/* cell.c - see status.h: the ranks of a running cell, small enough to be sent once a second. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/ranks.h"
#include "kernel/status/table.h"

static bool same_state(const struct status_rank *a, const struct status_rank *b)
{
    return strcmp(a->state, b->state) == 0 && a->in_cell_ns / NS_PER_S == b->in_cell_ns / NS_PER_S;
}

static bool same_name(const struct status_rank *a, const struct status_rank *b)
{
    return strcmp(a->state, b->state) == 0;
}

/* The ranks from `first` on that are alike; false: one before it was, so they have been told. */
static int alike(const struct status_cell *s, size_t first,
                 bool (*same)(const struct status_rank *, const struct status_rank *), struct ranks *found)
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
    int rc, told = 0;

    write_time(time, s->elapsed_ns);
    rc = buf_addf(out, "%zu rank%s, %s", s->n, s->n == 1 ? "" : "s", time);
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const int news = alike(s, i, same_name, &found);

        write_text(state, s->rows[i].state);
        rc = news < 0   ? -1
             : news > 0 ? buf_addf(out, "%s %zu %s", told++ ? "," : ":", (size_t)ranks_count(&found), state)
                        : 0;
    }
    ranks_release(&found);
    return rc;
}

/* "ranks 0-3 done in 0:12": all that is left of a cell that went well. */
static int add_end(const struct status_cell *s, struct buf *out)
{
    struct ranks all = RANKS_INIT;
    char time[TABLE_CELL];
    int rc = 0;

    write_time(time, s->elapsed_ns);
    for (size_t i = 0; rc == 0 && i < s->n; i++)
        rc = ranks_add(&all, s->rows[i].rank);
    if (rc == 0)
        rc = buf_add_text(out, s->n == 1 ? "rank " : "ranks ");
    if (rc == 0)
        rc = ranks_format(&all, out);
    if (rc == 0)
        rc = buf_addf(out, " done in %s", time);
    ranks_release(&all);
    return rc;
}

struct spread {
    uint64_t least, most, total;
    int use_least, use_most;
    size_t n, crowded; /* ranks with GPUs; those of them that others use, too */
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

/* "gpu memory 11 GiB to 12 GiB of 80 GiB, use 80 to 97 %, others on those of 3 ranks": of many, the least and the most.
 */
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
    if (g.crowded && buf_addf(out, ", others on %s of %zu rank%s", g.crowded > 1 ? "those" : "that", g.crowded,
                              g.crowded > 1 ? "s" : "") < 0)
        return -1;
    return buf_add_text(out, "\n");
}

/* "[0-31] running 0:12", a line for each state and time. */
static int add_lines(const struct status_cell *s, struct buf *out)
{
    struct ranks found = RANKS_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const int news = alike(s, i, same_state, &found);
        char state[TABLE_CELL], time[TABLE_CELL] = "";

        if ((rc = news < 0 ? -1 : 0) < 0 || news == 0)
            continue;
        write_text(state, s->rows[i].state);
        if (s->rows[i].in_cell_ns)
            write_time(time, s->rows[i].in_cell_ns);
        rc = buf_add_text(out, "[");
        rc = rc < 0 ? rc : ranks_format(&found, out);
        rc = rc < 0 ? rc : buf_addf(out, "] %s%s%s\n", state, time[0] ? " " : "", time);
    }
    ranks_release(&found);
    return rc < 0 ? rc : add_gpus(s, out);
}

static bool is_one_line(const struct status_cell *s)
{
    return (s->over && s->well) || s->n == 0;
}

int status_cell_text(const struct status_cell *s, struct buf *out)
{
    if (is_one_line(s))
        return add_end(s, out);
    if (add_heading(s, out) < 0 || buf_add_text(out, "\n") < 0)
        return -1;
    return s->n > STATUS_ROWS ? add_lines(s, out) : table_text(s->rows, s->n, VIEW_CELL, out);
}

static int add_escaped_from(struct buf *out, struct buf *text, int rc)
{
    if (rc == 0)
        rc = html_add(out, text->p ? text->p : "");
    buf_clear(text);
    return rc;
}

int status_cell_html(const struct status_cell *s, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = buf_add_text(out, "<div class=\"cellspan-status\" style=\"opacity:0.8\">");

    if (rc == 0 && is_one_line(s)) {
        rc = add_escaped_from(out, &text, add_end(s, &text));
    } else if (rc == 0) {
        rc = add_escaped_from(out, &text, add_heading(s, &text));
        if (rc == 0 && s->n <= STATUS_ROWS)
            rc = buf_add_text(out, "\n") < 0 ? -1 : table_html(s->rows, s->n, VIEW_CELL, out);
        else if (rc == 0)
            rc = buf_add_text(out, "\n<pre>") < 0 || add_escaped_from(out, &text, add_lines(s, &text)) < 0
                     ? -1
                     : buf_add_text(out, "</pre>");
    }
    buf_release(&text);
    return rc < 0 ? rc : buf_add_text(out, "</div>\n");
}
