/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to cellspan_overview_request, with which `cellspan ps` asks what runs here. It comes
 * at once, from what the kernel knows already: no node is asked, and no cell is waited for. */
#include "config.h"
#include "kernel/ranks/ranks.h"

static double seconds_since(const struct notebook *nb, uint64_t ns)
{
    return (double)(notebook_now(nb) - ns) / (double)NS_PER_S;
}

/* When the first of the cell's ranks that still run it began; 0: none runs it. */
static uint64_t cell_since(const struct cell *c)
{
    uint64_t since = 0;

    for (size_t k = 0; k < c->n; k++) {
        const struct rank *r = &c->group->rank[c->member[k].rank];

        if (c->member[k].state == MEMBER_RUNNING && (!since || r->since_ns < since))
            since = r->since_ns;
    }
    return since;
}

/* The cell on ranks that has run longest; null: there is none. Its text is not shown. */
static json_t *running(const struct notebook *nb)
{
    const struct cell *c = nb->cells;
    uint64_t since;

    if (!c)
        return json_null();
    since = cell_since(c);
    return json_pack("{s:i, s:f}", "count", (int)c->from.count, "seconds",
                     since ? seconds_since(nb, since) : 0.0);
}

void overview_reply(struct notebook *nb, struct request *r)
{
    const bool home = nb->home.executing != NULL;

    reply_json(nb, r, "cellspan_overview_reply",
               json_pack("{s:s, s:s, s:s?, s:s?, s:b, s:o, s:i, s:o}", "status", "ok", "version",
                         PACKAGE_VERSION, "python", nb->config.python_version, "cwd", nb->home.cwd,
                         "home_runs", home, "cell", running(nb), "waiting", (int)nb->queue.n,
                         "table", rank_table_json(nb)));
}
