/* intake.c - what arrives: the first word of an agent, bundles of messages, and what strangers send. Nothing is believed of a
 * connection but what it may say: who it is comes from ZAP (or from the private folder), and it speaks for its own node and
 * for those below. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/agents/room.h"

/* ---- HELLO ---- */

/* In words, so that the agent's log says which side is to be updated. */
static void refuse(const struct arrival *a, unsigned version, const char *why)
{
    struct span m = { .kind = SPAN_REFUSE, .v[F_REFUSE_TEXT].s = slice_text(why) };
    struct buf route = BUF_INIT, bytes = BUF_INIT;
    struct err err = { "" };
    zmq_msg_t body;

    log_warn("agents", "%s", why);
    if (route_add(&route, ROUTE_KERNEL, NULL, 0) == 0 && span_encode_as(version, &m, &bytes, &err) == 0 &&
        zmq_msg_init_size(&body, bytes.n) == 0) {
        memcpy(zmq_msg_data(&body), bytes.p, bytes.n);
        if (router_send(a->router, a->identity, buf_slice(&route), &body, &err) < 0)
            log_info("agents", "%s", err.text);
        zmq_msg_close(&body);
    }
    buf_release(&route);
    buf_release(&bytes);
}

static void refuse_version(struct agents *a, const struct arrival *arrival, unsigned version)
{
    char why[256];

    (void)a;
    if (version < SPAN_VERSION)
        snprintf(why, sizeof why, "the agent's cellspan is older than the kernel's (protocol %u, the kernel has %u): "
                 "update cellspan on the agent's side", version, SPAN_VERSION);
    else
        snprintf(why, sizeof why, "the kernel's cellspan is older than the agent's (protocol %u, the agent has %u): "
                 "update cellspan on the kernel's side", SPAN_VERSION, version);
    refuse(arrival, version, why);
}

static int link_introduce(struct link *l, const struct arrival *arrival, const struct span *m)
{
    if (l->number != NODE_HERE && (link_name(l, m->v[F_HELLO_NODE].s) < 0 ||
                                   link_addresses(l, m->v[F_HELLO_ADDRESSES].s) < 0))
        return -1;
    l->info.pid = (long)m->v[F_HELLO_PID].u64;
    l->info.cores = (long)m->v[F_HELLO_CORES].u64;
    l->info.state = NODE_UP;
    l->router = arrival->router;
    l->fd = arrival->fd;
    l->identity_size = arrival->identity.n;
    memcpy(l->identity, arrival->identity.p, arrival->identity.n);
    return 0;
}

static void welcome(struct agents *a, struct link *l)
{
    struct span m = { .kind = SPAN_WELCOME, .v[F_WELCOME_WINDOW].u64 = WINDOW, .v[F_WELCOME_NUMBER].u64 = l->number };
    struct err err = { "" };

    if (l->number != NODE_HERE)
        m.v[F_WELCOME_TIMEOUT_MS].u64 = a->beat.timeout_ns / NS_PER_MS;
    pulse_start(&l->pulse, agents_now(a));
    if (agents_tell(a, l, &m, &err) < 0)
        log_error("agents", "%s", err.text);
    agents_flush(l);
}

static void hello(struct agents *a, const struct arrival *arrival, const struct span *m)
{
    struct link *l = links_get(&a->links, NODE_HERE);
    char why[256];

    if (m->v[F_HELLO_VERSION].u64 != SPAN_VERSION) {
        refuse_version(a, arrival, (unsigned)m->v[F_HELLO_VERSION].u64);
        return;
    }
    if (l->identity_size || (pid_t)m->v[F_HELLO_PID].u64 != a->local.pid || arrival->identity.n > IDENTITY_MAX) {
        snprintf(why, sizeof why, "process %lu is not the agent that this kernel started",
                 (unsigned long)m->v[F_HELLO_PID].u64);
        refuse(arrival, SPAN_VERSION, why);
        return;
    }
    if (link_introduce(l, arrival, m) < 0)
        log_error("agents", "out of memory for the agent on %s", l->info.name);
    else
        welcome(a, l);
}

/* ---- bundles ---- */

static struct link *sender(struct agents *a, const struct arrival *arrival)
{
    struct link *l = links_get(&a->links, NODE_HERE);

    if (l && l->identity_size && slice_equal(slice_of(l->identity, l->identity_size), arrival->identity))
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

static void take_entry(struct agents *a, const struct arrival *arrival, struct link *from, const struct bundle_entry *e)
{
    struct link *l = links_get(&a->links, e->node);
    struct err err = { "" };
    struct span m;

    if (e->node != ROUTE_KERNEL && (!l || !from || !link_is_under(l, from) || l->info.state != NODE_UP ||
                                    (e->worker && links_where(&a->links, e->worker) != l->number))) {
        log_debug("agents", "a message of node %u, worker %u is dropped: it is not there", e->node, e->worker);
        return;
    }
    if (span_decode(&m, e->message.p, e->message.n, &err) < 0) {
        log_warn("agents", "a message is refused: %s", err.text);
        return;
    }
    if (m.kind == SPAN_HELLO)
        hello(a, arrival, &m);
    else if (l) {
        l->pulse.heard = agents_now(a);
        a->handler.message(a->handler.arg, l->number, e->worker, &m);
    }
    span_release(&m);
}

void intake_arrived(void *agents, const struct arrival *arrival)
{
    struct agents *a = agents;
    struct link *from = sender(a, arrival);
    struct slice bundle = arrival->first;
    struct bundle_entry e;

    if (arrival->frames != 1 || !is_whole(bundle)) {
        log_warn("agents", "%u frames of %zu bytes are refused", arrival->frames, bundle.n);
        return;
    }
    while (bundle_next(&bundle, &e))
        take_entry(a, arrival, from, &e);
}

void intake_refused(void *agents, struct router *r, const char *why)
{
    (void)agents, (void)r;
    log_warn("agents", "a connection is refused: it %s", why);
}
