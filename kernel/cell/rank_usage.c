/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' use of memory, and of GPUs: their memory, load and processes of others. Agents are
 * asked when it is to be shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/live_status.h"
#include "kernel/status/status.h"

#define STALE_NS (5 * NS_PER_S) /* older answers are not shown */
#define HOPE_NS  (2 * NS_PER_S) /* rank_usage_wait() waits this long for an answer */
/* A node that has not answered is asked again only after this time: a GPU driver may hang. */
#define ASK_AGAIN_NS (10 * NS_PER_S)

struct gauge {
    bool waiting; /* it was asked, and has not answered */
    uint64_t asked_ns;
    uint64_t taken_ns;          /* when it answered */
    json_t *said;               /* owned: the last answer, or NULL */
    long home;                  /* of this machine: home's process id */
    uint64_t home_suspended_ns; /* since when home is stopped, as by SIGSTOP; 0: it runs */
};

struct gauge_list {
    unsigned n;
    struct gauge of[]; /* by the number of the node */
};

static unsigned count(const struct notebook *nb)
{
    return nb->gauges ? nb->gauges->n : 0;
}

/* NULL: nobody has asked the node yet. */
static struct gauge *gauge_of(const struct notebook *nb, unsigned node)
{
    return node < count(nb) ? &nb->gauges->of[node] : NULL;
}

/* Makes it if there is none. NULL: memory is out. */
static struct gauge *gauge_at(struct notebook *nb, unsigned node)
{
    const unsigned n = count(nb);
    struct gauge_list *more;

    if (node < n)
        return &nb->gauges->of[node];
    if (node >= GROUP_MAX * 16u ||
        !(more = realloc(nb->gauges, sizeof *more + (node + 1) * sizeof *more->of)))
        return NULL;
    memset(more->of + n, 0, (node + 1 - n) * sizeof *more->of);
    more->n = node + 1;
    nb->gauges = more;
    return &more->of[node];
}

/* Must the node be asked? If so, records that it is asked now. */
static bool is_due(struct notebook *nb, unsigned node)
{
    struct gauge *g = gauge_at(nb, node);

    if (!g || (node == NODE_HERE && nb->agent_gone) ||
        (g->waiting && notebook_now(nb) - g->asked_ns < ASK_AGAIN_NS))
        return false;
    g->asked_ns = notebook_now(nb);
    g->waiting = true;
    return true;
}

void rank_usage_ask(struct notebook *nb)
{
    const struct span m = { .kind = SPAN_GAUGES };
    const struct group *of[] = { nb->group, notebook_shown(nb) };
    unsigned *nodes = calloc(of[0]->size + of[1]->size + 1u, sizeof *nodes);
    struct err err = { "" };
    size_t n = 0;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (unsigned k = 0; nodes && k < of[i]->size; k++)
            if (of[i]->rank[k].worker && is_due(nb, of[i]->rank[k].node))
                nodes[n++] = of[i]->rank[k].node;
    if (n && nb->ops.send_nodes(nb->ops.arg, nodes, n, &m, &err) < 0)
        log_info("usage", "%s", err.text); /* other nodes were asked and will answer */
    free(nodes);
}

bool rank_usage_wait(const struct notebook *nb)
{
    for (unsigned node = 0; node < count(nb); node++)
        if (nb->gauges->of[node].waiting &&
            notebook_now(nb) - nb->gauges->of[node].asked_ns < HOPE_NS)
            return true;
    return false;
}

static const json_t *worker_of(const json_t *said, uint32_t worker)
{
    const json_t *list = json_object_get(said, "workers"), *entry;
    size_t k;

    json_array_foreach (list, k, entry)
        if (json_integer_value(json_object_get(entry, "worker")) == (json_int_t)worker)
            return entry;
    return NULL;
}

static void note_home(struct notebook *nb, struct gauge *g)
{
    const json_t *home = worker_of(g->said, SPAN_WORKER_HOME);

    if (!json_is_true(json_object_get(home, "suspended")))
        g->home_suspended_ns = 0;
    else if (!g->home_suspended_ns)
        g->home_suspended_ns = notebook_now(nb);
}

void rank_usage_home_is(struct notebook *nb, long pid)
{
    struct gauge *g = gauge_at(nb, NODE_HERE);

    if (!g)
        return;
    g->home = pid;
    g->home_suspended_ns = 0;
}

uint64_t rank_usage_home_suspended(const struct notebook *nb, long *pid)
{
    const struct gauge *g = gauge_of(nb, NODE_HERE);

    if (g && pid)
        *pid = g->home;
    return g ? g->home_suspended_ns : 0;
}

void rank_usage_on_gauges(struct notebook *nb, unsigned node, const struct span *m)
{
    struct gauge *g = gauge_at(nb, node);

    if (!g)
        return;
    g->waiting = false;
    g->taken_ns = notebook_now(nb);
    json_decref(g->said);
    g->said = text_parse(m->v[F_GAUGES_GAUGES].s);
    if (node == NODE_HERE)
        note_home(nb, g);
}

void rank_usage_release(struct notebook *nb)
{
    for (unsigned node = 0; node < count(nb); node++)
        json_decref(nb->gauges->of[node].said);
    free(nb->gauges);
    nb->gauges = NULL;
}

/* ---- the row of a rank ---- */

static const json_t *gpu_of(const json_t *said, const char *uuid)
{
    const json_t *list = json_object_get(said, "gpus"), *entry;
    size_t k;

    json_array_foreach (list, k, entry)
        if (strcmp(text_field(entry, "uuid"), uuid) == 0)
            return entry;
    return NULL;
}

static uint64_t bytes(const json_t *entry, const char *name)
{
    const json_int_t n = json_integer_value(json_object_get(entry, name));

    return n > 0 ? (uint64_t)n : 0;
}

/* -1: unknown */
static int number(const json_t *entry, const char *name)
{
    const json_t *n = json_object_get(entry, name);

    return json_is_integer(n) && json_integer_value(n) >= 0 && json_integer_value(n) < 1000000
               ? (int)json_integer_value(n)
               : -1;
}

/* Adds the GPU's index, as in "0,1"; if the agent gives none, the start of its UUID. */
static void name_gpu(const json_t *gpu, const char *uuid, char *out, size_t size)
{
    const size_t at = strlen(out);
    const char *comma = at ? "," : "";
    const int index = number(gpu, "index");

    if (index >= 0)
        snprintf(out + at, size - at, "%s%d", comma, index);
    else
        snprintf(out + at, size - at, "%s%.12s", comma, uuid);
}

/* The process of others with the most memory on the GPU: "alice's python", or "pid 4711". */
static void find_other(const json_t *list, struct rank_usage_text *text, struct status_rank *row)
{
    const json_t *one;
    size_t k;

    json_array_foreach (list, k, one) {
        const char *who = text_field(one, "who");

        if (row->gpu_other && bytes(one, "memory") <= row->gpu_other_memory)
            continue;
        if (who[0])
            snprintf(text->other, sizeof text->other, "%s", who);
        else
            snprintf(text->other, sizeof text->other, "pid %lld",
                     (long long)json_integer_value(json_object_get(one, "pid")));
        text_trim(text->other);
        row->gpu_other = text->other;
        row->gpu_other_memory = bytes(one, "memory");
    }
}

void rank_usage_row(const struct notebook *nb, const struct rank *r, struct rank_usage_text *text,
                    struct status_rank *row)
{
    const struct gauge *g = gauge_of(nb, r->node);
    const json_t *mine, *uuid;
    int uses = 0, use = 0;
    size_t k;

    text->gpu[0] = '\0';
    row->gpu_use = row->gpu_others = -1;
    if (!g || !g->said || !r->worker || !(mine = worker_of(g->said, r->worker)))
        return;
    row->suspended = json_is_true(json_object_get(mine, "suspended")); /* agents tell changes */
    if (notebook_now(nb) - g->taken_ns > STALE_NS)
        return;
    row->memory = bytes(mine, "memory");
    row->cpu_known = number(mine, "cpu") >= 0;
    row->cpu = row->cpu_known ? (unsigned)number(mine, "cpu") : 0;
    json_array_foreach (json_object_get(mine, "gpus"), k, uuid) {
        const char *name = json_string_value(uuid) ? json_string_value(uuid) : "";
        const json_t *gpu = gpu_of(g->said, name);
        const json_t *list = json_object_get(gpu, "others");
        const int others = json_is_false(json_object_get(gpu, "processes_known")) ? -1
                           : json_is_array(list) ? (int)json_array_size(list)
                                                 : number(gpu, "others");

        name_gpu(gpu, name, text->gpu, sizeof text->gpu);
        find_other(list, text, row);
        row->gpu_used += bytes(gpu, "used");
        row->gpu_total += bytes(gpu, "total");
        if (number(gpu, "use") >= 0) {
            use += number(gpu, "use");
            uses++;
        }
        if (others >= 0)
            row->gpu_others = others + (row->gpu_others < 0 ? 0 : row->gpu_others);
    }
    row->gpu = text->gpu[0] ? text->gpu : NULL;
    row->gpu_use = uses ? use / uses : -1;
}

bool rank_usage_have_gpus(const struct notebook *nb)
{
    for (unsigned node = 0; node < count(nb); node++)
        if (json_array_size(json_object_get(nb->gauges->of[node].said, "gpus")))
            return true;
    return false;
}
