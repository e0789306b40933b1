/* link.c - see link.h. */
#include "kernel/agents/link.h"

#include <stdlib.h>
#include <string.h>

/* ---- one node ---- */

void letter_free(struct letter *letter)
{
    if (!letter)
        return;
    buf_release(&letter->route);
    zmq_msg_close(&letter->body);
    free(letter);
}

struct letter *link_take(struct link *l)
{
    struct letter *first = l->first;

    if (!first)
        return NULL;
    if (!(l->first = first->next))
        l->last = &l->first;
    return first;
}

int link_wait(struct link *l, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    struct letter *letter = calloc(1, sizeof *letter);

    if (!letter)
        return -1;
    (void)zmq_msg_init(&letter->body);
    if (route_add(&letter->route, l->number, workers, n) < 0 ||
        zmq_msg_copy(&letter->body, body) < 0) {
        letter_free(letter);
        return -1;
    }
    *l->last = letter;
    l->last = &letter->next;
    return 0;
}

void link_lost(struct link *l)
{
    struct letter *letter;

    while ((letter = link_take(l)))
        letter_free(letter);
    l->info.state = NODE_LOST;
    l->router = NULL;
    l->identity_size = 0;
    l->fd = -1;
    l->parent = NULL;
    l->move = MOVE_NONE;
    l->doomed_ns = 0;
    buf_release(&l->route);
    free(l->worker);
    l->worker = NULL;
    l->n_workers = l->room = 0;
}

static void link_free(struct link *l)
{
    if (!l)
        return;
    link_lost(l);
    free(l->name);
    free(l->address);
    free(l->addresses);
    free(l);
}

static struct link *link_create(unsigned number, unsigned engine, unsigned index)
{
    struct link *l = calloc(1, sizeof *l);

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

int link_name(struct link *l, struct slice name)
{
    return text_set(&l->name, &l->info.name, name);
}

int link_addresses(struct link *l, struct slice list)
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
bool link_is_ready(const struct link *l)
{
    if (!l->identity_size || l->move == MOVE_DIALING)
        return false;
    while (l->move == MOVE_DONE && l->parent)
        l = l->parent;
    return l->identity_size;
}

struct link *link_top(struct link *l)
{
    while (l->move == MOVE_DONE && l->parent)
        l = l->parent;
    return l;
}

bool link_is_under(const struct link *l, const struct link *top)
{
    while (l != top && l->move == MOVE_DONE && l->parent)
        l = l->parent;
    return l == top;
}

uint64_t link_known_ns(const struct link *l, uint64_t now)
{
    for (; l->move == MOVE_DONE && l->parent; l = l->parent)
        if (l->parent->pulse.heard < now)
            now = l->parent->pulse.heard;
    return now;
}

/* ---- all of them ---- */

void links_release(struct links *t)
{
    for (size_t i = 0; i < t->n; i++)
        link_free(t->node[i]);
    free(t->node);
    free(t->home);
    *t = (struct links)LINKS_INIT;
}

int links_add(struct links *t, unsigned n, unsigned engine, struct err *err)
{
    const size_t old = t->n;
    struct link **node;

    if (n > ROUTE_NODES_MAX || old + n > ROUTE_NODES_MAX)
        return err_set(err, "%u nodes are too many: this kernel has had %zu, and numbers for %u", n,
                       old, ROUTE_NODES_MAX);
    if (!(node = realloc(t->node, (old + n) * sizeof *node)))
        return err_set(err, "out of memory for %u nodes", n);
    t->node = node;
    for (unsigned i = 0; i < n; i++, t->n++)
        if (!(node[t->n] = link_create((unsigned)t->n, engine, i)))
            goto undo;
    return 0;
undo:
    while (t->n > old)
        link_free(node[--t->n]);
    return err_set(err, "out of memory for %u nodes", n);
}

struct link *links_get(const struct links *t, unsigned number)
{
    return number < t->n ? t->node[number] : NULL;
}

static int homes_grow(struct links *t, uint32_t worker)
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

int links_place(struct links *t, uint32_t worker, unsigned node, struct err *err)
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

unsigned links_where(const struct links *t, uint32_t worker)
{
    return worker < t->n_homes ? t->home[worker] : NODE_HERE;
}

void links_forget(struct links *t, uint32_t worker)
{
    if (worker < t->n_homes)
        t->home[worker] = LINK_NOWHERE;
}
