/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of %ranks check as tables and notes: which links are slow or dead. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/ranks/check.h"
#include "kernel/status/status.h"

#define MATRIX_MAX 16u /* ranks */
#define NAMED_MAX  8u  /* links that are named one by one */

void check_show(struct cell *c, const char *heading, const struct grid *grid,
                const struct buf *notes)
{
    struct buf text = BUF_INIT, html = BUF_INIT;
    const char *below = notes->p ? notes->p : "";
    int rc = buf_addf(&text, "%s\n", heading);

    rc = rc < 0 || (grid->n && grid_text(grid, &text) < 0) ? -1 : buf_add_text(&text, below);
    rc = rc < 0 ? rc : buf_add_text(&html, "<div class=\"cellspan-check\"><b>");
    rc = rc < 0 ? rc : html_add(&html, heading);
    rc = rc < 0 ? rc : buf_add_text(&html, "</b>\n");
    rc = rc < 0 || (grid->n && grid_html(grid, &html) < 0) ? -1 : buf_add_text(&html, "<pre>");
    rc = rc < 0 ? rc : html_add(&html, below);
    rc = rc < 0 ? rc : buf_add_text(&html, "</pre></div>\n");
    if (rc < 0)
        log_error("check", "out of memory: a table is not shown");
    else if (cell_is_shown(c))
        output_mime(c, buf_slice(&text), buf_slice(&html), NULL, NULL);
    buf_release(&text);
    buf_release(&html);
}

void check_note(struct buf *notes, const char *format, ...)
{
    char line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    text_trim(line);
    if (buf_addf(notes, "%s\n", line) < 0)
        log_error("check", "out of memory: not told: %s", line);
}

/* ---- pairs ---- */

static bool is_local(const struct check *k, const struct check_pair *p)
{
    return k->rank[p->a].node == k->rank[p->b].node;
}

static bool is_fine(const struct check_pair *p)
{
    return p->measured && !p->error && !p->bad;
}

/* Links within nodes (local) are compared only with each other, and so are links between nodes. */
static void judge(struct check *k, bool local)
{
    struct link_figure *figure = calloc(k->pairs + 1, sizeof *figure);
    size_t n = 0;

    for (size_t i = 0; figure && i < k->pairs; i++) {
        const struct check_pair *p = &k->pair[i];

        if (is_local(k, p) == local)
            figure[n++] = (struct link_figure){ .pair = { k->rank[p->a].rank, k->rank[p->b].rank },
                                                .us = p->us,
                                                .gbps = p->gbps,
                                                .failed = !is_fine(p) };
    }
    if (!figure || links_judge(figure, n, &k->medians[local]) < 0)
        log_error("check", "out of memory: links are not judged");
    n = 0;
    for (size_t i = 0; figure && i < k->pairs; i++)
        if (is_local(k, &k->pair[i]) == local)
            k->pair[i].state = figure[n++].state;
    free(figure);
}

/* The only rank that all bad links have in common; -1: there is none. */
static long common_rank(const struct check *k)
{
    struct link_figure *figure = calloc(k->pairs + 1, sizeof *figure);
    long found = -1;

    for (size_t i = 0; figure && i < k->pairs; i++)
        figure[i] = (struct link_figure){ .pair = { k->rank[k->pair[i].a].rank,
                                                    k->rank[k->pair[i].b].rank },
                                          .failed = !is_fine(&k->pair[i]),
                                          .state = k->pair[i].state };
    if (figure)
        found = links_culprit(figure, k->pairs);
    free(figure);
    return found;
}

static void note_culprit(const struct check *k, struct buf *notes)
{
    const long rank = common_rank(k);

    for (size_t i = 0; rank >= 0 && i < k->n; i++)
        if ((long)k->rank[i].rank == rank)
            check_note(notes, "all of them have rank %ld in common, on %s", rank,
                       k->rank[i].node_name);
}

static void name_pair(const struct check *k, const struct check_pair *p, char *out, size_t size)
{
    if (is_local(k, p))
        snprintf(out, size, "ranks %u and %u (%s)", k->rank[p->a].rank, k->rank[p->b].rank,
                 k->rank[p->a].node_name);
    else
        snprintf(out, size, "ranks %u and %u (%s, %s)", k->rank[p->a].rank, k->rank[p->b].rank,
                 k->rank[p->a].node_name, k->rank[p->b].node_name);
}

static void note_slow(const struct check *k, struct buf *notes)
{
    unsigned named = 0;

    for (size_t i = 0; i < k->pairs; i++) {
        const struct check_pair *p = &k->pair[i];
        const struct link_medians *usual = &k->medians[is_local(k, p)];
        char who[600];

        if (p->state != LINK_SLOW || named++ >= NAMED_MAX)
            continue;
        name_pair(k, p, who, sizeof who);
        check_note(
            notes,
            "slow: %s: %.3g GB/s and %.0f us; the median of links %s nodes is %.3g GB/s and %.0f us",
            who, p->gbps, p->us, is_local(k, p) ? "within" : "between", usual->gbps, usual->us);
    }
    if (named > NAMED_MAX)
        check_note(notes, "slow: %u links more", named - NAMED_MAX);
}

static void note_dead(const struct check *k, struct buf *notes)
{
    char who[600];

    for (size_t i = 0; i < k->pairs; i++) {
        const struct check_pair *p = &k->pair[i];

        name_pair(k, p, who, sizeof who);
        if (p->error)
            check_note(notes, "dead: %s: %s", who, p->error);
        else if (p->bad)
            check_note(notes, "wrong: %s: %lld numbers arrived changed", who, (long long)p->bad);
    }
    for (size_t i = 0; i < k->ways; i++)
        check_note(notes, "closed: from rank %u to rank %u: %s", k->way[i].from, k->way[i].to,
                   k->way[i].why);
}

static const struct check_pair *find(const struct check *k, size_t a, size_t b)
{
    for (size_t i = 0; i < k->pairs; i++)
        if ((k->pair[i].a == a && k->pair[i].b == b) || (k->pair[i].a == b && k->pair[i].b == a))
            return &k->pair[i];
    return NULL;
}

/* Bandwidth above the diagonal, latency below it. */
static void add_matrix(struct grid *g, const struct check *k)
{
    grid_add(g, "us \\ GB/s");
    for (size_t j = 0; j < k->paired; j++)
        grid_add(g, "%u", k->rank[k->in_pairs[j]].rank);
    for (size_t i = 0; i < k->paired; i++) {
        grid_add(g, "%u", k->rank[k->in_pairs[i]].rank);
        for (size_t j = 0; j < k->paired; j++) {
            const struct check_pair *p = find(k, k->in_pairs[i], k->in_pairs[j]);

            if (!p)
                grid_add(g, "%s", "");
            else if (p->error)
                grid_add(g, "dead");
            else if (i < j)
                grid_add(g, "%.3g%s", p->gbps, p->state == LINK_SLOW ? " !" : "");
            else
                grid_add(g, "%.0f%s", p->us, p->state == LINK_SLOW ? " !" : "");
        }
    }
}

static void note_kind(const struct check *k, bool local, struct buf *notes)
{
    const struct check_pair *worst = NULL;
    size_t n = 0;
    char who[600];

    for (size_t i = 0; i < k->pairs; i++)
        if (is_fine(&k->pair[i]) && is_local(k, &k->pair[i]) == local) {
            n++;
            worst = !worst || k->pair[i].gbps < worst->gbps ? &k->pair[i] : worst;
        }
    if (!worst)
        return;
    name_pair(k, worst, who, sizeof who);
    check_note(notes, "%zu %s nodes: median %.3g GB/s, %.0f us; the slowest: %s with %.3g GB/s", n,
               local ? "within" : "between", k->medians[local].gbps, k->medians[local].us, who,
               worst->gbps);
}

void check_show_pairs(struct cell *c, struct check *k)
{
    static const bool right[MATRIX_MAX + 1] = { true, true, true, true, true, true,
                                                true, true, true, true, true, true,
                                                true, true, true, true, true };
    struct grid g = { .columns = k->paired + 1, .right = right };
    struct buf notes = BUF_INIT;
    char heading[80];

    if (k->paired < 2)
        return;
    judge(k, true);
    judge(k, false);
    note_kind(k, true, &notes);
    note_kind(k, false, &notes);
    note_slow(k, &notes);
    note_dead(k, &notes);
    note_culprit(k, &notes);
    if (k->paired <= MATRIX_MAX)
        add_matrix(&g, k);
    snprintf(heading, sizeof heading, "%zu pair%s of ranks over %s", k->pairs,
             k->pairs == 1 ? "" : "s", k->nccl ? "NCCL" : "tcp");
    check_show(c, heading, &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

/* ---- the world ---- */

void check_show_world(struct cell *c, struct check *k)
{
    static const bool right[] = { false, true, true, true, true, true };
    static const char *const heads[] = { "operation",    "bytes",        "time (us)",
                                         "algbw (GB/s)", "busbw (GB/s)", "wrong" };
    struct grid g = { .columns = sizeof heads / sizeof *heads, .right = right };
    struct buf notes = BUF_INIT;
    char heading[80];

    for (size_t i = 0; k->rows && i < g.columns; i++)
        grid_add(&g, "%s", heads[i]);
    for (size_t i = 0; i < k->rows; i++) {
        const struct check_row *r = &k->row[i];

        grid_add(&g, "%s", r->op);
        grid_add(&g, "%lld", (long long)r->bytes);
        grid_add(&g, "%.1f", r->us / r->ranks);
        grid_add(&g, "%.3f", r->algbw / r->ranks);
        grid_add(&g, "%.3f", r->busbw / r->ranks);
        grid_add(&g, "%lld", (long long)r->bad);
    }
    if (k->world_error)
        check_note(&notes, "the whole world was not measured: %s", k->world_error);
    snprintf(heading, sizeof heading, "all %zu ranks over %s", k->n, k->nccl_id ? "NCCL" : "tcp");
    check_show(c, heading, &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

/* ---- the end ---- */

bool check_is_bad(const struct check *k, struct buf *out)
{
    const struct check_pair *first = NULL;
    size_t n = 0;
    json_int_t wrong = 0;
    char who[600];

    for (size_t i = 0; i < k->pairs; i++)
        if (k->pair[i].error || k->pair[i].bad) {
            first = first ? first : &k->pair[i];
            n++;
        }
    for (size_t i = 0; i < k->rows; i++)
        wrong += k->row[i].bad;
    if (!first && !k->world_error && !wrong)
        return false;
    if (first)
        name_pair(k, first, who, sizeof who);
    if ((first &&
         buf_addf(out, "%s: %s", who,
                  first->error ? first->error : "what arrived was not what was sent") < 0) ||
        (n > 1 && buf_addf(out, " (and %zu links more, see above)", n - 1) < 0) ||
        (!first &&
         buf_addf(out, "the whole world: %s",
                  k->world_error ? k->world_error : "what arrived was not what was sent") < 0))
        log_error("check", "out of memory: the check's failure is not told");
    return true;
}
