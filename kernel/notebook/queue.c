/* SPDX-License-Identifier: BSD-3-Clause */
/* Execute requests wait here while another cell runs. While home is busy, comm messages wait behind
 * them: a message must not reach home before the cell that opens its comm. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/notebook/notebook.h"

static bool is_execute(const struct request *r)
{
    return strcmp(request_type(r), "execute_request") == 0;
}

struct queue *queue_of(struct notebook *nb, const struct request *r)
{
    struct subshell *s = notebook_subshell(nb, r);

    return s ? &s->queue : &nb->queue;
}

void queue_add(struct queue *q, struct request *r)
{
    struct request **slot = rows_add(&q->item, &q->n, &q->room, sizeof(struct request *));

    if (slot)
        *slot = request_ref(r);
    else
        log_error("cell", "a request is dropped: out of memory");
}

static struct request *take_at(struct queue *q, size_t k)
{
    struct request *r = q->item[k];

    rows_remove(q->item, &q->n, sizeof(struct request *), k);
    return r;
}

struct request *queue_first(const struct queue *q)
{
    return q->n ? q->item[0] : NULL;
}

struct request *queue_take(struct queue *q)
{
    return q->n ? take_at(q, 0) : NULL;
}

void queue_release(struct queue *q)
{
    for (struct request *r; (r = queue_take(q));)
        request_unref(r);
    free(q->item);
    q->item = NULL;
}

bool queue_holds_execute(const struct notebook *nb)
{
    for (size_t k = 0; k < nb->queue.n; k++)
        if (is_execute(nb->queue.item[k]))
            return true;
    return false;
}

struct request *queue_take_comm(struct notebook *nb)
{
    for (size_t k = 0; k < nb->queue.n; k++)
        if (!is_execute(nb->queue.item[k]))
            return take_at(&nb->queue, k);
    return NULL;
}

void queue_drain_shell(struct notebook *nb)
{
    nb->queue.aborting = true;
    nb->ops.drain_shell(nb->ops.arg);
    nb->queue.aborting = false;
}

/* of: only those of this client; NULL: all */
static void abort_from(struct notebook *nb, struct queue *q, size_t k, const struct request *of)
{
    while (k < q->n) {
        struct request *r = q->item[k];

        if (!is_execute(r) || (of && !request_same_client(of, r))) {
            k++;
            continue;
        }
        take_at(q, k);
        nb->ops.status(nb->ops.arg, r, "busy");
        reply_json(nb, r, "execute_reply", json_pack("{s:s}", "status", "aborted"));
        nb->ops.status(nb->ops.arg, r, "idle");
        request_unref(r);
    }
}

void queue_abort(struct notebook *nb, struct queue *q)
{
    abort_from(nb, q, 0, NULL);
}

void queue_abort_after(struct notebook *nb, const struct request *r, size_t before)
{
    abort_from(nb, queue_of(nb, r), before, r);
}
