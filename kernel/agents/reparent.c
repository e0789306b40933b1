/* reparent.c - past TREE_FAN nodes of a run an agent gives up its connection to the kernel and is
 * reached by way of another one: the parent is told to OPEN, the child to DIAL. Nothing is
 * overtaken: from DIAL until DIALED what is for the child waits, and the child holds back what
 * follows DIALED until something comes by way of the parent (protocol/README.md). A move that fails
 * leaves all as it was. */
#include <string.h>

#include "base/log.h"
#include "kernel/blobs/direct_links.h"
#include "kernel/agents/room.h"
#include "kernel/agents/tree.h"

static struct node *parent_of(const struct agents *a, const struct node *l)
{
    const struct engine_run *run = engine_run_get(a, l->info.engine);
    const unsigned index = run ? tree_parent(l->info.index) : TREE_NONE;

    return index == TREE_NONE ? NULL : node_table_get(&a->nodes, run->first + index);
}

/* Its k-th child, as far as there are any: NULL behind the last. */
static struct node *child_of(const struct agents *a, const struct node *l, unsigned k)
{
    const struct engine_run *run = engine_run_get(a, l->info.engine);
    const unsigned index = run ? tree_child(l->info.index, k) : TREE_NONE;

    return run && index < run->n ? node_table_get(&a->nodes, run->first + index) : NULL;
}

/* Is it where it is going to stay? */
static bool is_settled(const struct node *l)
{
    return l->info.state == NODE_UP &&
           (l->reparent == REPARENT_NONE || l->reparent == REPARENT_DONE);
}

static void tell_open(struct agents *a, const struct node *to, const struct node *child,
                      struct slice key)
{
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = child->number };

    m.v[F_OPEN_KEY].s = key;
    agents_tell(a, to, &m);
}

static struct slice key_of(const struct node *l)
{
    return slice_of(l->key, KEY_SIZE);
}

static void begin(struct agents *a, struct node *child, struct node *parent)
{
    child->reparent = REPARENT_OPENING;
    tell_open(a, parent, child, key_of(child));
}

/* It won't come: the parent, and those above, were told that it would. */
static void take_back(struct agents *a, const struct node *child, const struct node *parent)
{
    for (; parent; parent = parent->reparent == REPARENT_DONE ? parent->parent : NULL)
        if (parent->info.state == NODE_UP)
            tell_open(a, parent, child, slice_text(""));
}

static void settled(struct agents *a, struct node *l);

/* It stays where it is. */
static void stay(struct agents *a, struct node *l, const char *why, struct slice text)
{
    log_info("agents", "%s keeps its own connection: %s%.*s", l->info.name, why, SLICE_ARG(text));
    l->reparent = REPARENT_NONE;
    l->parent = NULL;
    agents_flush(l);
    settled(a, l);
}

/* Children that are up come now. */
static void settled(struct agents *a, struct node *l)
{
    struct node *child;

    for (unsigned k = 0; (child = child_of(a, l, k)); k++)
        if (child->reparent == REPARENT_WAITS)
            begin(a, child, l);
}

void reparent_up(struct agents *a, struct node *l)
{
    struct node *parent = parent_of(a, l);

    if (parent && is_settled(parent))
        begin(a, l, parent);
    else if (parent && parent->info.state != NODE_LOST)
        l->reparent = REPARENT_WAITS;
    else
        settled(a, l);
}

/* Those above the parent learn by way of whom the child will be reached. */
static void tell_above(struct agents *a, const struct node *child, const struct node *parent)
{
    for (; parent->reparent == REPARENT_DONE && parent->parent; parent = parent->parent)
        tell_open(a, parent->parent, child, key_of(parent));
}

static void dial(struct agents *a, struct node *child, struct node *parent, unsigned port)
{
    struct span m = { .kind = SPAN_DIAL, .v[F_DIAL_NODE].u64 = parent->number };
    struct buf endpoints = BUF_INIT;

    if (direct_link_endpoints(slice_text(parent->addresses ? parent->addresses : ""), port,
                              &endpoints) < 0 ||
        !endpoints.n) {
        take_back(a, child, parent);
        stay(a, child, "no address is known of ", slice_text(parent->info.name));
        buf_release(&endpoints);
        return;
    }
    m.v[F_DIAL_ENDPOINTS].s = buf_slice(&endpoints);
    m.v[F_DIAL_KEY].s = slice_of(parent->key, KEY_SIZE);
    tell_above(a, child, parent);
    agents_tell(a, child, &m);
    child->parent = parent;
    child->reparent = REPARENT_DIALING;
    pulse_start(&child->pulse, agents_now(a));
    buf_release(&endpoints);
}

static bool on_opened(struct agents *a, struct node *from, const struct span *m)
{
    const uint64_t number = m->v[F_OPENED_NODE].u64, port = m->v[F_OPENED_PORT].u64;
    struct node *child = number <= ROUTE_NODES_MAX ? node_table_get(&a->nodes, (unsigned)number)
                                                   : NULL;

    if (!child || child->reparent != REPARENT_OPENING || parent_of(a, child) != from)
        return false;
    if (m->v[F_OPENED_ERROR].s.n || port == 0 || port > 65535)
        stay(a, child, "its parent has no port for it: ", m->v[F_OPENED_ERROR].s);
    else
        dial(a, child, from, (unsigned)port);
    return true;
}

static bool on_dialed(struct agents *a, struct node *child, const struct span *m)
{
    const struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_SENT].u64 = agents_now(a) };

    if (child->reparent != REPARENT_DIALING || m->v[F_DIALED_NODE].u64 != child->parent->number)
        return false;
    if (m->v[F_DIALED_ERROR].s.n) {
        take_back(a, child, child->parent);
        stay(a, child, "", m->v[F_DIALED_ERROR].s);
    } else if (child->parent->info.state != NODE_UP) {
        node_failures_lose(a, child, "the agent by way of which it was to be reached is gone");
    } else {
        child->reparent = REPARENT_DONE;
        child->fd = -1;
        log_info("agents", "%s is reached by way of %s", child->info.name,
                 child->parent->info.name);
        agents_tell(a, child, &beat); /* at this it lets go of its connection to us */
        agents_flush(child);
        settled(a, child);
    }
    return true;
}

bool reparent_message(struct agents *a, struct node *from, const struct span *m)
{
    if (m->kind == SPAN_OPENED)
        return on_opened(a, from, m);
    return m->kind == SPAN_DIALED && on_dialed(a, from, m);
}

void reparent_cancel(struct agents *a, const struct node *l)
{
    if (l->reparent == REPARENT_OPENING)
        take_back(a, l, parent_of(a, l));
    else if (l->reparent == REPARENT_DIALING)
        take_back(a, l, l->parent);
}

/* One that dials tells us how that went. */
void reparent_parent_lost(struct agents *a, const struct node *l)
{
    struct node *child;

    for (unsigned k = 0; (child = child_of(a, l, k)); k++)
        if (child->reparent == REPARENT_WAITS || child->reparent == REPARENT_OPENING)
            stay(a, child, "its parent is gone", slice_text(""));
}
