/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks nodes for their GPUs, lists them for kernel/group/place.h, and waits for those that others
 * hold (--wait): the agent has a place in its machine's queue meanwhile, and says with its list
 * which are free for this notebook. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"

#define EVERY_NS NS_PER_S /* so often is a node asked for whose GPUs a cell waits */
/* A cell waits for those of parked ranks so long without --wait. */
#define DAY_NS (24 * 3600 * NS_PER_S)

/* ---- GPUs of the nodes ---- */

static void note_held(struct group_node *node, const json_t *gpu, const char *by)
{
    const size_t at = strlen(node->held);

    snprintf(node->held + at, sizeof node->held - at, "%sGPU %lld by %s",
             at ? ", " : "held: ", (long long)json_integer_value(json_object_get(gpu, "index")),
             by);
}

/* Ranks may have fewer than nobody else holds. */
static void note_quota(struct group_node *node, const json_t *quota)
{
    const json_t *may = json_object_get(quota, "may");

    if (!json_is_integer(may) || json_integer_value(may) >= (json_int_t)node->gpus)
        return;
    node->gpus = json_integer_value(may) > 0 ? (unsigned)json_integer_value(may) : 0;
    snprintf(node->quota, sizeof node->quota, "%s", text_field(quota, "text"));
}

static void note_queue(struct group_node *node, const json_t *queue)
{
    const char *why = text_field(queue, "why");
    const size_t at = strlen(node->held);

    node->wait.ahead = (unsigned)json_integer_value(json_object_get(queue, "ahead"));
    snprintf(node->stuck, sizeof node->stuck, "%s", text_field(queue, "stuck"));
    if (why[0])
        snprintf(node->held + at, sizeof node->held - at, "%s%s", at ? "; " : "", why);
}

void node_gpus_on_gpus(struct notebook *nb, unsigned node, const struct span *m)
{
    struct group_node *at = group_node_of(nb, node);
    json_t *said = text_parse(m->v[F_GPUS_GPUS].s), *one;
    size_t k;

    if (at) {
        /* null: the driver could not tell the GPUs; it may do so the next time */
        at->known = said && !json_is_null(json_object_get(said, "gpus"));
        at->asked = false;
        at->gpus = at->gpus_all = 0;
        at->mig = false;
        at->held[0] = at->quota[0] = '\0';
        json_array_foreach (json_object_get(said, "gpus"), k, one) {
            at->gpus_all++;
            at->mig = at->mig || json_is_true(json_object_get(one, "mig"));
            if (json_is_string(json_object_get(one, "leased_by")))
                note_held(at, one, text_field(one, "leased_by"));
            else
                at->gpus++;
        }
        note_queue(at, json_object_get(said, "queue"));
        note_quota(at, json_object_get(said, "quota"));
        if (!at->gpus_all)
            snprintf(at->held, sizeof at->held, "%s", text_field(said, "why"));
    }
    json_decref(said);
}

/* NCCL_MULTI_RANK_GPU_ENABLE=1, from --env or where Jupyter was started. */
static bool lets_nccl_share(const struct cell *c)
{
    static const char name[] = "NCCL_MULTI_RANK_GPU_ENABLE=";
    bool lets = c->nb->config.nccl_shares;

    for (char **e = c->plan.env; e && *e; e++)
        if (strncmp(*e, name, sizeof name - 1) == 0)
            lets = strcmp(*e + sizeof name - 1, "1") == 0;
    return lets;
}

struct place_want node_gpus_want(const struct cell *c)
{
    const struct group *g = c->nb->group;
    struct place_want want = g->want;
    bool any = false;

    for (unsigned k = 0; k < g->size && !c->plan.fresh; k++)
        any = any || rank_alive(&g->rank[k]);
    if (c->engine.here || (!any && !(c->plan.kind == PLAN_RANKS && g->asked)))
        /* new ranks: earlier options end */
        want = (struct place_want){ .nccl_shares = lets_nccl_share(c) };
    if (c->plan.no_gpu || c->plan.gpus != PLAN_GPUS_UNSET) {
        want.no_gpu = c->plan.no_gpu;
        want.gpus = c->plan.gpus;
        want.own = c->plan.own_gpus;
    }
    if (c->plan.n == PLAN_N_GPU)
        want.no_gpu = false;
    want.share = want.share || c->plan.share;
    return want;
}

/* per_node ranks on each node that is not lost. */
static unsigned world_of_nodes(const struct cell *c)
{
    uint64_t world = 0;

    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        world += node->lost ? 0 : c->plan.per_node;
    return world < UINT32_MAX ? (unsigned)world : UINT32_MAX - 1;
}

unsigned cell_world_asked(const struct cell *c)
{
    if (c->plan.kind == PLAN_RANKS)
        return c->world;
    if (c->plan.per_node)
        return world_of_nodes(c);
    return c->plan.n == PLAN_N_GPU     ? 0
           : c->plan.n != PLAN_N_UNSET ? c->plan.n
           : c->engine.here            ? 0
                                       : c->nb->group->asked;
}

static bool depends_on_gpus(const struct cell *c)
{
    const unsigned world = cell_world_asked(c);

    if (node_gpus_want(c).no_gpu || (c->plan.kind == PLAN_RANKS && !world))
        return false;
    /* ranks that pass use the group's GPUs, but the group has none there */
    if (!world || c->plan.fresh || c->engine.here || (cell_own_group(c) && !c->nb->group->gpus))
        return true;
    for (unsigned k = 0; !c->from.overlaps && k < world; k++)
        if (k >= c->nb->group->size || !rank_alive(&c->nb->group->rank[k]))
            return true;
    return false;
}

static bool waits_for_gpus(const struct cell *c)
{
    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (node->asked)
            return true;
    return false;
}

static struct span question(const struct cell *c)
{
    struct span q = { .kind = SPAN_GPUS, .cell = c->id };

    if (group_shares_gpus(c->nb->group)) {
        q.v[F_GPUS_QUOTA].u64 = c->nb->group->quota;
        q.v[F_GPUS_PLACE].s = slice_text(c->nb->group->quota_place);
    }
    return q;
}

/* A node that has told that it has no GPUs is not asked again. */
static int ask_gpus(struct cell *c)
{
    struct span q = question(c);

    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        if (node->lost || node->asked || (node->known && node->gpus_all == 0))
            continue;
        node->asked = true;
        q.v[F_GPUS_WAIT].u64 = node->wait.wants ? node->wait.more : 0;
        if (cell_send_node(c, node->number, &q) < 0) {
            node->asked = false;
            return -1;
        }
    }
    return 0;
}

/* Ranks keep their GPUs as long as they live, since CUDA reads the list of GPUs only once. */
static int refuse_change(struct cell *c)
{
    const struct group *g = c->nb->group; /* ranks that pass use its GPUs, or none */
    struct ranks living = RANKS_INIT;
    struct buf who = BUF_INIT;
    char have[80] = "", asked[40] = "";

    if (c->engine.here || (cell_own_group(c) && (c->plan.no_gpu || !g->gpus)))
        return 0;
    if (c->plan.no_gpu && g->gpus) {
        snprintf(asked, sizeof asked, "--no-gpu");
        snprintf(have, sizeof have, "with GPUs");
    } else if (!c->plan.no_gpu && c->plan.gpus != PLAN_GPUS_UNSET && c->plan.gpus != g->gpus) {
        snprintf(asked, sizeof asked, "--gpus %u", c->plan.gpus);
        snprintf(have, sizeof have, g->gpus ? "with %u GPU%s each" : "without GPUs", g->gpus,
                 g->gpus == 1 ? "" : "s");
    } else if (!c->plan.no_gpu && c->plan.gpus != PLAN_GPUS_UNSET &&
               c->plan.own_gpus != g->want.own) {
        snprintf(asked, sizeof asked, "--gpus %u%s", c->plan.gpus, c->plan.own_gpus ? ",own" : "");
        snprintf(have, sizeof have, "with GPUs that %s",
                 g->want.own ? "no other rank sees" : "all ranks of a machine see");
    } else if (c->plan.n == PLAN_N_GPU && g->want.no_gpu) {
        snprintf(asked, sizeof asked, "-n gpu");
        snprintf(have, sizeof have, "without GPUs");
    }
    if (asked[0] && group_living(g, &living) == 0 && ranks_count(&living) &&
        ranks_format(&living, &who) == 0)
        cell_fail(c, "UsageError",
                  "%s: %s %s %s started %s (--fresh ends them and starts new ones)", asked,
                  ranks_count(&living) > 1 ? "ranks" : "rank", who.p,
                  ranks_count(&living) > 1 ? "were" : "was", have);
    else
        asked[0] = '\0';
    ranks_release(&living);
    buf_release(&who);
    return asked[0] ? -1 : 0;
}

int node_gpus_ask(struct cell *c)
{
    if (!c->plan.fresh && refuse_change(c) < 0)
        return -1;
    return depends_on_gpus(c) ? ask_gpus(c) : 0;
}

bool node_gpus_wait(const struct cell *c)
{
    return depends_on_gpus(c) && waits_for_gpus(c);
}

/* ---- the nodes for place.h ---- */

int node_gpus_open(const struct cell *c, struct node_gpus *p)
{
    const struct notebook *nb = c->nb;

    p->n = 0;
    if (!(p->node = calloc(nb->nodes, sizeof *p->node)))
        return -1;
    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        const struct node *info = nb->ops.node(nb->ops.arg, node->number);

        if (node->lost)
            continue;
        p->node[p->n++] = (struct place_node){
            .node = node->number,
            .name = notebook_node_name(nb, node->number),
            .slots = info ? info->slots : 0,
            .gpus = node->gpus,
            .gpus_all = node->gpus_all,
            .held = node->held,
            .quota = node->quota,
            .cores = info ? info->cores : 0,
        };
    }
    return 0;
}

unsigned node_gpus_find(const struct node_gpus *p, unsigned node)
{
    for (size_t k = 0; k < p->n; k++)
        if (p->node[k].node == node)
            return (unsigned)k;
    return PLACE_NOWHERE;
}

/* ---- a cell waits for GPUs ---- */

/* Its machine, while it waits. */
static struct group_node *machine(const struct cell *c)
{
    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (!node->lost)
            return node;
    return NULL;
}

/* The node for whose GPUs it waits; NULL: it does not. */
static struct group_node *awaited(const struct cell *c)
{
    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (!node->lost && node->wait.wants && node->wait.cell == c->id)
            return node;
    return NULL;
}

/* ---- texts ---- */

/* "10 min" */
static const char *time_text(uint64_t ns, char out[static 32])
{
    const double s = (double)ns / (double)NS_PER_S;

    if (s < 120)
        snprintf(out, 32, "%.4g s", s);
    else if (s < 7200)
        snprintf(out, 32, "%.4g min", s / 60);
    else
        snprintf(out, 32, "%.4g h", s / 3600);
    return out;
}

/* "1st", "2nd", "13th" */
static const char *ordinal(unsigned n, char out[static 32])
{
    const char *end = n % 100 / 10 == 1 ? "th"
                      : n % 10 == 1     ? "st"
                      : n % 10 == 2     ? "nd"
                      : n % 10 == 3     ? "rd"
                                        : "th";

    snprintf(out, 32, "%u%s", n, end);
    return out;
}

bool gpu_wait_describe(const struct cell *c, char *text, size_t size)
{
    const struct group_node *node = awaited(c);
    char nth[32];

    if (!node)
        return false;
    snprintf(text, size, "waits for %u GPU%s: %s in the queue", node->wait.wants,
             node->wait.wants == 1 ? "" : "s", ordinal(node->wait.ahead + 1, nth));
    return true;
}

/* "h1: 0 free of 4; held: GPU 0 by ann (…)" */
static void describe_machine(const struct cell *c, char *text, size_t size)
{
    const struct group_node *node = machine(c);

    snprintf(text, size, "%s: %u for this notebook, of %u%s%s%s%s",
             node ? notebook_node_name(c->nb, node->number) : "?", node ? node->gpus : 0,
             node ? node->gpus_all : 0, node && node->held[0] ? "; " : "", node ? node->held : "",
             node && node->quota[0] ? "; " : "", node ? node->quota : "");
}

static void note(struct cell *c)
{
    struct group_node *node = awaited(c);
    char what[96], where[1200], limit[32];

    if (!node || node->wait.noted || !gpu_wait_describe(c, what, sizeof what))
        return;
    node->wait.noted = true;
    describe_machine(c, where, sizeof where);
    output_note(c, "%s, for at most %s (%s)", what, time_text(c->plan.wait_ns, limit), where);
}

static void time_is_over(struct cell *c)
{
    char what[96] = "", where[1200], limit[32];

    (void)gpu_wait_describe(c, what, sizeof what);
    describe_machine(c, where, sizeof where);
    cell_fail(c, "RankNotStarted", "--wait %s is over, and the cell still %s (%s)",
              time_text(c->plan.wait_ns, limit), what, where);
}

/* ---- what is wanted ---- */

/* How many GPUs the cell's ranks want; *held: how many living ranks have of them; *freed: how many
 * the ranks free that a fresh start ends. */
static unsigned count_wanted(const struct cell *c, const struct place_node *node, unsigned each,
                             unsigned *held, unsigned *freed)
{
    const struct place_want want = node_gpus_want(c);
    const struct group *g = c->nb->group;
    unsigned world = cell_world_asked(c), alive = 0;

    if (!world)
        world = place_world_of_gpus(node, 1, &want);
    if (!world)
        world = 1;
    for (unsigned k = 0; k < g->size; k++)
        alive += rank_alive(&g->rank[k]);
    /* several ranks that share may have one together */
    *freed = c->plan.fresh && !g->want.share ? alive * g->gpus : 0;
    *held = c->plan.fresh ? 0 : (alive < world ? alive : world) * each;
    return world > UINT16_MAX / each ? UINT16_MAX : world * each;
}

static bool refuse(struct cell *c, const struct node_gpus *p, unsigned each)
{
    if (p->n > 1)
        cell_fail(c, "UsageError",
                  "--wait: the ranks would be on %zu machines, and a cell can wait for the GPUs of "
                  "one; name that in --on, or leave --wait out",
                  p->n);
    else if (!each)
        cell_fail(c, "UsageError",
                  "--wait: there is no GPU on %s to wait for (leave --wait out to run without)%s%s",
                  p->node[0].name, p->node[0].held[0] ? ": " : "", p->node[0].held);
    return c->bad;
}

/* The agent has answered, and there are too few. */
static void go_on(struct cell *c, struct group_node *node, unsigned wants, unsigned freed)
{
    struct gpu_wait *w = &node->wait;
    const uint64_t now = notebook_now(c->nb);

    if (!awaited(c)) { /* get in the queue at once */
        *w = (struct gpu_wait){ .cell = c->id, .until_ns = now + c->plan.wait_ns, .next_ns = now };
        w->wants = wants;
        w->more = freed < wants ? wants - freed : 1;
        return;
    }
    if (node->stuck[0]) {
        cell_fail(
            c, "UsageError",
            "--wait: %s, who comes first, waits for GPUs that this notebook's ranks keep, and "
            "they would wait for him: `%%ranks stop` ends them and frees these GPUs",
            node->stuck);
        return;
    }
    w->wants = wants;
    w->more = freed < wants ? wants - freed : 1;
    if (w->next_ns == NEVER)
        w->next_ns = now + EVERY_NS;
    note(c);
}

bool gpu_wait_stays(struct cell *c)
{
    const struct place_want want = node_gpus_want(c);
    struct node_gpus p = { NULL, 0 };
    unsigned each, wanted, held, freed;
    bool stays = false;

    if (!c->plan.wait_ns || !group_shares_gpus(c->nb->group) || want.share || want.no_gpu)
        return false;
    if (node_gpus_open(c, &p) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return true;
    }
    each = place_gpus(p.node, p.n, &want);
    if (p.n && refuse(c, &p, each)) {
        stays = true;
    } else if (p.n) {
        wanted = count_wanted(c, &p.node[0], each, &held, &freed);
        /* what the machine hasn't got at all is an error now */
        stays = wanted > p.node[0].gpus && wanted <= p.node[0].gpus_all;
        if (stays)
            go_on(c, machine(c), wanted - held, freed);
    }
    free(p.node);
    return stays || c->bad;
}

/* ---- time ---- */

uint64_t gpu_wait_due(const struct cell *c)
{
    const struct group_node *node = awaited(c);

    if (node && node->wait.parked)
        return node->wait.next_ns;
    return node && c->prep.wants_gpus ? clock_earlier(node->wait.until_ns, node->wait.next_ns)
                                      : NEVER;
}

void gpu_wait_tick(struct cell *c, uint64_t now)
{
    struct group_node *node = awaited(c);

    if (!node || node->wait.parked || now < gpu_wait_due(c))
        return;
    if (now >= node->wait.until_ns) {
        time_is_over(c);
        return;
    }
    node->wait.next_ns = NEVER;
    cell_limit_step(c, now + START_LIMIT_NS);
    (void)node_gpus_ask(c);
}

/* ---- the end ---- */

void gpu_wait_over(struct cell *c)
{
    struct group_node *node = awaited(c);

    if (node)
        node->wait.wants = 0;
}

void gpu_wait_leave(struct cell *c)
{
    const struct span q = question(c);
    struct err err = { "" };

    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (!node->lost && node->wait.cell == c->id) {
            node->wait = (struct gpu_wait){ .wants = 0 };
            (void)notebook_send_node(c->nb, node->number, &q, &err);
        }
}

/* ---- parked ranks wait for theirs ---- */

const char *gpu_wait_limit(const struct cell *c, char out[static 32])
{
    return time_text(c->plan.wait_ns ? c->plan.wait_ns : DAY_NS, out);
}

bool gpu_wait_has_parked(const struct cell *c)
{
    const struct group_node *node = awaited(c);

    return node && node->wait.parked;
}

bool gpu_wait_takes_turn(struct cell *c, uint64_t now)
{
    struct group_node *node = awaited(c);

    if (!node || !node->wait.parked || now < node->wait.next_ns)
        return false;
    node->wait.next_ns = NEVER;
    return true;
}

bool gpu_wait_parked(struct cell *c, unsigned node, unsigned gpus, unsigned ahead, const char *why)
{
    struct group_node *at = group_node_of(c->nb, node);
    const uint64_t now = notebook_now(c->nb);
    char what[96], limit[32];

    if (!at)
        return false;
    if (!gpu_wait_has_parked(c))
        at->wait = (struct gpu_wait){ .cell = c->id,
                                      .until_ns = now +
                                                  (c->plan.wait_ns ? c->plan.wait_ns : DAY_NS),
                                      .parked = true };
    if (now >= at->wait.until_ns)
        return false;
    at->wait.wants = at->wait.more = gpus;
    at->wait.ahead = ahead;
    at->wait.next_ns = clock_earlier(at->wait.until_ns, now + EVERY_NS);
    if (!at->wait.noted && gpu_wait_describe(c, what, sizeof what)) {
        at->wait.noted = true;
        output_note(c, "%s, for at most %s: its ranks are parked, and %s", what,
                    gpu_wait_limit(c, limit), why);
    }
    return true;
}
