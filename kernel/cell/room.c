/* SPDX-License-Identifier: BSD-3-Clause */
/* Room on GPUs for ranks that end with their cell, where the group's ranks have the same GPUs: idle
 * ranks give back the memory that they do not use, and a line says what they keep. */
#include <stdlib.h>

#include "kernel/cell/cell_before.h"
#include "kernel/notebook/notebook.h"

#define ANSWER_NS    (2 * NS_PER_S)       /* time limit for the ranks' answers: a driver may hang */
#define WORTH_A_LINE (UINT64_C(64) << 20) /* bytes: a CUDA context alone takes more */

/* The GPU memory of the notebook's ranks. */
struct cell_room {
    struct ranks waiting; /* ranks that have not answered */
    uint64_t due_ns;      /* they are waited for until then; NEVER: nobody is */
    struct ranks keep;    /* ranks that keep some memory */
    uint64_t bytes;       /* all of it */
};

static int send_waiting(struct cell *c, const struct span *m, struct err *err)
{
    return notebook_send_ranks(c->nb, c->nb->group, rank_in_set, &c->prep.room->waiting, m, err);
}

int room_begin(struct cell *c)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    const struct group *g = c->nb->group;
    struct err err = { "" };

    if (!c->script_group || c->engine.here || !g->gpus || c->plan.no_gpu)
        return 0;
    if (!c->prep.room && !(c->prep.room = calloc(1, sizeof *c->prep.room)))
        return cell_fail(c, "RuntimeError", "out of memory");
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].state == RANK_IDLE && ranks_add(&c->prep.room->waiting, k) < 0)
            return cell_fail(c, "RuntimeError", "out of memory");
    m.v[F_PROBE_WHAT].s = slice_text("room");
    m.v[F_PROBE_CONTENT].s = slice_text("{}");
    c->prep.room->due_ns = notebook_now(c->nb) + ANSWER_NS;
    return send_waiting(c, &m, &err) < 0 ? cell_fail(c, "RuntimeError", "%s", err.text) : 0;
}

static void tell(struct cell *c)
{
    struct cell_room *room = c->prep.room;
    const unsigned many = room->bytes < WORTH_A_LINE ? 0 : ranks_count(&room->keep);
    struct buf who = BUF_INIT;

    if (many && ranks_format_words(&room->keep, &who) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (many)
        output_note(c, "%s keep%s %.1f GiB of GPU memory meanwhile (%%ranks stop frees it)", who.p,
                    many > 1 ? "" : "s", (double)room->bytes / (double)(UINT64_C(1) << 30));
    ranks_clear(&room->keep);
    buf_release(&who);
}

bool room_poll(struct cell *c)
{
    if (!c->prep.room)
        return true;
    if (ranks_count(&c->prep.room->waiting))
        return false;
    tell(c);
    return true;
}

bool room_message(struct cell *c, struct rank *r, const struct span *m)
{
    struct cell_room *room = c->prep.room;
    json_t *said;
    json_int_t kept;

    if (!room || m->cell != c->id || !ranks_has(&room->waiting, r->number) ||
        group_worker(c->nb->group, r->worker) != r)
        return false;
    ranks_remove(&room->waiting, r->number);
    said = text_parse(m->v[F_PROBED_CONTENT].s);
    kept = json_integer_value(json_object_get(said, "kept"));
    if ((!said && slice_is(m->v[F_PROBED_STATUS].s, "ok")) ||
        (kept > 0 && ranks_add(&room->keep, r->number) < 0))
        cell_fail(c, "RuntimeError", "out of memory");
    room->bytes += kept > 0 ? (uint64_t)kept : 0;
    json_decref(said);
    return true;
}

void room_over(struct cell *c)
{
    const struct span interrupt = { .kind = SPAN_INTERRUPT, .cell = c->id };

    if (!c->prep.room)
        return;
    if (ranks_count(&c->prep.room->waiting))
        (void)send_waiting(c, &interrupt, NULL);
    ranks_clear(&c->prep.room->waiting);
    c->prep.room->due_ns = NEVER;
}

uint64_t room_due(const struct cell *c)
{
    return c->prep.room ? c->prep.room->due_ns : NEVER;
}

void room_release(struct cell *c)
{
    if (c->prep.room) {
        ranks_release(&c->prep.room->waiting);
        ranks_release(&c->prep.room->keep);
    }
    free(c->prep.room);
    c->prep.room = NULL;
}

void room_tick(struct cell *c, uint64_t now)
{
    if (now >= room_due(c))
        room_over(c);
}
