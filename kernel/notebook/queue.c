/* Execute requests wait here while another cell runs. While home is busy, comm messages wait behind
 * them: a message must not reach home before the cell that opens its comm. */
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/notebook/notebook.h"

static bool is_execute(const struct request *r)
{
    return strcmp(request_type(r), "execute_request") == 0;
}

void queue_add(struct notebook *nb, struct request *r)
{
    struct queue *q = &nb->queue;
    struct request **slot = rows_add(&q->item, &q->n, &q->room, sizeof(struct request *));

    if (slot)
        *slot = request_ref(r);
    else
        log_error("cell", "a request is dropped: out of memory");
}

static struct request *take_at(struct notebook *nb, size_t k)
{
    struct request *r = nb->queue.item[k];

    rows_remove(nb->queue.item, &nb->queue.n, sizeof(struct request *), k);
    return r;
}

struct request *queue_first(const struct notebook *nb)
{
    return nb->queue.n ? nb->queue.item[0] : NULL;
}

struct request *queue_take(struct notebook *nb)
{
    return nb->queue.n ? take_at(nb, 0) : NULL;
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
            return take_at(nb, k);
    return NULL;
}

void queue_take_in(struct notebook *nb)
{
    nb->queue.aborting = true;
    nb->ops.drain_shell(nb->ops.arg);
    nb->queue.aborting = false;
}

void queue_abort(struct notebook *nb)
{
    for (size_t k = 0; k < nb->queue.n;) {
        struct request *r = nb->queue.item[k];

        if (!is_execute(r)) {
            k++;
            continue;
        }
        take_at(nb, k);
        nb->ops.status(nb->ops.arg, r, "busy");
        reply_json(nb, r, "execute_reply", json_pack("{s:s}", "status", "aborted"));
        nb->ops.status(nb->ops.arg, r, "idle");
        request_unref(r);
    }
}
