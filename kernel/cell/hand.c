/* Passes on what home and ranks hand each other while ranks run a call of home: the items and
 * results of cellspan.map. */
#include "kernel/cell/cell_runs.h"
#include "base/log.h"

void hand_up(struct cell *c, const struct member *member, const struct span *m)
{
    struct span up = { .kind = SPAN_HANDED, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (!c->from.is_call || !cell_runs(c) || member->state != MEMBER_RUNNING)
        return;
    c->from.hands = true;
    up.v[F_HANDED_FROM].u64 = member->rank;
    up.v[F_HANDED_PARTS].list = m->v[F_HAND_PARTS].list;
    (void)cell_send_home(c, &up);
}

void hand_down(struct cell *c, const struct span *m)
{
    const uint64_t to = m->v[F_HAND_TO].u64;
    const struct member *member = to <= UINT32_MAX ? cell_member(c, (unsigned)to) : NULL;
    struct span down = { .kind = SPAN_HANDED, .cell = c->id };

    if (!member || !cell_runs(c) || member->state != MEMBER_RUNNING) {
        log_debug("hand", "rank %llu runs the cell no more", (unsigned long long)to);
        return;
    }
    down.worker = member->worker;
    down.v[F_HANDED_PARTS].list = m->v[F_HAND_PARTS].list;
    (void)cell_send(c, &member->worker, 1, &down);
}

void hand_interrupt(struct cell *c)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (c->from.hands)
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
}
