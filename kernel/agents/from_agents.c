/* SPDX-License-Identifier: BSD-3-Clause */
/* from_agents.c - handles what arrives from agents: HELLO, and frames with messages (declared in
 * private.h). */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/agents/private.h"
#include "protocol/span_fields.h"

#define FIRST_ROUTES 2u /* the first version of the protocol that has routes */

/* In the log. what: a constant text. */
static void note_refused(struct agents *a, const struct router_message *arrival, const char *what)
{
    if (arrival->router == a->listen.remote)
        agents_zap_refused(a->listen.zap, what);
    else
        log_warn("agents", "refused on this machine: a connection that %s", what);
}

void from_agents_refused(void *agents, struct router *r, const char *why)
{
    struct agents *a = agents;

    if (r == a->listen.remote)
        agents_zap_refused(a->listen.zap, why);
}

/* ---- HELLO ---- */

/* Tells the agent why; its log shows the text. */
static void send_refuse(const struct router_message *a, unsigned version, const char *why)
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

/* The node whose agent sent this: from the ZAP user id, or this machine's for the unix socket.
 * NULL: the node's engine was stopped. */
static struct node_link *caller(struct agents *a, const struct router_message *arrival)
{
    struct node_link *link;
    unsigned node;

    if (arrival->router != a->listen.remote)
        return node_table_get(&a->nodes, NODE_HERE);
    if (sscanf(arrival->user, "%u", &node) != 1)
        return NULL;
    link = node_table_get(&a->nodes, node);
    return link && !link->removed ? link : NULL;
}

static void refuse_version(struct agents *a, const struct router_message *arrival, unsigned version)
{
    struct node_link *link = caller(a, arrival);
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
    if (!link || link->refused) {
        note_refused(a, arrival, "speaks another version of the protocol");
        if (link)
            return;
    } else {
        log_warn("agents", "%s", why);
        link->refused = arrival->router == a->listen.remote;
    }
    send_refuse(arrival, version, why);
    if (link && arrival->router == a->listen.remote && link->node.state == NODE_ASKED)
        node_failures_lose(a, link, why);
}

static void set_fd(struct node_link *link, int fd)
{
    link->fd = fd;
    meter_watch(&link->meter, fd);
}

static void attach(struct node_link *link, const struct router_message *arrival)
{
    link->router = arrival->router;
    set_fd(link, arrival->fd);
    link->identity_size = arrival->identity.n;
    memcpy(link->identity, arrival->identity.p, arrival->identity.n);
}

static int introduce(struct node_link *link, const struct router_message *arrival,
                     const struct span *m)
{
    if (link->node.number != NODE_HERE &&
        ((!link->named && m->v[F_HELLO_NODE].s.n &&
          node_link_set_name(link, m->v[F_HELLO_NODE].s) < 0) ||
         node_link_set_addresses(link, m->v[F_HELLO_ADDRESSES].s) < 0))
        return -1;
    link->node.pid = (long)m->v[F_HELLO_PID].u64;
    link->node.cores = (long)m->v[F_HELLO_CORES].u64;
    link->node.state = NODE_UP;
    attach(link, arrival);
    return link->node.number == NODE_HERE ? 0 : session_resume(&link->session, 0, NULL);
}

/* From now on only the key that HELLO names may connect. An agent that names none can't resume. */
static void pass_key_on(struct agents *a, struct node_link *link, struct slice next)
{
    if (next.n == KEY_SIZE &&
        allowed_keys_replace(&a->listen.allowed, link->key, (const unsigned char *)next.p,
                             link->node.engine, link->node.number) == 0) {
        memcpy(link->next, next.p, KEY_SIZE);
        link->resumes = true;
        return;
    }
    log_info("agents", "%s can't resume when its connection ends", link->node.name);
    allowed_keys_void(&a->listen.allowed, link->key);
}

static void tell_welcome(struct agents *a, struct node_link *link)
{
    struct span m = { .kind = SPAN_WELCOME,
                      .v[F_WELCOME_WINDOW].u64 = WINDOW,
                      .v[F_WELCOME_NUMBER].u64 = link->node.number };

    if (link->node.number != NODE_HERE) { /* this machine's agent sees the end of its stdin */
        m.v[F_WELCOME_TIMEOUT_MS].u64 = a->beat.timeout_ns / NS_PER_MS;
        m.v[F_WELCOME_RESUME_MS].u64 = node_failures_resume_ns(a, link) / NS_PER_MS;
        m.v[F_WELCOME_AGENTS].u64 = link->siblings;
    }
    peer_times_start(&link->times, clock_now(a->out.clock));
    to_agents_tell(&a->out, link, &m);
    to_agents_flush(link);
}

static void welcome(struct agents *a, struct node_link *link, const struct span *hello)
{
    log_info("link", "node %u (%s) is connected", link->node.number, link->node.name);
    if (link->node.number != NODE_HERE) /* first: what it is sent is kept if it can resume */
        pass_key_on(a, link, hello->v[F_HELLO_NEXT].s);
    tell_welcome(a, link);
    if (link->node.number == NODE_HERE)
        return;
    tree_move_node_up(&a->out, link);
    a->handler.up(a->handler.arg, link->node.number);
    agents_nodes_give_kept(a, link);
}

/* Does the connection have the one key that may resume? */
static bool has_next_key(const struct node_link *link, const struct router_message *arrival)
{
    char user[AGENTS_ZAP_USER_SIZE];

    agents_zap_user(link->node.number, link->next, user);
    return strcmp(user, arrival->user) == 0;
}

/* The agent's new connection takes the place of the old one, whose messages are dropped from now
 * on, and of that of a parent. */
static void replace_connection(struct agents *a, struct node_link *link,
                               const struct router_message *arrival)
{
    /* another one is shut: it is that of a path which has failed halfway */
    if (link->fd == arrival->fd)
        link->fd = -1;
    node_failures_cut(a, link);
    link->move = TREE_MOVE_NONE;
    link->parent = NULL;
    link->cut = false;
    link->way_lost = false;
    if (!link->engine_ended) {
        link->lost_at_ns = 0;
        link->engine_report = NULL;
        link->node.leaving = false;
    }
    attach(link, arrival);
    peer_times_start(&link->times, clock_now(a->out.clock));
}

/* Its connection ended before WELCOME had reached it: what followed is sent again, too. */
static bool says_hello_again(const struct node_link *link, const struct router_message *arrival)
{
    return link->resumes && link->node.state == NODE_UP && has_next_key(link, arrival) &&
           link->session.acked == 0 && link->session.received == 0 &&
           arrival->identity.n <= IDENTITY_MAX;
}

static void hello_again(struct agents *a, struct node_link *link,
                        const struct router_message *arrival, struct slice next)
{
    router_settle(arrival->router);
    if (next.n != KEY_SIZE ||
        allowed_keys_replace(&a->listen.allowed, link->next, (const unsigned char *)next.p,
                             link->node.engine, link->node.number) < 0) {
        note_refused(a, arrival, "says HELLO again, and names a key that was used");
        return;
    }
    memcpy(link->next, next.p, KEY_SIZE);
    replace_connection(a, link, arrival);
    log_info("agents", "%s says HELLO again", link->node.name);
    (void)!session_resume(&link->session, 0, NULL);
    tell_welcome(a, link);
}

static void hello(struct agents *a, const struct router_message *arrival, const struct span *m)
{
    struct node_link *link = caller(a, arrival);
    const bool here = link && link->node.number == NODE_HERE;

    if (m->v[F_HELLO_VERSION].u64 != SPAN_VERSION) {
        refuse_version(a, arrival, (unsigned)m->v[F_HELLO_VERSION].u64);
    } else if (!link || link->node.state == NODE_LOST) {
        note_refused(a, arrival, "says HELLO for a run that is over");
        send_refuse(arrival, SPAN_VERSION, "the kernel has no use for this agent any more");
    } else if (says_hello_again(link, arrival)) {
        hello_again(a, link, arrival, m->v[F_HELLO_NEXT].s);
    } else if (link->node.state != NODE_ASKED || link->identity_size ||
               arrival->identity.n > IDENTITY_MAX) {
        note_refused(a, arrival, "says HELLO for an agent that is here");
    } else if (here && (long)m->v[F_HELLO_PID].u64 != link->node.pid) {
        note_refused(a, arrival, "is not of the agent that this kernel started");
        send_refuse(arrival, SPAN_VERSION, "this is not the agent that the kernel started");
    } else {
        /* from now on the end of this descriptor is the end of the connection */
        router_settle(arrival->router);
        if (introduce(link, arrival, m) < 0)
            log_error("agents", "out of memory for an agent");
        else
            welcome(a, link, m);
    }
}

/* ---- RESUME ---- */

static void resume(struct agents *a, const struct router_message *arrival, const struct span *m)
{
    struct node_link *link = caller(a, arrival);
    const unsigned char *next = (const unsigned char *)m->v[F_RESUME_NEXT].s.p;
    struct span answer = { .kind = SPAN_RESUME, .v[F_RESUME_VERSION].u64 = SPAN_VERSION };
    struct err err = { "" };

    if (!link || link->node.state == NODE_LOST) {
        note_refused(a, arrival, "resumes for a node that is lost, or a run that is over");
        send_refuse(arrival, SPAN_VERSION,
                    "the kernel took this agent for gone, and goes on without it");
        return;
    }
    router_settle(arrival->router);
    if (!link->resumes || link->node.state != NODE_UP || !has_next_key(link, arrival) ||
        m->v[F_RESUME_NUMBER].u64 != link->node.number || arrival->identity.n > IDENTITY_MAX ||
        m->v[F_RESUME_NEXT].s.n != KEY_SIZE ||
        allowed_keys_replace(&a->listen.allowed, link->next, next, link->node.engine,
                             link->node.number) < 0) {
        note_refused(a, arrival, "resumes with a key that was used, or names one");
        return;
    }
    memcpy(link->next, next, KEY_SIZE);
    replace_connection(a, link, arrival);
    if (session_resume(&link->session, m->v[F_RESUME_RECEIVED].u64, &err) < 0) {
        send_refuse(arrival, SPAN_VERSION, err.text);
        node_failures_lose(a, link, err.text);
        return;
    }
    log_info("agents", "%s has resumed", link->node.name);
    answer.v[F_RESUME_NUMBER].u64 = link->node.number;
    answer.v[F_RESUME_RECEIVED].u64 = session_tell(&link->session);
    to_agents_tell(&a->out, link, &answer);
    to_agents_flush(link);
    agents_blobs_node_resumed(&a->blobs, link->node.number);
}

/* ---- bundles ---- */

/* The node that has said HELLO on this connection; NULL: none. */
static struct node_link *sender(struct agents *a, const struct router_message *arrival)
{
    struct node_link *link = caller(a, arrival);

    if (link && link->identity_size &&
        slice_equal(slice_of(link->identity, link->identity_size), arrival->identity))
        return link;
    return NULL;
}

static bool is_whole(struct slice bundle)
{
    struct bundle_entry e;

    while (bundle_next(&bundle, &e))
        ;
    return bundle.n == 0;
}

/* An answer about a move to a parent? */
static bool take_move(struct agents *a, struct node_link *link, const struct span *m)
{
    const enum tree_move_outcome outcome = tree_move_message(&a->out, link, m);

    if (outcome == TREE_MOVE_CUT_OFF && link->resumes) {
        node_failures_cut(a, link);
        link->voided_parent = ROUTE_KERNEL;
    } else if (outcome == TREE_MOVE_CUT_OFF)
        node_failures_lose(
            a, link, "the agent by way of which it was to be reached is gone: run the cell again");
    return outcome != TREE_MOVE_NOT_MINE;
}

/* An agent that acknowledges a message that it never got is lost. */
static void take_beat(struct agents *a, struct node_link *link, const struct span *m)
{
    struct err err = { "" };

    if (link->resumes && !link->cut &&
        session_acked(&link->session, m->v[F_BEAT_RECEIVED].u64, &err) < 0)
        node_failures_lose(a, link, err.text);
}

/* What is not for the handler. */
static bool take_own(struct agents *a, struct node_link *link, uint32_t worker,
                     const struct span *m)
{
    struct err err = { "" };

    if (worker != SPAN_WORKER_NONE) {
        if (m->blob && m->blob_size &&
            blob_schedule_arrived(a->blobs.schedule, m->blob, m->blob_size, link->node.number,
                                  &err) < 0)
            log_error("agents", "a blob from %s: %s", link->node.name, err.text);
        return false;
    }
    if (m->kind == SPAN_BEAT)
        take_beat(a, link, m);
    else if (m->kind == SPAN_QUIT)
        node_failures_ends(a, link);
    return m->kind == SPAN_BEAT || m->kind == SPAN_QUIT || take_move(a, link, m) ||
           blob_schedule_message(a->blobs.schedule, link->node.number, m);
}

/* true: the sender is responsible for this node and worker, and both are alive. Usually false only
 * for late messages. */
static bool is_believed(const struct agents *a, const struct node_link *from,
                        const struct node_link *link, uint32_t worker)
{
    return link && node_link_is_under(link, from) && link->node.state == NODE_UP &&
           (worker == SPAN_WORKER_NONE || node_table_where(&a->nodes, worker) == link->node.number);
}

/* true: the message is not just late; the sender claims a node or worker that is not its own. */
static bool is_foreign(const struct agents *a, const struct node_link *from,
                       const struct node_link *link, uint32_t worker)
{
    const unsigned home = node_table_where(&a->nodes, worker);

    if (!link)
        return true;
    if (link->node.state == NODE_LOST)
        return false;
    return !node_link_is_under(link, from) ||
           (worker != SPAN_WORKER_NONE && home != link->node.number && home != NODE_NOWHERE);
}

static bool is_for_kernel(const struct span *m)
{
    return span_info((unsigned)m->kind)->ways & (SPAN_AGENT_TO_KERNEL | SPAN_WORKER_TO_KERNEL);
}

static void take_message(struct agents *a, const struct router_message *arrival,
                         struct node_link *link, const struct bundle_entry *e)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, e->message.p, e->message.n, &err) < 0) {
        note_refused(a, arrival, "sends messages that can't be read");
        log_debug("agents", "a message from %s is refused: %s", link->node.name, err.text);
        return;
    }
    if (!is_for_kernel(&m)) {
        note_refused(a, arrival, "sends messages that are not for the kernel");
        span_release(&m);
        return;
    }
    peer_times_heard(&link->times, clock_now(a->out.clock));
    if (m.kind == SPAN_CHUNK && link->node.number == NODE_HERE && m.v[F_CHUNK_DATA].s.n == 0)
        agents_blobs_begin_local(&a->blobs, &m);
    else if (!take_own(a, link, e->worker, &m))
        a->handler.message(a->handler.arg, link->node.number, e->worker, &m);
    (void)agents_blobs_go_on(&a->blobs);
    span_release(&m);
}

/* A late message of a lost node. Its agent is told once; otherwise it would run until its own
 * timeout. false: not such a message. */
static bool is_late(struct agents *a, const struct router_message *arrival)
{
    struct node_link *link = caller(a, arrival);

    if (arrival->router != a->listen.remote || (link && link->node.state != NODE_LOST))
        return false;
    if (link && !link->refused) {
        log_warn("agents", "%s speaks again, and is not taken back", link->node.name);
        send_refuse(arrival, SPAN_VERSION,
                    "the kernel took this agent for gone, and goes on without it");
    }
    if (link)
        link->refused = true;
    return true;
}

/* A message from a connection without a node: only HELLO is taken. */
static void take_first(struct agents *a, const struct router_message *arrival,
                       const struct bundle_entry *e)
{
    const unsigned version = span_version(e->message.p, e->message.n);
    struct err err = { "" };
    struct span m;

    if (e->message.n >= SPAN_HEADER_SIZE && version != SPAN_VERSION &&
        (e->message.p[1] == SPAN_HELLO || e->message.p[1] == SPAN_RESUME)) {
        refuse_version(a, arrival, version);
        return;
    }
    if (span_decode(&m, e->message.p, e->message.n, &err) < 0) {
        note_refused(a, arrival, "sends what is no message");
        return;
    }
    if (m.kind == SPAN_HELLO)
        hello(a, arrival, &m);
    else if (m.kind == SPAN_RESUME && arrival->router == a->listen.remote)
        resume(a, arrival, &m);
    else
        note_refused(a, arrival, "doesn't begin with HELLO");
    span_release(&m);
}

/* Counts the message, whatever becomes of it: its sender does, too. */
static void count(struct agents *a, const struct node_link *from, struct node_link *link,
                  struct slice message)
{
    if (link && link->resumes && link->node.state == NODE_UP && node_link_is_under(link, from) &&
        span_is_numbered(message.p, message.n) && session_received(&link->session, message.n) &&
        !link->cut)
        to_agents_beat(&a->out, link);
}

/* Does it come from an agent that knows no number yet? */
static bool is_first(struct slice bundle)
{
    struct bundle_entry e;

    return bundle_next(&bundle, &e) && e.node == ROUTE_KERNEL;
}

/* A HELLO of version 1 has two frames. */
static bool is_old_hello(const struct router_message *arrival)
{
    return arrival->frames == 2 && arrival->last.n >= SPAN_HEADER_SIZE && arrival->last.p[0] == 1 &&
           arrival->last.p[1] == SPAN_HELLO;
}

/* Its first message may have left open which descriptor the connection has. */
static void learn_fd(struct node_link *link, const struct router_message *arrival)
{
    if (link->fd >= 0 || arrival->fd < 0 || link->cut || link->move != TREE_MOVE_NONE)
        return;
    router_settle(arrival->router);
    if (arrival->fd >= 0)
        set_fd(link, arrival->fd);
}

void from_agents_received(void *agents, const struct router_message *arrival)
{
    struct agents *a = agents;
    struct node_link *from = sender(a, arrival);
    struct slice bundle = arrival->first;
    struct bundle_entry e;

    if (from)
        learn_fd(from, arrival);
    if (!from && is_old_hello(arrival)) {
        refuse_version(a, arrival, 1);
        return;
    }
    if (arrival->frames != 1 || !is_whole(bundle)) {
        note_refused(a, arrival, "sends what is no bundle");
        return;
    }
    if (!from && !is_first(bundle) && is_late(a, arrival))
        return;
    while (bundle_next(&bundle, &e)) {
        struct node_link *link = node_table_get(&a->nodes, e.node);

        if (from)
            count(a, from, link, e.message);
        if (!from)
            take_first(a, arrival, &e);
        else if (e.node == ROUTE_KERNEL)
            note_refused(a, arrival, "says HELLO again");
        else if (is_believed(a, from, link, e.worker))
            take_message(a, arrival, link, &e);
        else if (is_foreign(a, from, link, e.worker))
            note_refused(a, arrival, "speaks for a node or a worker that is not its own");
        else
            log_debug("agents", "dropped: %zu bytes of node %u, worker %u", e.message.n, e.node,
                      e.worker);
    }
}
