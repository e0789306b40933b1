/* SPDX-License-Identifier: BSD-3-Clause */
/* node_usage.c - reports this node's GPUs and the memory of its workers (declared in private.h). */
#include "worker/agent/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/processes/worker.h"

/* ---- who is there ---- */

void node_workers_release(struct node_workers *c)
{
    free(c->v);
    free(c->who);
    memset(c, 0, sizeof *c);
}

int node_workers_init(struct node_workers *c, const struct agent *a, uint32_t without)
{
    size_t room = 1;

    for (const struct worker *w = a->workers.first; w; w = w->next)
        room++;
    memset(c, 0, sizeof *c);
    c->v = calloc(room, sizeof *c->v);
    c->who = calloc(room, sizeof *c->who);
    if (!c->v || !c->who) {
        node_workers_release(c);
        return -1;
    }
    for (const struct worker *w = a->workers.first; w; w = w->next) {
        if (w->role == WORKER_ZYGOTE || w->state.pid <= 0 || w->id == without)
            continue;
        if (w->role == WORKER_HOME)
            snprintf(c->who[c->n], sizeof *c->who, "home");
        else
            snprintf(c->who[c->n], sizeof *c->who, "rank %u", w->rank);
        c->v[c->n] = (struct gpu_worker){ w->id, (long)w->state.pid, c->who[c->n] };
        c->n++;
    }
    return 0;
}

/* ---- answers ---- */

struct usage_request {
    struct agent *agent;
    enum span_kind kind;
    uint64_t cell;
};

static void answer(void *arg, struct slice json)
{
    struct usage_request *q = arg;
    struct span m = { .kind = q->kind, .cell = q->cell };

    m.v[q->kind == SPAN_GPUS ? (int)F_GPUS_GPUS : (int)F_GAUGES_GAUGES].s = json;
    kernel_link_send(&q->agent->kernel, &m);
    free(q);
}

static struct usage_request *asked_create(struct agent *a, const struct span *m)
{
    struct usage_request *q = malloc(sizeof *q);

    if (q)
        *q = (struct usage_request){ a, m->kind, m->cell };
    else
        log_error("agent", "out of memory: %s is not answered", span_info(m->kind)->name);
    return q;
}

void node_usage_gpus(struct agent *a, const struct span *m)
{
    struct usage_request *q = asked_create(a, m);

    gpu_wait(a->gpus,
             m->v[F_GPUS_WAIT].u64 < UINT16_MAX ? (unsigned)m->v[F_GPUS_WAIT].u64 : UINT16_MAX);
    gpu_quota(a->gpus, (unsigned)m->v[F_GPUS_QUOTA].u64, m->v[F_GPUS_PLACE].s);
    if (q)
        gpu_list(a->gpus, answer, q);
}

void node_usage_all(struct agent *a, const struct span *m)
{
    struct usage_request *q = asked_create(a, m);
    struct node_workers all;

    if (!q)
        return;
    if (node_workers_init(&all, a, 0) < 0)
        log_error("agent", "out of memory: gauges without workers");
    gpu_gauges(a->gpus, all.v, all.n, answer, q);
    node_workers_release(&all);
}
