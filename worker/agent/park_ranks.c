/* SPDX-License-Identifier: BSD-3-Clause */
/* park_ranks.c - PARK: takes ranks off their GPUs, and brings them back (declared in private.h). */
#include "worker/agent/private.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/net/join.h"
#include "worker/agent/processes/worker.h"

struct park_request {
    struct agent *agent;
    uint64_t cell, how;
};

/* Of another machine than the notebook's, its name stands before the reason. NULL: as it is. */
static char *with_name(const struct agent *a, struct slice json)
{
    json_t *said = join_is_remote(a->args.connect) ? json_loadb(json.p, json.n, 0, NULL) : NULL;
    const char *why = json_string_value(json_object_get(said, "why"));
    char *text = NULL;

    if (why && json_object_set_new(said, "why", json_sprintf("%s: %s", a->args.node, why)) == 0)
        text = json_dumps(said, JSON_COMPACT);
    json_decref(said);
    return text;
}

static void answer(void *arg, struct slice json)
{
    struct park_request *q = arg;
    struct span m = { .kind = SPAN_PARK, .cell = q->cell, .v[F_PARK_HOW].u64 = q->how };
    char *named = with_name(q->agent, json);

    m.v[F_PARK_SAID].s = named ? slice_text(named) : json;
    kernel_link_send(&q->agent->kernel, &m);
    free(named);
    free(q);
}

static void fail(struct agent *a, const struct span *m)
{
    struct span said = { .kind = SPAN_PARK, .cell = m->cell };

    said.v[F_PARK_HOW].u64 = m->v[F_PARK_HOW].u64;
    said.v[F_PARK_SAID].s = slice_text("{\"why\":\"out of memory\"}");
    kernel_link_send(&a->kernel, &said);
}

void park_ranks(struct agent *a, const struct span *m, struct slice workers)
{
    const uint64_t how = m->v[F_PARK_HOW].u64;
    struct park_request *q = malloc(sizeof *q);
    struct gpu_worker *v = calloc(workers.n / 4 + 1, sizeof *v);
    char (*who)[24] = calloc(workers.n / 4 + 1, sizeof *who);
    struct worker *w;
    size_t n = 0;

    for (size_t at = 0; q && v && who && (w = worker_next(&a->workers, workers, &at));)
        if (w->role == WORKER_RANK && w->state.pid > 0) {
            snprintf(who[n], sizeof *who, "rank %u", w->rank);
            v[n] = (struct gpu_worker){ w->id, (long)w->state.pid, who[n] };
            n++;
        }
    if (!q || !v || !who) {
        free(q);
        fail(a, m);
    } else {
        *q = (struct park_request){ a, m->cell, how };
        log_info("gpu", "%zu ranks %s", n, how & PARK_BACK ? "come back" : "leave their GPUs");
        if (how & PARK_BACK)
            gpu_return(a->gpus, v, n, how & PARK_WAIT, answer, q);
        else
            gpu_park(a->gpus, v, n, how & PARK_NCCL, answer, q);
    }
    free(v);
    free(who);
}
