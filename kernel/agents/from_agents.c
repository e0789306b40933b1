/* from_agents.c - what arrives: the first word of an agent, bundles of messages, and what strangers
 * send. Nothing is believed of a connection but what it may say: who it is comes from ZAP (or from
 * the private folder), and it speaks for its own node and for those below. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/agents/room.h"

#define FIRST_ROUTES 2u /* the version since which there are routes */

/* what: a constant text. */
static void refused(struct agents *a, const struct router_message *arrival, const char *what)
{
    if (arrival->router == a->wire)
        agents_zap_refused(a->zap, what);
    else
        log_warn("agents", "refused on this machine: a connection that %s", what);
}

void from_agents_refused(void *agents, struct router *r, const char *why)
{
    struct agents *a = agents;

    if (r == a->wire)
        agents_zap_refused(a->zap, why);
}

/* ---- HELLO ---- */

/* In words, which the agent's log shows: which side is to be updated. */
static void refuse(const struct router_message *a, unsigned version, const char *why)
{
    struct span m = { .kind = SPAN_REFUSE, .v[F_REFUSE_TEXT].s = slice_text(why) };
    struct buf route = BUF_INIT, bytes = BUF_INIT;
    struct err err = { "" };
    zmq_msg_t body;

    if ((version < FIRST_ROUTES || route_add(&route, ROUTE_KERNEL, NULL, 0) == 0) &&
        span_encode_as(version, &m, &bytes, &err) == 0 && zmq_msg_init_size(&body, bytes.n) == 0) {
        memcpy(zmq_msg_data(&body), bytes.p, bytes.n);
        if (router_send(a->router, a->identity, buf_slice(&route), &body, &err) < 0)
            log_info("agents", "%s", err.text);
        zmq_msg_close(&body);
    }
    buf_release(&route);
    buf_release(&bytes);
}

/* Who says HELLO: by ZAP's word, or by the folder that it came through. NULL: nobody that we asked
 * for. */
static struct node *caller(struct agents *a, const struct router_message *arrival)
{
    return arrival->router == a->wire ? engine_nodes_find(a, arrival->user)
                                      : node_table_get(&a->nodes, NODE_HERE);
}

static void refuse_version(struct agents *a, const struct router_message *arrival, unsigned version)
{
    struct node *l = caller(a, arrival);
    char why[256];

    if (version < SPAN_VERSION)
        snprintf(
            why, sizeof why,
            "the agent's cellspan is older than the kernel's (it speaks version %u of the protocol, "
            "the kernel %u): update cellspan where the agent runs",
            version, SPAN_VERSION);
    else
        snprintf(
            why, sizeof why,
            "the kernel's cellspan is older than the agent's (it speaks version %u of the protocol, "
            "the agent %u): update cellspan where the notebook runs",
            SPAN_VERSION, version);
    if (!l || l->told) {
        refused(a, arrival, "speaks another version of the protocol");
        if (l)
            return;
    } else {
        log_warn("agents", "%s", why);
        l->told = arrival->router == a->wire;
    }
    refuse(arrival, version, why);
    if (l && arrival->router == a->wire && l->info.state == NODE_ASKED)
        node_failures_lose(a, l, why);
}

static int introduce(struct node *l, const struct router_message *arrival, const struct span *m)
{
    if (l->number != NODE_HERE &&
        ((!l->named && m->v[F_HELLO_NODE].s.n && node_set_name(l, m->v[F_HELLO_NODE].s) < 0) ||
         node_set_addresses(l, m->v[F_HELLO_ADDRESSES].s) < 0))
        return -1;
    l->info.pid = (long)m->v[F_HELLO_PID].u64;
    l->info.cores = (long)m->v[F_HELLO_CORES].u64;
    l->info.state = NODE_UP;
    l->router = arrival->router;
    l->fd = arrival->fd;
    meter_watch(&l->meter, l->fd);
    l->identity_size = arrival->identity.n;
    memcpy(l->identity, arrival->identity.p, arrival->identity.n);
    return 0;
}

static void welcome(struct agents *a, struct node *l)
{
    struct span m = { .kind = SPAN_WELCOME,
                      .v[F_WELCOME_WINDOW].u64 = WINDOW,
                      .v[F_WELCOME_NUMBER].u64 = l->number };

    if (l->number != NODE_HERE) /* the end of a pipe tells our own agent */
        m.v[F_WELCOME_TIMEOUT_MS].u64 = a->beat.timeout_ns / NS_PER_MS;
    pulse_start(&l->pulse, agents_now(a));
    agents_tell(a, l, &m);
    agents_flush(l);
    if (l->number == NODE_HERE)
        return;
    engine_nodes_up(a, l);
    reparent_up(a, l);
    a->handler.up(a->handler.arg, l->number);
}

static void hello(struct agents *a, const struct router_message *arrival, const struct span *m)
{
    struct node *l = caller(a, arrival);
    const bool here = l && l->number == NODE_HERE;

    if (m->v[F_HELLO_VERSION].u64 != SPAN_VERSION) {
        refuse_version(a, arrival, (unsigned)m->v[F_HELLO_VERSION].u64);
    } else if (!l || l->info.state == NODE_LOST) {
        refused(a, arrival, "says HELLO for a run that is over");
        refuse(arrival, SPAN_VERSION, "the kernel has no use for this agent any more");
    } else if (l->identity_size || arrival->identity.n > IDENTITY_MAX) {
        refused(a, arrival, "says HELLO for an agent that is here");
    } else if (here && (pid_t)m->v[F_HELLO_PID].u64 != a->local.pid) {
        refused(a, arrival, "is not of the agent that this kernel started");
        refuse(arrival, SPAN_VERSION, "this is not the agent that the kernel started");
    } else {
        /* from here on, the end of its fd's connection is its end */
        router_settle(arrival->router);
        if (introduce(l, arrival, m) < 0)
            log_error("agents", "out of memory for an agent");
        else
            welcome(a, l);
    }
}

/* ---- bundles ---- */

/* Whose connection it is; NULL: nobody's who has said HELLO. */
static struct node *sender(struct agents *a, const struct router_message *arrival)
{
    struct node *l = caller(a, arrival);

    if (l && l->identity_size &&
        slice_equal(slice_of(l->identity, l->identity_size), arrival->identity))
        return l;
    return NULL;
}

static bool is_whole(struct slice bundle)
{
    struct bundle_entry e;

    while (bundle_next(&bundle, &e))
        ;
    return bundle.n == 0;
}

/* What this room itself deals with. */
static bool take_own(struct agents *a, struct node *l, uint32_t worker, const struct span *m)
{
    struct err err = { "" };

    if (worker != SPAN_WORKER_NONE) {
        if (m->blob && m->blob_size &&
            blob_schedule_arrived(a->blobs, m->blob, m->blob_size, l->number, &err) < 0)
            log_error("agents", "a blob from %s: %s", l->info.name, err.text);
        return false;
    }
    return m->kind == SPAN_BEAT || reparent_message(a, l, m) ||
           blob_schedule_message(a->blobs, l->number, m);
}

/* Not what anybody else is told of: late words of the dead, mostly. */
static bool is_believed(const struct agents *a, const struct node *from, const struct node *l,
                        uint32_t worker)
{
    return l && node_is_under(l, from) && l->info.state == NODE_UP &&
           (worker == SPAN_WORKER_NONE || node_table_where(&a->nodes, worker) == l->number);
}

/* What can't be late words either: somebody speaks for others. */
static bool is_foreign(const struct agents *a, const struct node *from, const struct node *l,
                       uint32_t worker)
{
    const unsigned home = node_table_where(&a->nodes, worker);

    if (!l)
        return true;
    if (l->info.state == NODE_LOST)
        return false;
    return !node_is_under(l, from) ||
           (worker != SPAN_WORKER_NONE && home != l->number && home != NODE_NOWHERE);
}

/* This machine's agent leaves a blob to us. If it can't be given, that is as if the agent had said
 * so. */
static void begin_local_blob(struct agents *a, const struct span *chunk)
{
    struct span held = { .kind = SPAN_HELD, .blob = chunk->blob, .blob_size = chunk->blob_size };
    struct err err = { "" };

    if (local_blobs_begin(&a->local_blobs, a->local.in, chunk, &err) == 0)
        return;
    held.v[F_HELD_ERROR].s = slice_text(err.text);
    (void)blob_schedule_message(a->blobs, NODE_HERE, &held);
}

static void take_message(struct agents *a, const struct router_message *arrival, struct node *l,
                         const struct bundle_entry *e)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, e->message.p, e->message.n, &err) < 0) {
        refused(a, arrival, "sends messages that can't be read");
        log_debug("agents", "a message from %s is refused: %s", l->info.name, err.text);
        return;
    }
    l->pulse.heard = agents_now(a);
    if (m.kind == SPAN_CHUNK && l->number == NODE_HERE && m.v[F_CHUNK_DATA].s.n == 0)
        begin_local_blob(a, &m);
    else if (!take_own(a, l, e->worker, &m))
        a->handler.message(a->handler.arg, l->number, e->worker, &m);
    (void)agents_blobs_go_on(a);
    span_release(&m);
}

/* Late words of one that is not taken back: it is told so once, lest it wait for its own timeout.
 * false: no such one. */
static bool is_late(struct agents *a, const struct router_message *arrival)
{
    struct node *l = caller(a, arrival);

    if (arrival->router != a->wire || (l && l->info.state != NODE_LOST))
        return false;
    if (l && !l->told) {
        log_warn("agents", "%s speaks again, and is not taken back", l->info.name);
        refuse(arrival, SPAN_VERSION,
               "the kernel took this agent for gone, and goes on without it");
    }
    if (l)
        l->told = true;
    return true;
}

/* An entry from one who has no number yet: HELLO, or nothing that concerns us. */
static void take_first(struct agents *a, const struct router_message *arrival,
                       const struct bundle_entry *e)
{
    const unsigned version = span_version(e->message.p, e->message.n);
    struct err err = { "" };
    struct span m;

    if (e->message.n >= SPAN_HEADER_SIZE && version != SPAN_VERSION &&
        e->message.p[1] == SPAN_HELLO) {
        refuse_version(a, arrival, version);
        return;
    }
    if (span_decode(&m, e->message.p, e->message.n, &err) < 0) {
        refused(a, arrival, "sends what is no message");
        return;
    }
    if (m.kind == SPAN_HELLO)
        hello(a, arrival, &m);
    else
        refused(a, arrival, "doesn't begin with HELLO");
    span_release(&m);
}

/* Is it from one that has no number yet? */
static bool is_first(struct slice bundle)
{
    struct bundle_entry e;

    return bundle_next(&bundle, &e) && e.node == ROUTE_KERNEL;
}

/* In version 1 a message had two frames. */
static bool is_old_hello(const struct router_message *arrival)
{
    return arrival->frames == 2 && arrival->last.n >= SPAN_HEADER_SIZE && arrival->last.p[0] == 1 &&
           arrival->last.p[1] == SPAN_HELLO;
}

void from_agents_received(void *agents, const struct router_message *arrival)
{
    struct agents *a = agents;
    struct node *from = sender(a, arrival);
    struct slice bundle = arrival->first;
    struct bundle_entry e;

    if (!from && is_old_hello(arrival)) {
        refuse_version(a, arrival, 1);
        return;
    }
    if (arrival->frames != 1 || !is_whole(bundle)) {
        refused(a, arrival, "sends what is no bundle");
        return;
    }
    if (!from && !is_first(bundle) && is_late(a, arrival))
        return;
    while (bundle_next(&bundle, &e)) {
        struct node *l = node_table_get(&a->nodes, e.node);

        if (!from)
            take_first(a, arrival, &e);
        else if (e.node == ROUTE_KERNEL)
            refused(a, arrival, "says HELLO again");
        else if (is_believed(a, from, l, e.worker))
            take_message(a, arrival, l, &e);
        else if (is_foreign(a, from, l, e.worker))
            refused(a, arrival, "speaks for a node or a worker that is not its own");
        else
            log_debug("agents", "dropped: %zu bytes of node %u, worker %u", e.message.n, e.node,
                      e.worker);
    }
}
