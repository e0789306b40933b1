/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines that are away: nothing comes from them, and the kernel waits until they resume or are
 * lost. A cell that needs one says so, and says when it is back. */
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"

bool away_node_is(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    return info && info->shown_away;
}

/* Those that have not ended the cell; before its ranks are known, those that it names, or all of
 * its group. */
static int ranks_there(const struct cell *c, unsigned node, struct ranks *out)
{
    const struct group *g = c->group;
    struct ranks named = RANKS_INIT;
    struct err err;
    const bool some = !c->n && c->plan.ranks && g->asked &&
                      cell_parse_ranks(c, g->asked, &named, &err) == 0;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (c->member[k].state <= MEMBER_RUNNING && g->rank[c->member[k].rank].node == node)
            rc = ranks_add(out, c->member[k].rank);
    for (unsigned k = 0; rc == 0 && !c->n && k < g->size; k++)
        if (g->rank[k].worker && g->rank[k].node == node && (!some || ranks_has(&named, k)))
            rc = ranks_add(out, k);
    ranks_release(&named);
    return rc;
}

/* " (ranks 2-3)"; empty: the cell has none there. */
static int words_of(const struct cell *c, unsigned node, struct buf *out)
{
    struct ranks some = RANKS_INIT;
    int rc = ranks_there(c, node, &some);

    if (rc == 0 && ranks_count(&some))
        rc = buf_add_text(out, " (") < 0 || ranks_format_words(&some, out) < 0 ||
                     buf_add_text(out, ")") < 0
                 ? -1
                 : 0;
    ranks_release(&some);
    return rc;
}

void cell_time_of_day(const struct notebook *nb, uint64_t at_ns, char out[static 16])
{
    const struct clock *clock = nb->ops.clock;
    const time_t then = (time_t)((clock->wall_ns(clock->arg) + at_ns - clock_now(clock)) /
                                 NS_PER_S);
    struct tm tm;

    if (!localtime_r(&then, &tm) || strftime(out, 16, "%H:%M:%S", &tm) == 0)
        snprintf(out, 16, "?");
}

static void tell_away(struct cell *c, const struct node *node, const char *ranks)
{
    const uint64_t now = clock_now(c->nb->ops.clock);
    char until[16];

    cell_time_of_day(c->nb, node->until_ns > now ? node->until_ns : now, until);
    output_note(c,
                "%s%s has been silent for %.4g s; cellspan waits for it until %s (CELLSPAN_RESUME)",
                node->name, ranks, clock_whole_seconds(now - node->heard_ns), until);
}

/* Says it if the cell has ranks there. */
static void tell(struct cell *c, const struct node *node)
{
    struct buf ranks = BUF_INIT;

    if (words_of(c, node->number, &ranks) < 0)
        log_warn("cell", "out of memory: a machine that is away is not named");
    else if (ranks.n && node->shown_away)
        tell_away(c, node, ranks.p);
    else if (ranks.n)
        output_note(c, "%s%s is back after %.4g s", node->name, ranks.p,
                    clock_whole_seconds(clock_now(c->nb->ops.clock) - node->heard_ns));
    buf_release(&ranks);
}

void away_nodes_changed(struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    CELLS_EACH (c, nb)
        if (info && output_is_open(c))
            tell(c, info);
}

void away_nodes_begin(struct cell *c)
{
    if (c->engine.here || !output_is_open(c))
        return;
    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        const struct node *info = c->nb->ops.node(c->nb->ops.arg, node->number);

        if (!node->lost && info && info->shown_away)
            tell(c, info);
    }
}

/* Ranks there run the cell, or are to end before it does. */
static bool is_needed(const struct cell *c, unsigned node)
{
    const struct group *g = cell_runs(c) ? c->group : c->nb->group;

    for (size_t k = 0; cell_runs(c) && k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING && g->rank[c->member[k].rank].node == node)
            return true;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].state == RANK_STOPPING && g->rank[k].node == node)
            return true;
    return false;
}

void away_nodes_give_up(struct cell *c)
{
    const struct span quit = { .kind = SPAN_QUIT };

    GROUP_NODES_EACH (node, group_nodes_of(c->nb)) {
        if (!node->lost && away_node_is(c->nb, node->number) && is_needed(c, node->number))
            (void)c->nb->ops.send_nodes(c->nb->ops.arg, &node->number, 1, &quit, NULL);
    }
}

void away_nodes_interrupted(struct cell *c)
{
    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        const struct node *info = c->nb->ops.node(c->nb->ops.arg, node->number);

        if (!node->lost && info && info->shown_away && is_needed(c, node->number))
            output_note(c,
                        "%s is away: the interrupt reaches its ranks when it is back; a second "
                        "one gives it up",
                        info->name);
    }
}

bool away_nodes_remind(struct cell *c, uint64_t limit_ns, uint64_t *reminded_ns)
{
    const uint64_t now = clock_now(c->nb->ops.clock);
    uint64_t latest = *reminded_ns;
    bool any = false;

    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        const struct node *info = c->nb->ops.node(c->nb->ops.arg, node->number);

        if (node->lost || !info || !info->shown_away || !is_needed(c, node->number))
            continue;
        any = true;
        if (now - info->heard_ns < limit_ns || info->heard_ns <= *reminded_ns)
            continue;
        latest = info->heard_ns > latest ? info->heard_ns : latest;
        tell(c, info);
    }
    *reminded_ns = latest;
    return any;
}
