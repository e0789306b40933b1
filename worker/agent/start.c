/* SPDX-License-Identifier: BSD-3-Clause */
/* start.c - START: starts home, or ranks with their GPUs (declared in private.h). */
#include "worker/agent/private.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/log.h"
#include "protocol/bytes.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/net/join.h"
#include "worker/agent/processes/stacks.h"
#include "worker/agent/processes/worker.h"

/* One START of ranks: the workers exist, their processes do not yet. */
struct starting {
    struct agent *agent;
    struct buf msg; /* a copy of the message, for when the Python and the GPUs are known */
    struct span m;  /* the message, decoded; borrows from msg */
    char *python;   /* as START names it, then as this machine has it */
    struct python_candidates paths;
    size_t n;
    struct awaited {
        uint32_t worker;
        uint32_t rank;
        struct worker_pipes ends; /* all -1: the worker could not be made */
    } v[];
};

static void start_home(struct agent *a, uint32_t id, const char *python, const char *cwd,
                       struct slice env)
{
    struct err err = { "" };

    if (!spawn_home(a, id, python, cwd, env, &err))
        exited_never_started(a, id, err.text);
}

static void start_nobody(struct agent *a, struct slice workers, const char *why)
{
    log_error("agent", "START: %s", why);
    for (size_t i = 0; i < workers.n / 4; i++)
        if (!worker_find(&a->workers, reader_u32_at(workers, i)))
            exited_never_started(a, reader_u32_at(workers, i), why);
}

/* ---- ranks ---- */

static void starting_destroy(struct starting *s)
{
    for (size_t i = 0; i < s->n; i++)
        worker_pipes_close(&s->v[i].ends);
    span_release(&s->m);
    buf_release(&s->msg);
    python_candidates_release(&s->paths);
    free(s->python);
    free(s);
}

static struct starting *starting_create(struct agent *a, const struct span *m, const char *python,
                                        struct slice workers, struct err *err)
{
    const size_t n = workers.n / 4;
    struct starting *s;

    if (m->v[F_START_RANKS].s.n != workers.n)
        return err_null(err, "START names %zu workers and %zu ranks", n,
                        m->v[F_START_RANKS].s.n / 4);
    if (!(s = calloc(1, sizeof *s + n * sizeof s->v[0])))
        return err_null(err, "out of memory");
    s->agent = a;
    s->msg = (struct buf)BUF_INIT;
    s->paths = (struct python_candidates)PYTHON_CANDIDATES_INIT;
    if ((s->python = strdup(python)) && span_encode(m, &s->msg, err) == 0 &&
        span_decode(&s->m, s->msg.p, s->msg.n, err) == 0)
        return s;
    starting_destroy(s);
    return err_null(err, "out of memory");
}

/* From now on the kernel may send to them, and kill them. */
static void make_workers(struct starting *s, struct slice workers)
{
    const struct span *m = &s->m;

    for (size_t i = 0; i < workers.n / 4; i++) {
        struct awaited *to = &s->v[s->n];
        struct err err = { "" };
        struct worker *w;

        *to = (struct awaited){ reader_u32_at(workers, i), reader_u32_at(m->v[F_START_RANKS].s, i),
                                WORKER_ENDS_INIT };
        if (worker_find(&s->agent->workers, to->worker)) {
            log_error("agent", "START: worker %u is alive", to->worker);
        } else if ((w = rank_worker_make(s->agent, to->worker, to->rank, s->python, &to->ends,
                                         &err))) {
            w->passing = m->v[F_START_ROLE].u64 != START_RANK;
            s->n++;
        } else {
            exited_never_started(s->agent, to->worker, err.text);
        }
    }
}

/* A rank's environment variables about GPUs. */
struct gpu_env {
    bool said; /* false: no variable is set */
    struct buf visible, own;
};

static const char *text_in(const struct buf *b)
{
    return b->n ? b->p : "";
}

/* START's environment with these variables, and with NCCL_RAS_ADDR unless ras is "". The caller
 * frees the text. */
static char *rank_env(struct slice env, const struct gpu_env *gpus, const char *ras)
{
    json_t *object = json_loadb(env.n ? env.p : "{}", env.n ? env.n : 2, 0, NULL);
    char *text = NULL;

    int rc = object ? 0 : -1;

    if (rc == 0 && ras[0])
        rc = json_object_set_new(object, "NCCL_RAS_ADDR", json_string(ras));
    /* the numbers are NVML's, which counts in this order */
    if (rc == 0 && gpus->visible.n && isdigit((unsigned char)gpus->visible.p[0]))
        rc = json_object_set_new(object, "CUDA_DEVICE_ORDER", json_string("PCI_BUS_ID"));
    if (rc == 0 && gpus->said)
        rc = json_object_set_new(object, "CUDA_VISIBLE_DEVICES",
                                 json_string(text_in(&gpus->visible)));
    if (rc == 0 && gpus->said)
        rc = json_object_set_new(object, "CELLSPAN_LOCAL_GPUS", json_string(text_in(&gpus->own)));
    if (rc == 0)
        text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

static int order_rank(struct worker *z, struct worker *w, struct awaited *it, const struct span *m,
                      const struct gpu_env *gpus, struct err *err)
{
    uint8_t rank[4];
    struct span one = *m;
    char *env = rank_env(m->v[F_START_ENV].s, gpus, nccl_status_address(&z->all->nccl));
    int rc;

    if (!env)
        return err_set(err,
                       "the environment of START is not an object of strings, or memory is out");
    le_put(rank, sizeof rank, it->rank);
    one.worker = w->id;
    one.v[F_START_RANKS].s = slice_of(rank, sizeof rank);
    one.v[F_START_ENV].s = slice_text(env);
    rc = zygote_order(z, w, &it->ends, &one, err);
    free(env);
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    const struct worker *const *x = a, *const *y = b;

    if ((*x)->rank != (*y)->rank)
        return (*x)->rank < (*y)->rank ? -1 : 1;
    return (*x)->id<(*y)->id ? -1 : (*x)->id>(*y)->id;
}

/* The workers of all ranks on this node, sorted by rank; the caller frees *ranks. passing: those
 * that end with their cell, else those of the group: a kernel has only one. -1: memory is out. */
static int ranks_here(const struct agent *a, bool passing, uint32_t **ranks, size_t *n)
{
    const struct worker **rank;
    size_t most = 0;

    for (const struct worker *w = a->workers.first; w; w = w->next)
        most++;
    *n = 0;
    rank = malloc((most + 1) * sizeof *rank);
    *ranks = malloc((most + 1) * sizeof **ranks);
    if (!rank || !*ranks) {
        free(rank);
        free(*ranks);
        return -1;
    }
    for (const struct worker *w = a->workers.first; w; w = w->next)
        if (w->role == WORKER_RANK && w->passing == passing && !w->state.gone)
            rank[(*n)++] = w;
    qsort(rank, *n, sizeof *rank, by_rank);
    for (size_t i = 0; i < *n; i++)
        (*ranks)[i] = rank[i]->id;
    free(rank);
    return 0;
}

/* -1: memory is out. */
static int gpu_env_of(const struct agent *a, const struct worker *w, uint64_t each,
                      struct gpu_env *gpus)
{
    uint32_t *ranks;
    size_t n;
    int rc;

    *gpus = (struct gpu_env){ each > 0 || gpu_likely(a->gpus), BUF_INIT, BUF_INIT };
    if (!gpu_has(a->gpus, w->id))
        return 0;
    if (ranks_here(a, w->passing, &ranks, &n) < 0)
        return -1;
    rc = gpu_visible(a->gpus, w->id, ranks, n, &gpus->visible, &gpus->own);
    free(ranks);
    return rc;
}

static void refuse(struct agent *a, struct worker *w, const char *why)
{
    const uint32_t id = w->id;

    worker_retire(w);
    exited_never_started(a, id, why);
}

/* Has the zygote fork all ranks that were not killed meanwhile. trouble not NULL: no rank can
 * start, and EXITED says why. */
static void order_ranks(struct starting *s, const char *trouble)
{
    const struct span *m = &s->m;
    struct agent *a = s->agent;
    struct err err = { "" };
    struct worker *z = trouble ? NULL : spawn_zygote(a, s->python, &err);

    for (size_t i = 0; i < s->n; i++) {
        struct worker *w = worker_find(&a->workers, s->v[i].worker);
        struct gpu_env gpus;
        struct err why = { "" };

        if (!w)
            continue;
        if (trouble || !z) {
            refuse(a, w, trouble ? trouble : err.text);
            continue;
        }
        if (gpu_env_of(a, w, m->v[F_START_GPUS].u64, &gpus) < 0)
            refuse(a, w, "out of memory");
        else if (order_rank(z, w, &s->v[i], m, &gpus, &why) < 0)
            refuse(a, w, why.text);
        buf_release(&gpus.visible);
        buf_release(&gpus.own);
    }
    if (z && zygote_fork(z, &err) < 0)
        log_error("agent", "START: %s", err.text);
}

/* ---- GPUs ---- */

/* For a rank that ends with its cell: the group's rank with the same number. */
static const struct worker *group_rank_of(const struct agent *a, const struct worker *w)
{
    for (const struct worker *r = a->workers.first; w->passing && r; r = r->next)
        if (r->role == WORKER_RANK && !r->passing && r->rank == w->rank && !r->state.gone)
            return r;
    return NULL;
}

/* Takes GPUs for all ranks that were not killed meanwhile, or for none. A rank that ends
 * with its cell uses the GPUs of the group's rank with its number. */
static int take_gpus(struct starting *s, struct err *err)
{
    const uint64_t each = s->m.v[F_START_GPUS].u64, flags = s->m.v[F_START_SHARE].u64;
    uint32_t *living = malloc((s->n + 1) * sizeof *living);
    size_t n = 0;
    int rc = 0;

    if (!living)
        return err_set(err, "out of memory");
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const struct worker *w = worker_find(&s->agent->workers, s->v[i].worker),
                            *beside = w ? group_rank_of(s->agent, w) : NULL;

        if (beside && gpu_has(s->agent->gpus, beside->id))
            rc = gpu_lend(s->agent->gpus, beside->id, w->id, err);
        else if (w)
            living[n++] = w->id;
    }
    if (rc == 0)
        rc = gpu_take(s->agent->gpus, living, n, each > UINT32_MAX ? UINT32_MAX : (unsigned)each,
                      (flags & START_SHARE) != 0, err);
    for (size_t i = 0; rc == 0 && i < s->n && (flags & START_OWN); i++)
        gpu_hide_others(s->agent->gpus, s->v[i].worker);
    free(living);
    return rc;
}

static void start_over(struct starting *s, const char *trouble)
{
    if (!s->agent->kernel.quitting)
        order_ranks(s, trouble);
    starting_destroy(s);
}

static void gpus_known(void *arg)
{
    struct starting *s = arg;
    struct err err = { "" };
    const bool failed = !s->agent->kernel.quitting && take_gpus(s, &err) < 0;

    start_over(s, failed ? err.text : NULL);
}

/* The Python is known; the GPUs may not be. */
static void go_on(struct starting *s)
{
    struct err err = { "" };

    if (s->m.v[F_START_GPUS].u64 > 0 && !s->agent->kernel.quitting) {
        /* it imports meanwhile; an error is reported when ranks are ordered */
        (void)spawn_zygote(s->agent, s->python, &err);
        err.text[0] = '\0';
        if (gpu_query(s->agent->gpus, gpus_known, s, &err) == 0)
            return;
    }
    start_over(s, err.text[0] ? err.text : NULL);
}

/* ---- the notebook's paths, as another machine has them ---- */

static int settle_python(struct starting *s, const char *python)
{
    char *copy = strdup(python);

    if (!copy)
        return -1;
    free(s->python);
    s->python = copy;
    for (size_t i = 0; i < s->n; i++) {
        struct worker *w = worker_find(&s->agent->workers, s->v[i].worker);

        if (w && worker_python(w, python) < 0)
            return -1;
    }
    return 0;
}

static void found_python(void *arg, int found, bool folder, const char *why)
{
    struct starting *s = arg;
    const char *node = s->agent->args.node, *python = NULL;
    struct err err = { "" };

    if (why)
        (void)err_set(&err, "%s: %s", node, why);
    else if ((python = python_candidates_found(&s->paths, found, node, &err)) &&
             settle_python(s, python) < 0)
        (void)err_set(&err, "out of memory");
    if (!folder)
        s->m.v[F_START_CWD].s = slice_text("");
    if (err.text[0])
        start_over(s, err.text);
    else
        go_on(s);
}

static void start_ranks(struct agent *a, const struct span *m, const char *python, const char *cwd,
                        struct slice workers)
{
    struct err err = { "" };
    struct starting *s = starting_create(a, m, python, workers, &err);

    if (!s) {
        start_nobody(a, workers, err.text);
        return;
    }
    make_workers(s, workers);
    if (!join_is_remote(a->args.connect))
        go_on(s);
    else if (prestart_find(a, python, cwd, &s->paths, found_python, s, &err) < 0)
        start_over(s, err.text);
}

static bool is_of_ranks(uint64_t role)
{
    return role == START_RANK || role == START_SCRIPT || role == START_BESIDE;
}

void start_workers(struct agent *a, const struct span *m, struct slice workers)
{
    char *python = python_candidates_copy(m->v[F_START_PYTHON].s);
    char *cwd = python_candidates_copy(m->v[F_START_CWD].s);

    if (!python || !cwd)
        start_nobody(a, workers, "a path with a NUL in it, or out of memory");
    else if (is_of_ranks(m->v[F_START_ROLE].u64))
        start_ranks(a, m, python, cwd, workers);
    else if (m->v[F_START_ROLE].u64 == START_HOME && workers.n == 4 && reader_u32_at(workers, 0) &&
             !worker_find(&a->workers, reader_u32_at(workers, 0)))
        start_home(a, reader_u32_at(workers, 0), python, cwd, m->v[F_START_ENV].s);
    else
        log_error("agent", "START: home is alive, or the role %" PRIu64 " is unknown",
                  m->v[F_START_ROLE].u64);
    free(python);
    free(cwd);
}
