/* node_link.c - see node_link.h. */
#include "kernel/agents/node_link.h"

#include <stdlib.h>
#include <string.h>

/* ---- one node ---- */

void waiting_message_free(struct waiting_message *letter)
{
    if (!letter)
        return;
    buf_release(&letter->route);
    zmq_msg_close(&letter->body);
    free(letter);
}

struct waiting_message *node_take(struct node *l)
{
    struct waiting_message *first = l->first;

    if (!first)
        return NULL;
    if (!(l->first = first->next))
        l->last = &l->first;
    return first;
}

int node_wait(struct node *l, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    struct waiting_message *letter = calloc(1, sizeof *letter);

    if (!letter)
        return -1;
    (void)zmq_msg_init(&letter->body);
    if (route_add(&letter->route, l->number, workers, n) < 0 ||
        zmq_msg_copy(&letter->body, body) < 0) {
        waiting_message_free(letter);
        return -1;
    }
    *l->last = letter;
    l->last = &letter->next;
    return 0;
}

void node_lost(struct node *l)
{
    struct waiting_message *letter;

    while ((letter = node_take(l)))
        waiting_message_free(letter);
    l->info.state = NODE_LOST;
    l->router = NULL;
    l->identity_size = 0;
    l->fd = -1;
    l->parent = NULL;
    l->reparent = REPARENT_NONE;
    l->doomed_ns = 0;
    buf_release(&l->route);
    free(l->worker);
    l->worker = NULL;
    l->n_workers = l->room = 0;
}

static void node_free(struct node *l)
{
    if (!l)
        return;
    node_lost(l);
    free(l->name);
    free(l->address);
    free(l->addresses);
    free(l);
}

static struct node *node_create(unsigned number, unsigned engine, unsigned index)
{
    struct node *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->number = number;
    l->fd = -1;
    l->meter = (struct meter)METER_INIT;
    l->last = &l->first;
    l->info = (struct node_info){ .engine = engine, .index = index, .name = "", .address = "" };
    return l;
}

/* Puts a copy in the text's place. */
static int text_set(char **text, const char **shown, struct slice s)
{
    char *copy = malloc(s.n + 1);

    if (!copy)
        return -1;
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    free(*text);
    *text = copy;
    if (shown)
        *shown = copy;
    return 0;
}

int node_set_name(struct node *l, struct slice name)
{
    return text_set(&l->name, &l->info.name, name);
}

int node_set_addresses(struct node *l, struct slice list)
{
    const char *end = list.n ? memchr(list.p, ',', list.n) : NULL;
    struct slice first = slice_of(list.p, end ? (size_t)(end - list.p) : list.n);
    const char *equals = first.n ? memchr(first.p, '=', first.n) : NULL;

    if (equals)
        first = slice_of(equals + 1, first.n - (size_t)(equals + 1 - first.p));
    if (text_set(&l->addresses, &l->info.addresses, list) < 0)
        return -1;
    return text_set(&l->address, &l->info.address, first);
}

/* Its parent may be lost already while it is not yet. */
bool node_is_ready(const struct node *l)
{
    if (!l->identity_size || l->reparent == REPARENT_DIALING)
        return false;
    while (l->reparent == REPARENT_DONE && l->parent)
        l = l->parent;
    return l->identity_size;
}

struct node *node_top(struct node *l)
{
    while (l->reparent == REPARENT_DONE && l->parent)
        l = l->parent;
    return l;
}

bool node_is_under(const struct node *l, const struct node *top)
{
    while (l != top && l->reparent == REPARENT_DONE && l->parent)
        l = l->parent;
    return l == top;
}

uint64_t node_known_ns(const struct node *l, uint64_t now)
{
    for (; l->reparent == REPARENT_DONE && l->parent; l = l->parent)
        if (l->parent->pulse.heard < now)
            now = l->parent->pulse.heard;
    return now;
}

/* ---- all of them ---- */

void node_table_release(struct node_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        node_free(t->node[i]);
    free(t->node);
    free(t->home);
    *t = (struct node_table)NODE_TABLE_INIT;
}

int node_table_add(struct node_table *t, unsigned n, unsigned engine, struct err *err)
{
    const size_t old = t->n;
    struct node **node;

    if (n > ROUTE_NODES_MAX || old + n > ROUTE_NODES_MAX)
        return err_set(err, "%u nodes are too many: this kernel has had %zu, and numbers for %u", n,
                       old, ROUTE_NODES_MAX);
    if (!(node = realloc(t->node, (old + n) * sizeof *node)))
        return err_set(err, "out of memory for %u nodes", n);
    t->node = node;
    for (unsigned i = 0; i < n; i++, t->n++)
        if (!(node[t->n] = node_create((unsigned)t->n, engine, i)))
            goto undo;
    return 0;
undo:
    while (t->n > old)
        node_free(node[--t->n]);
    return err_set(err, "out of memory for %u nodes", n);
}

struct node *node_table_get(const struct node_table *t, unsigned number)
{
    return number < t->n ? t->node[number] : NULL;
}

static int homes_grow(struct node_table *t, uint32_t worker)
{
    const size_t n = (size_t)worker + worker / 2 + 64;
    uint16_t *home;

    if (worker < t->n_homes)
        return 0;
    if (!(home = realloc(t->home, n * sizeof *home)))
        return -1;
    memset(home + t->n_homes, 0, (n - t->n_homes) * sizeof *home);
    t->home = home;
    t->n_homes = n;
    return 0;
}

int node_table_place(struct node_table *t, uint32_t worker, unsigned node, struct err *err)
{
    if (node >= t->n)
        return err_set(err, "there is no node %u", node);
    if (node == NODE_HERE && worker >= t->n_homes)
        return 0;
    if (homes_grow(t, worker) < 0)
        return err_set(err, "out of memory for worker %u", worker);
    t->home[worker] = (uint16_t)node;
    return 0;
}

unsigned node_table_where(const struct node_table *t, uint32_t worker)
{
    return worker < t->n_homes ? t->home[worker] : NODE_HERE;
}

void node_table_forget(struct node_table *t, uint32_t worker)
{
    if (worker < t->n_homes)
        t->home[worker] = NODE_NOWHERE;
}
