/* fan.c - see fan.h. Everything here is linear in the list: nodes and connections are marked when
 * they are first met. */
#include "kernel/agents/fan.h"

#include <stdlib.h>

#include "base/rows.h"

void fan_release(struct fan *f)
{
    free(f->touched);
    free(f->top);
    f->touched = f->top = NULL;
    f->n_touched = f->n_top = f->room = 0;
}

/* Room for every node that there is. */
static int fan_begin(struct fan *f)
{
    const size_t n = f->nodes->n;
    struct node **touched, **top;

    f->n_touched = f->n_top = f->gone = 0;
    if (n <= f->room)
        return 0;
    if (!(touched = realloc(f->touched, 2 * n * sizeof *touched)))
        return -1;
    f->touched = touched;
    if (!(top = realloc(f->top, 2 * n * sizeof *top)))
        return -1;
    f->top = top;
    f->room = 2 * n;
    return 0;
}

/* NULL: it is gone. The notebook's own machine may be started again: what is for it waits. */
static struct node *fan_meet(struct fan *f, unsigned node)
{
    struct node *l = node_table_get(f->nodes, node);

    if (!l || (l->info.state == NODE_LOST && node != NODE_HERE)) {
        f->gone++;
        return NULL;
    }
    if (!l->touched) {
        l->touched = true;
        l->n_workers = 0;
        f->touched[f->n_touched++] = l;
    }
    return l;
}

static int node_add_worker(struct node *l, uint32_t worker)
{
    uint32_t *more = rows_insert(l->worker, &l->n_workers, &l->room, sizeof *more, l->n_workers, 8);

    if (!more)
        return -1;
    l->worker = more;
    l->worker[l->n_workers - 1] = worker;
    return 0;
}

/* The node's section goes into the route of its connection, or waits with the body. */
static int fan_section(struct fan *f, struct node *l, zmq_msg_t *body)
{
    struct node *top;

    if (!node_is_ready(l))
        return node_wait(l, l->worker, l->n_workers, body);
    top = node_top(l);
    if (!top->topped) {
        top->topped = true;
        buf_clear(&top->route);
        f->top[f->n_top++] = top;
    }
    return route_add(&top->route, l->number, l->worker, l->n_workers);
}

/* The marks are taken off again, whatever happened. */
static int fan_end(struct fan *f, zmq_msg_t *body, int rc)
{
    for (size_t i = 0; i < f->n_touched; i++) {
        f->touched[i]->touched = false;
        if (rc == 0)
            rc = fan_section(f, f->touched[i], body);
    }
    for (size_t i = 0; i < f->n_top; i++)
        f->top[i]->topped = false;
    if (rc < 0)
        f->n_top = 0;
    return rc;
}

size_t fan_list(struct fan *f, const uint32_t *workers, size_t n, unsigned *nodes)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        struct node *l = node_table_get(f->nodes, node_table_where(f->nodes, workers[i]));

        if (!l || l->touched || (l->info.state == NODE_LOST && l->number != NODE_HERE))
            continue;
        l->touched = true;
        nodes[found++] = l->number;
    }
    for (size_t i = 0; i < found; i++)
        f->nodes->node[nodes[i]]->touched = false;
    return found;
}

int fan_workers(struct fan *f, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    int rc = fan_begin(f);

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct node *l = fan_meet(f, node_table_where(f->nodes, workers[i]));

        if (l)
            rc = node_add_worker(l, workers[i]);
    }
    return fan_end(f, body, rc);
}

int fan_nodes(struct fan *f, const unsigned *nodes, size_t n, zmq_msg_t *body)
{
    int rc = fan_begin(f);

    for (size_t i = 0; i < n && rc == 0; i++)
        (void)fan_meet(f, nodes[i]);
    return fan_end(f, body, rc);
}
