/* SPDX-License-Identifier: BSD-3-Clause */
/* Room on GPUs for ranks that end with their cell, where the group's ranks have the same GPUs: idle
 * ranks give back the memory that they do not use, and a line says what they keep. */
#include <stdlib.h>

#include "kernel/cell/cell_before.h"
#include "kernel/notebook/notebook.h"

#define ANSWER_NS    (2 * NS_PER_S)       /* time limit for the ranks' answers: a driver may hang */
#define WORTH_A_LINE (UINT64_C(64) << 20) /* bytes: a CUDA context alone takes more */

/* The GPU memory of the notebook's ranks. */
struct gpu_memory {
    struct ranks waiting; /* ranks that have not answered */
    uint64_t due_ns;      /* they are waited for until then; NEVER: nobody is */
    struct ranks keep;    /* ranks that keep some memory */
    uint64_t bytes;       /* all of it */
};

static int send_waiting(struct cell *c, const struct span *m, struct err *err)
{
    return notebook_send_ranks(c->nb, c->nb->group, rank_in_set, &c->prep.gpu_memory->waiting, m,
                               err);
}

int gpu_memory_begin(struct cell *c)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    const struct group *g = c->nb->group;
    struct err err = { "" };

    if (!cell_own_group(c) || c->engine.here || !g->gpus || c->plan.no_gpu)
        return 0;
    if (!c->prep.gpu_memory && !(c->prep.gpu_memory = calloc(1, sizeof *c->prep.gpu_memory)))
        return cell_fail(c, "RuntimeError", "out of memory");
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].state == RANK_IDLE && ranks_add(&c->prep.gpu_memory->waiting, k) < 0)
            return cell_fail(c, "RuntimeError", "out of memory");
    m.v[F_PROBE_WHAT].s = slice_text("room");
    m.v[F_PROBE_CONTENT].s = slice_text("{}");
    c->prep.gpu_memory->due_ns = notebook_now(c->nb) + ANSWER_NS;
    return send_waiting(c, &m, &err) < 0 ? cell_fail(c, "RuntimeError", "%s", err.text) : 0;
}

static void tell(struct cell *c)
{
    struct gpu_memory *memory = c->prep.gpu_memory;
    const unsigned many = memory->bytes < WORTH_A_LINE ? 0 : ranks_count(&memory->keep);
    struct buf who = BUF_INIT;

    if (many && ranks_format_words(&memory->keep, &who) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (many)
        output_note(c, "%s keep%s %.1f GiB of GPU memory meanwhile (%%ranks stop frees it)", who.p,
                    many > 1 ? "" : "s", (double)memory->bytes / (double)(UINT64_C(1) << 30));
    ranks_clear(&memory->keep);
    buf_release(&who);
}

bool gpu_memory_poll(struct cell *c)
{
    if (!c->prep.gpu_memory)
        return true;
    if (ranks_count(&c->prep.gpu_memory->waiting))
        return false;
    tell(c);
    return true;
}

bool gpu_memory_on_probed(struct cell *c, struct rank *r, const struct span *m)
{
    struct gpu_memory *memory = c->prep.gpu_memory;
    json_t *said;
    json_int_t kept;

    if (!memory || m->cell != c->id || !ranks_has(&memory->waiting, r->number) ||
        group_worker(c->nb->group, r->worker) != r)
        return false;
    ranks_remove(&memory->waiting, r->number);
    said = text_parse(m->v[F_PROBED_CONTENT].s);
    kept = json_integer_value(json_object_get(said, "kept"));
    if ((!said && slice_is(m->v[F_PROBED_STATUS].s, "ok")) ||
        (kept > 0 && ranks_add(&memory->keep, r->number) < 0))
        cell_fail(c, "RuntimeError", "out of memory");
    memory->bytes += kept > 0 ? (uint64_t)kept : 0;
    json_decref(said);
    return true;
}

void gpu_memory_cancel(struct cell *c)
{
    const struct span interrupt = { .kind = SPAN_INTERRUPT, .cell = c->id };

    if (!c->prep.gpu_memory)
        return;
    if (ranks_count(&c->prep.gpu_memory->waiting))
        (void)send_waiting(c, &interrupt, NULL);
    ranks_clear(&c->prep.gpu_memory->waiting);
    c->prep.gpu_memory->due_ns = NEVER;
}

uint64_t gpu_memory_due(const struct cell *c)
{
    return c->prep.gpu_memory ? c->prep.gpu_memory->due_ns : NEVER;
}

void gpu_memory_release(struct cell *c)
{
    if (c->prep.gpu_memory) {
        ranks_release(&c->prep.gpu_memory->waiting);
        ranks_release(&c->prep.gpu_memory->keep);
    }
    free(c->prep.gpu_memory);
    c->prep.gpu_memory = NULL;
}

void gpu_memory_tick(struct cell *c, uint64_t now)
{
    if (now >= gpu_memory_due(c))
        gpu_memory_cancel(c);
}
