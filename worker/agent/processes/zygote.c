/* SPDX-License-Identifier: BSD-3-Clause */
/* zygote.c - orders to a zygote, which forks ranks, and its answers (declared in worker.h). */
#include "worker/agent/processes/worker.h"

#include <string.h>

#include "base/le.h"
#include "worker/link/packet.h"

struct worker *zygote_find(const struct workers *all, const char *python)
{
    for (struct worker *w = all->first; w; w = w->next)
        if (w->role == WORKER_ZYGOTE && w->link_fd >= 0 && strcmp(w->python, python) == 0)
            return w;
    return NULL;
}

/* ---- telling ---- */

int zygote_order(struct worker *z, struct worker *w, struct worker_pipes *ends,
                 const struct span *start, struct err *err)
{
    struct buf msg = BUF_INIT;
    int rc = span_encode(start, &msg, err);

    if (rc == 0 && msg.n + 1 > PACKET_INLINE_MAX)
        rc = err_set(err, "the environment is too long: %zu bytes, at most %u", msg.n,
                     PACKET_INLINE_MAX);
    if (rc < 0)
        worker_pipes_close(ends);
    else
        rc = orders_add_rank(&z->orders, buf_slice(&msg), ends, err);
    buf_release(&msg);
    if (rc < 0)
        return -1;
    w->zygote = z;
    worker_watch(z);
    zygote_make_room(z->all);
    return 0;
}

int zygote_fork(struct worker *z, struct err *err)
{
    if (orders_add_fork(&z->orders, err) < 0)
        return -1;
    worker_watch(z);
    return 0;
}

/* ---- listening ---- */

static void take_pids(const struct worker *z, struct slice pids)
{
    for (size_t at = 0; at + 8 <= pids.n; at += 8) {
        struct worker *w = worker_find(z->all, (uint32_t)le_get(pids.p + at, 4));
        const pid_t pid = (pid_t)le_get(pids.p + at + 4, 4);

        if (w && w->role == WORKER_RANK && w->state.pid == 0 && pid > 1 &&
            !worker_find_pid(z->all, pid))
            worker_set_pid(w, pid);
    }
}

void zygote_says(struct worker *z, struct slice packet)
{
    if (packet.n == 0)
        return;
    if (packet.p[0] == ZYGOTE_MESSAGE)
        z->state.ready = true; /* READY is its only message */
    else if (packet.p[0] == ZYGOTE_PIDS)
        take_pids(z, slice_of(packet.p + 1, packet.n - 1));
}
