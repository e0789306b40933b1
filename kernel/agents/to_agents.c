/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/agents/to_agents.h"

#include <stdlib.h>

#include "base/log.h"
#include "kernel/agents/router.h"
#include "protocol/span_fields.h"

void to_agents_release(struct to_agents *t)
{
    fan_release(&t->fan);
    free(t->list);
}

static void body_free(void *p, void *hint)
{
    (void)hint;
    free(p);
}

/* All connections share the bytes of one encoding. */
int to_agents_encode(const struct span *m, zmq_msg_t *body, struct err *err)
{
    struct buf bytes = BUF_INIT;
    const int rc = span_encode(m, &bytes, err);
    const size_t n = bytes.n;
    char *p = rc == 0 ? buf_take(&bytes) : NULL;

    buf_release(&bytes);
    if (rc < 0)
        return -1;
    if (p && zmq_msg_init_data(body, p, n, body_free, NULL) == 0)
        return 0;
    free(p);
    return err_set(err, "out of memory");
}

/* What an agent was sent that can't resume need not be kept. */
static void forget_unless_it_resumes(struct node_link *link)
{
    if (!link->resumes && link->session.connected)
        (void)!session_acked(&link->session, link->session.handed, NULL);
}

static void set_numbered(struct to_agents *t, zmq_msg_t *body)
{
    t->fan.numbered = span_is_numbered(zmq_msg_data(body), zmq_msg_size(body));
}

/* Sends on each connection of the fan. -1: none could be reached. */
static int fan_out(struct to_agents *t, zmq_msg_t *body, struct err *err)
{
    const uint64_t now = clock_now(t->clock);
    size_t failed = 0;

    for (size_t i = 0; i < t->fan.n_top; i++) {
        struct node_link *link = t->fan.top[i];
        struct err why = { "" };

        if (router_send(link->router, slice_of(link->identity, link->identity_size),
                        buf_slice(&link->fan.route), body, &why) == 0 ||
            link->resumes) /* then it is kept */
            continue;
        failed++;
        err_set(err, "the agent on %s can't be reached: %s", link->node.name, why.text);
    }
    for (size_t i = 0; i < t->fan.n_touched; i++) {
        t->fan.touched[i]->times.sent = now;
        if (t->fan.numbered)
            to_agents_flush(t->fan.touched[i]); /* what a failure has left */
    }
    if (failed && failed == t->fan.n_top)
        return -1;
    if (t->fan.n_touched == 0 && t->fan.gone)
        return err_set(err, "the agent that it is for is gone");
    return 0;
}

int to_agents_body(struct to_agents *t, const unsigned *nodes, size_t n, zmq_msg_t *body,
                   struct err *err)
{
    int rc;

    set_numbered(t, body);
    rc = fan_nodes(&t->fan, nodes, n, body) < 0 ? err_set(err, "out of memory")
                                                : fan_out(t, body, err);
    zmq_msg_close(body);
    return rc;
}

int to_agents_workers(struct to_agents *t, const uint32_t *workers, size_t n, const struct span *m,
                      struct err *err)
{
    zmq_msg_t body;
    int rc;

    if (to_agents_encode(m, &body, err) < 0)
        return -1;
    set_numbered(t, &body);
    rc = fan_workers(&t->fan, workers, n, &body) < 0 ? err_set(err, "out of memory")
                                                     : fan_out(t, &body, err);
    zmq_msg_close(&body);
    return rc;
}

int to_agents_nodes(struct to_agents *t, const unsigned *nodes, size_t n, const struct span *m,
                    struct err *err)
{
    zmq_msg_t body;

    return to_agents_encode(m, &body, err) < 0 ? -1 : to_agents_body(t, nodes, n, &body, err);
}

void to_agents_tell(struct to_agents *t, const struct node_link *link, const struct span *m)
{
    struct err err = { "" };

    if (to_agents_nodes(t, &link->node.number, 1, m, &err) < 0)
        log_warn("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
}

void to_agents_beat(struct to_agents *t, struct node_link *link)
{
    const struct span m = { .kind = SPAN_BEAT,
                            .v[F_BEAT_SENT].u64 = clock_now(t->clock),
                            .v[F_BEAT_RECEIVED].u64 = session_tell(&link->session) };

    to_agents_tell(t, link, &m);
}

unsigned *to_agents_list(struct to_agents *t)
{
    unsigned *list;

    if (t->list_room >= t->fan.nodes->n)
        return t->list;
    if (!(list = realloc(t->list, 2 * t->fan.nodes->n * sizeof *list)))
        return NULL;
    t->list = list;
    t->list_room = 2 * t->fan.nodes->n;
    return list;
}

static void send_one(struct node_link *link, struct waiting_message *message)
{
    const struct node_link *top = node_link_top(link);
    struct err err = { "" };

    if (router_send(top->router, slice_of(top->identity, top->identity_size),
                    buf_slice(&message->route), &message->body, &err) < 0)
        log_warn("agents", "the agent on %s can't be reached: %s", link->node.name, err.text);
}

void to_agents_flush(struct node_link *link)
{
    struct waiting_message *message;

    while ((message = node_link_next(link)))
        send_one(link, message);
    forget_unless_it_resumes(link);
    while (node_link_is_ready(link) && (message = node_link_take(link))) {
        send_one(link, message);
        waiting_message_free(message);
    }
}
