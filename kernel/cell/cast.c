/* Big variables go from the lowest of the ranks that lack them to the others by ncclBroadcast,
 * where each holds GPUs of its own: the blob reaches that rank's machine alone. On one machine all
 * map it, which nothing beats for what is in host memory at home; only what lay on a GPU is cast
 * there. worker/collective/README.md says what is asked and sent.
 *
 * PACKED blobs wait here in their order, for that rank is asked for a communicator's id first.
 * Whatever is in the way of a cast, the blob then goes as all others do, and one line says why. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

/* Making a communicator takes NCCL a second or so, in which the ordinary way has carried what is
 * smaller. Where it ends up is the same. */
#define CAST_MIN (UINT64_C(8) << 20) /* bytes */
#define ASK_NS   (20 * NS_PER_S)     /* for the id: NCCL is loaded, and looks at the network */
#define LIMIT_S  60.0                /* for all of a cast, besides */
/* bytes a second: the blob may have to reach the root's machine first */
#define SLOWEST 20e6

struct waiting {
    uint64_t blob, size;
    uint64_t gpu; /* bytes of it that lay on a GPU at home */
};

struct cast {
    struct waiting *of; /* owned: those from c->ships.item[c->packed] on */
    size_t n;
    uint32_t asked;    /* the worker that is asked for an id; 0: nobody */
    uint64_t due_ns;   /* until then it is waited for; NEVER: nobody is */
    struct ranks told; /* those that take part in casts of this cell */
};

static const struct shipment *shipment(const struct cell *c)
{
    return &c->ships.item[c->packed];
}

static struct cast *open_cast(struct cell *c)
{
    if (c->cast || !(c->cast = calloc(1, sizeof *c->cast)))
        return c->cast;
    c->cast->due_ns = NEVER;
    if (c->plan.fresh) /* what failed may be another process now, or on another machine */
        c->nb->casts_fail = false;
    return c->cast;
}

/* ---- may it be one? ---- */

/* NCCL takes each GPU once; instances of one GPU are the same to it. */
bool cast_gpus_are_own(const struct cell *c, const struct ranks *to)
{
    const struct group *g = c->group;

    for (long k = ranks_next(to, 0); k >= 0; k = ranks_next(to, (unsigned)k + 1)) {
        const struct machine *m = machine_of(c->nb, g->rank[k].node);

        if (m && m->mig)
            return false;
    }
    return !g->want.share;
}

static bool all_hold_gpus(const struct cell *c, const struct ranks *to)
{
    const struct group *g = c->group;

    if (!g->gpus || !cast_gpus_are_own(c, to))
        return false;
    for (long k = ranks_next(to, 0); k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if (!machine_of(c->nb, g->rank[k].node) || !rank_alive(&g->rank[k]))
            return false;
    return true;
}

static bool suits(const struct cell *c, const struct waiting *w)
{
    const struct ranks *to = &shipment(c)->ranks;

    return (fanout_is_near(c, to) ? w->gpu : w->size) >= CAST_MIN && !c->nb->casts_fail &&
           ranks_count(to) > 1 && all_hold_gpus(c, to);
}

/* ---- the ordinary way, and this one ---- */

static void take_first(struct cast *cast)
{
    cast->asked = 0;
    cast->due_ns = NEVER;
    memmove(cast->of, cast->of + 1, --cast->n * sizeof *cast->of);
}

static void ship(struct cell *c, const char *text)
{
    const struct waiting first = c->cast->of[0];

    take_first(c->cast);
    fanout_ship(c, first.blob, first.size, text);
    gather_shipped(c);
}

/* BIND's `cast`. NULL: memory is out. */
static char *cast_text(const struct cell *c, const char *id)
{
    const struct waiting *w = &c->cast->of[0];
    const struct ranks *to = &shipment(c)->ranks;
    json_t *ranks = json_array(), *root;
    char *text;

    for (long k = ranks_next(to, 0); ranks && k >= 0; k = ranks_next(to, (unsigned)k + 1))
        json_array_append_new(ranks, json_integer(k));
    root = json_pack("{s:i, s:o, s:s, s:I, s:b, s:f}", "root", (int)ranks_next(to, 0), "ranks",
                     ranks, "id", id, "size", (json_int_t)w->size, "mapped", fanout_is_near(c, to),
                     "limit_s", LIMIT_S + (double)w->size / SLOWEST);
    text = root && fanout_add_world(c, root) == 0 ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static void fall_back(struct cell *c, const char *why)
{
    c->nb->casts_fail = true;
    stream_note(c, "variables don't go from GPU to GPU: %s", why);
    ship(c, "");
}

static int note_told(struct cast *cast, const struct ranks *to)
{
    for (long k = ranks_next(to, 0); k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if (ranks_add(&cast->told, (unsigned)k) < 0)
            return -1;
    return 0;
}

static int ask(struct cell *c)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    const struct rank *root = &c->group->rank[ranks_next(&shipment(c)->ranks, 0)];
    struct buf content = BUF_INIT;
    json_t *world = json_object();
    int rc;

    m.worker = c->cast->asked = root->worker;
    c->cast->due_ns = notebook_now(c->nb) + ASK_NS;
    m.v[F_PROBE_WHAT].s = slice_text("cast_open");
    if (!world || fanout_add_world(c, world) < 0) {
        json_decref(world);
        world = NULL;
    }
    if ((rc = text_json(&content, world)) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_PROBE_CONTENT].s = buf_slice(&content);
        rc = cell_send(c, &root->worker, 1, &m);
    }
    buf_release(&content);
    return rc;
}

/* Until one has to wait for its id. */
static void go_on(struct cell *c)
{
    while (c->state == CELL_SHIPPING && c->cast->n && !c->cast->asked) {
        if (!suits(c, &c->cast->of[0]))
            ship(c, "");
        else if (ask(c) < 0)
            return;
    }
}

/* ---- from outside ---- */

void cast_packed(struct cell *c, const struct span *packed)
{
    const struct waiting w = { packed->blob, packed->blob_size, packed->v[F_PACKED_GPU].u64 };
    struct cast *cast = open_cast(c);
    struct waiting *more = cast ? realloc(cast->of, (cast->n + 1) * sizeof *more) : NULL;

    if (!more || c->packed + cast->n >= c->ships.n) {
        if (cast && more)
            cast->of = more;
        notebook_drop(c->nb, w.size ? w.blob : 0);
        if (!more)
            cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    cast->of = more;
    cast->of[cast->n++] = w;
    go_on(c);
}

bool cast_message(struct cell *c, uint32_t worker, const struct span *m)
{
    json_t *said;
    const char *id;
    char *text;

    if (!c->cast || !c->cast->asked || c->cast->asked != worker || m->cell != c->id ||
        c->state != CELL_SHIPPING)
        return false;
    said = text_parse(m->v[F_PROBED_CONTENT].s);
    id = text_field(said, "nccl_id");
    text = id[0] ? cast_text(c, id) : NULL;
    if (!text)
        fall_back(c, id[0] ? "out of memory" : text_field(said, "error"));
    else if (note_told(c->cast, &shipment(c)->ranks) < 0)
        fall_back(c, "out of memory");
    else
        ship(c, text);
    free(text);
    json_decref(said);
    if (c->state == CELL_SHIPPING)
        go_on(c);
    return true;
}

void cast_tick(struct cell *c, uint64_t now)
{
    if (!c->cast || now < c->cast->due_ns || c->state != CELL_SHIPPING)
        return;
    fall_back(c, "NCCL did not answer");
    if (c->state == CELL_SHIPPING)
        go_on(c);
}

uint64_t cast_due(const struct cell *c)
{
    return c->cast && c->state == CELL_SHIPPING ? c->cast->due_ns : NEVER;
}

void cast_failed(struct cell *c, const struct span *done)
{
    json_t *said;

    if (!c->cast || c->stopping || c->nb->casts_fail)
        return;
    said = text_parse(done->v[F_DONE_CONTENT].s);
    if (strcmp(text_field(said, "ename"), "CastError") == 0) {
        c->nb->casts_fail = true;
        stream_note(c, "variables don't go from GPU to GPU any more: run the cell again");
    }
    json_decref(said);
}

/* Ranks that wait for others in a cast, though the cell is over before it ran, are told to
 * leave. */
static void leave(struct cell *c)
{
    const struct ranks *told = &c->cast->told;

    for (long k = ranks_next(told, 0); k >= 0; k = ranks_next(told, (unsigned)k + 1)) {
        const struct rank *r = &c->group->rank[k];
        const struct span m = { .kind = SPAN_INTERRUPT, .worker = r->worker, .cell = c->id };

        if (r->worker && rank_alive(r))
            notebook_send(c->nb, r->worker, &m);
    }
}

void cast_over(struct cell *c)
{
    if (c->cast && !c->began_ns)
        leave(c);
}

void cast_release(struct cell *c)
{
    if (!c->cast)
        return;
    for (size_t k = 0; k < c->cast->n; k++)
        notebook_drop(c->nb, c->cast->of[k].size ? c->cast->of[k].blob : 0);
    ranks_release(&c->cast->told);
    free(c->cast->of);
    free(c->cast);
    c->cast = NULL;
}
