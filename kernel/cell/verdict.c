/* What the answers of %ranks check mean, in tables and sentences: what differs between nodes, and which link is slow or
 * dead. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/check.h"
#include "kernel/cell/text.h"
#include "kernel/status/grid.h"

#define CLOCK_OFF_S 2.0 /* more is named */
#define SHM_LITTLE  (INT64_C(64) << 20)
#define MATRIX_MAX  16u /* ranks */
#define NAMED_MAX   8u  /* links that are named one by one */

/* ---- what is shown ---- */

/* A heading, a table, and sentences below it, a line each. */
static void show(struct cell *c, const char *heading, const struct grid *grid, const struct buf *notes)
{
    struct buf text = BUF_INIT, html = BUF_INIT;
    const char *below = notes->p ? notes->p : "";
    int rc = buf_addf(&text, "%s\n", heading);

    rc = rc < 0 || (grid->n && grid_text(grid, &text) < 0) ? -1 : buf_add_text(&text, below);
    rc = rc < 0 ? rc : buf_add_text(&html, "<div class=\"cellspan-check\"><b>");
    rc = rc < 0 ? rc : grid_escape(&html, heading);
    rc = rc < 0 ? rc : buf_add_text(&html, "</b>\n");
    rc = rc < 0 || (grid->n && grid_html(grid, &html) < 0) ? -1 : buf_add_text(&html, "<pre>");
    rc = rc < 0 ? rc : grid_escape(&html, below);
    rc = rc < 0 ? rc : buf_add_text(&html, "</pre></div>\n");
    if (rc < 0)
        log_error("check", "out of memory: a table is not shown");
    else if (cell_is_shown(c))
        publish_json(c->nb, c->request, "display_data",
                     json_pack("{s:{s:s, s:s}, s:{}, s:{}}", "data", "text/plain", text.p, "text/html", html.p,
                               "metadata", "transient"));
    buf_release(&text);
    buf_release(&html);
}

static void note(struct buf *notes, const char *format, ...) PRINTF_LIKE(2, 3);
static void note(struct buf *notes, const char *format, ...)
{
    char line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (buf_addf(notes, "%s\n", line) < 0)
        log_error("check", "out of memory: not told: %s", line);
}

/* ---- facts ---- */

static const char *fact(const struct check_rank *r, const char *name)
{
    return text_field(r->facts, name);
}

/* The ranks of node i's machine, by its first rank. */
static int node_ranks(const struct check *k, size_t i, struct buf *out)
{
    struct ranks mine = RANKS_INIT;
    int rc = 0;

    for (size_t j = 0; rc == 0 && j < k->n; j++)
        if (k->rank[j].node == k->rank[i].node)
            rc = ranks_add(&mine, k->rank[j].rank);
    rc = rc < 0 ? rc : ranks_format(&mine, out);
    ranks_release(&mine);
    return rc;
}

static bool is_first(const struct check *k, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (k->rank[j].node == k->rank[i].node)
            return false;
    return true;
}

static void add_addresses(const struct check_rank *r, struct buf *out)
{
    const json_t *list = json_object_get(r->facts, "addresses"), *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(json_array_get(one, 0)),
                   *address = json_string_value(json_array_get(one, 1));

        if (!name || !address || strncmp(address, "fe80:", 5) == 0) /* links' own addresses say nothing */
            continue;
        if (buf_addf(out, "%s%s=%s", out->n ? " " : "", name, address) < 0)
            return;
    }
}

static void add_size(struct grid *g, const json_t *bytes)
{
    if (json_is_integer(bytes))
        grid_add(g, "%.1f GiB", (double)json_integer_value(bytes) / (double)(1 << 30));
    else
        grid_add(g, "-");
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static void add_node(struct grid *g, const struct check *k, size_t i)
{
    const struct check_rank *r = &k->rank[i];
    struct buf ranks = BUF_INIT, addresses = BUF_INIT;

    add_addresses(r, &addresses);
    grid_add(g, "%s", r->node_name);
    grid_add(g, "%s", node_ranks(k, i, &ranks) == 0 ? ranks.p : "?");
    grid_add(g, "%s", or_dash(fact(r, "python")));
    grid_add(g, "%s", or_dash(fact(r, "torch")));
    grid_add(g, "%s", or_dash(fact(r, "nccl")));
    grid_add(g, "%s", or_dash(fact(r, "driver")));
    grid_add(g, "%+.1f s", fabs(r->offset_s) < 0.05 ? 0.0 : r->offset_s);
    add_size(g, json_object_get(r->facts, "shm_free"));
    grid_add(g, "%s", addresses.p ? addresses.p : "-");
    buf_release(&ranks);
    buf_release(&addresses);
}

/* "2.5.1 on h1, 2.4.0 on h2": each value with the nodes that have it. */
static void note_differing(const struct check *k, const char *name, const char *what, struct buf *notes)
{
    struct buf line = BUF_INIT;
    bool differs = false;

    for (size_t i = 1; i < k->n; i++)
        differs = differs || strcmp(fact(&k->rank[i], name), fact(&k->rank[0], name)) != 0;
    for (size_t i = 0; differs && i < k->n; i++) {
        const char *value = fact(&k->rank[i], name);
        bool told = false;

        for (size_t j = 0; j < i; j++)
            told = told || strcmp(fact(&k->rank[j], name), value) == 0;
        if (told || buf_addf(&line, "%s%s on", line.n ? ", " : "", value[0] ? value : "none") < 0)
            continue;
        for (size_t j = i; j < k->n; j++)
            if (strcmp(fact(&k->rank[j], name), value) == 0 && (is_first(k, j) || j == i) &&
                buf_addf(&line, " %s", k->rank[j].node_name) < 0)
                break;
    }
    if (differs)
        note(notes, "%s differs: %s", what, line.p ? line.p : "");
    buf_release(&line);
}

/* "1.2 days", "3.5 s" */
static void duration(char out[static 32], double s)
{
    if (s >= 2 * 86400)
        snprintf(out, 32, "%.1f days", s / 86400);
    else if (s >= 2 * 3600)
        snprintf(out, 32, "%.1f hours", s / 3600);
    else if (s >= 120)
        snprintf(out, 32, "%.0f minutes", s / 60);
    else
        snprintf(out, 32, "%.1f s", s);
}

static void note_node(const struct check_rank *r, struct buf *notes)
{
    const json_t *free = json_object_get(r->facts, "shm_free");
    char off[32];

    if (fabs(r->offset_s) > CLOCK_OFF_S + r->doubt_s) {
        duration(off, fabs(r->offset_s));
        note(notes, "the clock of %s is %s %s the kernel's", r->node_name, off,
             r->offset_s > 0 ? "ahead of" : "behind");
    }
    if (!json_is_integer(free))
        note(notes, "%s has no /dev/shm: big variables can't be shared there", r->node_name);
    else if (json_integer_value(free) < SHM_LITTLE)
        note(notes, "/dev/shm of %s has %.1f MiB left: big variables need it", r->node_name,
             (double)json_integer_value(free) / (double)(1 << 20));
}

static void note_gpus(const struct check *k, struct buf *notes)
{
    size_t with = 0;

    for (size_t i = 0; i < k->n; i++)
        with += json_array_size(json_object_get(k->rank[i].facts, "gpus")) > 0;
    for (size_t i = 0; with && i < k->n; i++)
        if (json_array_size(json_object_get(k->rank[i].facts, "gpus")) == 0)
            note(notes, "rank %u on %s has no GPU, others have%s%s", k->rank[i].rank, k->rank[i].node_name,
                 fact(&k->rank[i], "gpu_error")[0] ? ": " : "", fact(&k->rank[i], "gpu_error"));
    if (with == k->n && !verdict_nccl(k))
        note(notes, "NCCL can't be checked: not every rank has one of the same version");
}

/* Interfaces' names matter: NCCL_SOCKET_IFNAME is one for all. */
static bool has_interface(const struct check_rank *r, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(r->facts, "addresses"), i,
                       one) if (json_string_value(json_array_get(one, 0)) &&
                                strcmp(json_string_value(json_array_get(one, 0)), name) == 0) return true;
    return false;
}

static void note_interfaces(const struct check *k, struct buf *notes)
{
    const json_t *one;
    size_t p;

    for (size_t i = 1; i < k->n; i++) {
        bool any = false;

        json_array_foreach(json_object_get(k->rank[0].facts, "addresses"), p, one) any =
            any || (json_string_value(json_array_get(one, 0)) &&
                    has_interface(&k->rank[i], json_string_value(json_array_get(one, 0))));
        if (!any && is_first(k, i) && json_array_size(json_object_get(k->rank[0].facts, "addresses")))
            note(notes, "%s and %s have no interface of the same name: NCCL_SOCKET_IFNAME can't be the same for both",
                 k->rank[0].node_name, k->rank[i].node_name);
    }
}

void verdict_facts(struct cell *c, struct check *k)
{
    static const bool right[] = { false, false, false, false, false, false, true, true, false };
    static const char *const heads[] = { "node", "ranks", "python",        "torch",    "nccl",
                                         "cuda", "clock", "/dev/shm free", "addresses" };
    struct grid g = { .columns = sizeof heads / sizeof *heads, .right = right };
    struct buf notes = BUF_INIT;

    for (size_t i = 0; i < g.columns; i++)
        grid_add(&g, "%s", heads[i]);
    for (size_t i = 0; i < k->n; i++)
        if (is_first(k, i)) {
            add_node(&g, k, i);
            note_node(&k->rank[i], &notes);
        }
    note_differing(k, "python", "Python", &notes);
    note_differing(k, "cellspan", "cellspan", &notes);
    note_differing(k, "torch", "torch", &notes);
    note_differing(k, "torch_cuda", "torch's CUDA", &notes);
    note_differing(k, "nccl", "NCCL", &notes);
    note_differing(k, "driver", "the driver's CUDA", &notes);
    note_gpus(k, &notes);
    note_interfaces(k, &notes);
    show(c, "nodes", &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

static bool same_nccl(const char *a, const char *b)
{
    unsigned a1 = 0, a2 = 0, b1 = 0, b2 = 0;

    return sscanf(a, "%u.%u", &a1, &a2) == 2 && sscanf(b, "%u.%u", &b1, &b2) == 2 && a1 == b1 && a2 == b2;
}

bool verdict_nccl(const struct check *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (!json_array_size(json_object_get(k->rank[i].facts, "gpus")) ||
            !same_nccl(fact(&k->rank[i], "nccl"), fact(&k->rank[0], "nccl")))
            return false;
    return k->n > 0;
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

/* Links within nodes are judged among themselves, and so are those between nodes. */
static void judge(struct check *k, bool local)
{
    struct link_figure *figure = calloc(k->pairs + 1, sizeof *figure);
    size_t n = 0;

    for (size_t i = 0; figure && i < k->pairs; i++) {
        const struct check_pair *p = &k->pair[i];

        if (is_local(k, p) == local)
            figure[n++] = (struct link_figure){
                .pair = { k->rank[p->a].rank, k->rank[p->b].rank }, .us = p->us, .gbps = p->gbps, .failed = !is_fine(p)
            };
    }
    if (!figure || links_judge(figure, n, &k->medians[local]) < 0)
        log_error("check", "out of memory: links are not judged");
    n = 0;
    for (size_t i = 0; figure && i < k->pairs; i++)
        if (is_local(k, &k->pair[i]) == local)
            k->pair[i].state = figure[n++].state;
    free(figure);
}

/* The one rank that is in every link that is not good. */
static long culprit(const struct check *k)
{
    struct link_figure *figure = calloc(k->pairs + 1, sizeof *figure);
    long found = -1;

    for (size_t i = 0; figure && i < k->pairs; i++)
        figure[i] = (struct link_figure){ .pair = { k->rank[k->pair[i].a].rank, k->rank[k->pair[i].b].rank },
                                          .failed = !is_fine(&k->pair[i]),
                                          .state = k->pair[i].state };
    if (figure)
        found = links_culprit(figure, k->pairs);
    free(figure);
    return found;
}

static void note_culprit(const struct check *k, struct buf *notes)
{
    const long rank = culprit(k);

    for (size_t i = 0; rank >= 0 && i < k->n; i++)
        if ((long)k->rank[i].rank == rank)
            note(notes, "all of them have rank %ld in common, on %s", rank, k->rank[i].node_name);
}

static void name_pair(const struct check *k, const struct check_pair *p, char *out, size_t size)
{
    if (is_local(k, p))
        snprintf(out, size, "ranks %u and %u (%s)", k->rank[p->a].rank, k->rank[p->b].rank, k->rank[p->a].node_name);
    else
        snprintf(out, size, "ranks %u and %u (%s, %s)", k->rank[p->a].rank, k->rank[p->b].rank, k->rank[p->a].node_name,
                 k->rank[p->b].node_name);
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
        note(notes, "slow: %s: %.3g GB/s and %.0f us; the median of links %s nodes is %.3g GB/s and %.0f us", who,
             p->gbps, p->us, is_local(k, p) ? "within" : "between", usual->gbps, usual->us);
    }
    if (named > NAMED_MAX)
        note(notes, "slow: %u links more", named - NAMED_MAX);
}

static void note_dead(const struct check *k, struct buf *notes)
{
    char who[600];

    for (size_t i = 0; i < k->pairs; i++) {
        const struct check_pair *p = &k->pair[i];

        name_pair(k, p, who, sizeof who);
        if (p->error)
            note(notes, "dead: %s: %s", who, p->error);
        else if (p->bad)
            note(notes, "wrong: %s: %lld numbers arrived changed", who, (long long)p->bad);
    }
    for (size_t i = 0; i < k->ways; i++)
        note(notes, "closed: from rank %u to rank %u: %s", k->way[i].from, k->way[i].to, k->way[i].why);
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
    note(notes, "%zu %s nodes: median %.3g GB/s, %.0f us; the slowest: %s with %.3g GB/s", n,
         local ? "within" : "between", k->medians[local].gbps, k->medians[local].us, who, worst->gbps);
}

void verdict_pairs(struct cell *c, struct check *k)
{
    static const bool right[MATRIX_MAX + 1] = { true, true, true, true, true, true, true, true, true,
                                                true, true, true, true, true, true, true, true };
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
    snprintf(heading, sizeof heading, "%zu pairs of ranks over %s", k->pairs, k->nccl ? "NCCL" : "tcp");
    show(c, heading, &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

/* ---- the world ---- */

void verdict_world(struct cell *c, struct check *k)
{
    static const bool right[] = { false, true, true, true, true, true };
    static const char *const heads[] = { "operation", "bytes", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "wrong" };
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
        note(&notes, "the whole world was not measured: %s", k->world_error);
    snprintf(heading, sizeof heading, "all %zu ranks over %s", k->n, k->nccl_id ? "NCCL" : "tcp");
    show(c, heading, &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

/* ---- the end ---- */

bool verdict_is_bad(const struct check *k, struct buf *out)
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
         buf_addf(out, "%s: %s", who, first->error ? first->error : "what arrived was not what was sent") < 0) ||
        (n > 1 && buf_addf(out, " (and %zu links more, see above)", n - 1) < 0) ||
        (!first && buf_addf(out, "the whole world: %s",
                            k->world_error ? k->world_error : "what arrived was not what was sent") < 0))
        log_error("check", "out of memory: the check's failure is not told");
    return true;
}
