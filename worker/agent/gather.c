/* gather.c - see gather.h. What is on its way is bounded by the workers' credit, so no high-water
 * mark drops any of it. */
#include "worker/agent/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span.h"
#include "worker/agent/socket.h"

#define BUNDLE_MAX 262144u /* bytes of gathered entries at which they leave within the turn */
#define ENTRY_HEAD GATHER_ROOM

struct gather {
    struct loop *loop;
    void *socket; /* borrowed; NULL: what comes waits */
    uint32_t node;
    struct buf wait; /* entries */
    bool due;        /* they leave when the turn is over */
    bool destroyed;  /* by its owner, before the turn was over */
};

struct gather *gather_create(struct loop *loop, struct err *err)
{
    struct gather *g = calloc(1, sizeof *g);

    if (!g)
        return err_null(err, "out of memory");
    g->loop = loop;
    g->node = ROUTE_KERNEL;
    return g;
}

static void release(struct gather *g)
{
    buf_release(&g->wait);
    free(g);
}

void gather_destroy(struct gather *g)
{
    if (!g)
        return;
    gather_flush(g);
    g->socket = NULL;
    g->destroyed = true;
    if (!g->due)
        release(g);
}

uint32_t gather_node(const struct gather *g)
{
    return g->node;
}

/* ---- sending ---- */

static int send_frame(struct gather *g, zmq_msg_t *m, struct err *err)
{
    if (zmq_msg_send(m, g->socket, ZMQ_DONTWAIT) >= 0)
        return 0;
    (void)err_set(err, "can't send to the kernel: %s", zmq_strerror(zmq_errno()));
    zmq_msg_close(m);
    return -1;
}

static bool may_leave(const struct gather *g)
{
    return g->socket && g->node != ROUTE_KERNEL;
}

void gather_flush(struct gather *g)
{
    struct err err = { "" };
    zmq_msg_t m;

    if (!may_leave(g) || g->wait.n == 0)
        return;
    if (zmq_msg_init_size(&m, g->wait.n) < 0) {
        log_error("uplink", "out of memory for a bundle of %zu bytes", g->wait.n);
        return;
    }
    memcpy(zmq_msg_data(&m), g->wait.p, g->wait.n);
    if (send_frame(g, &m, &err) < 0)
        log_error("uplink", "%s", err.text);
    if (g->wait.cap > 2 * BUNDLE_MAX)
        buf_release(&g->wait);
    else
        buf_clear(&g->wait);
}

static void turn_is_over(struct loop *loop, void *arg)
{
    struct gather *g = arg;

    (void)loop;
    g->due = false;
    if (g->destroyed)
        release(g);
    else
        gather_flush(g);
}

/* Something waits now. */
static void leave_soon(struct gather *g)
{
    if (!may_leave(g))
        return;
    if (g->wait.n >= BUNDLE_MAX)
        gather_flush(g);
    else if (!g->due && !(g->due = loop_later(g->loop, turn_is_over, g) == 0))
        gather_flush(g);
}

void gather_socket(struct gather *g, void *socket)
{
    g->socket = socket;
    gather_flush(g);
}

/* ---- entries ---- */

static void write_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

void gather_number(struct gather *g, uint32_t node)
{
    struct slice rest = buf_slice(&g->wait);
    struct bundle_entry e;

    g->node = node;
    while (bundle_next(&rest, &e))
        if (e.node == ROUTE_KERNEL)
            write_u32((uint8_t *)g->wait.p + (e.whole.p - g->wait.p), node);
    gather_flush(g);
}

/* p: a message of n bytes behind ENTRY_HEAD others. */
static void write_head(const struct gather *g, uint8_t *p, uint32_t worker, size_t n)
{
    write_u32(p, g->node);
    write_u32(p + 4, worker);
    write_u32(p + 8, (uint32_t)n);
    if (n >= SPAN_HEADER_SIZE)
        span_stamp(p + ENTRY_HEAD, worker);
}

/* One copy, from the message into the frame. */
static int send_alone(struct gather *g, uint32_t worker, struct slice msg, struct err *err)
{
    zmq_msg_t m;
    uint8_t *p;

    if (msg.n > UINT32_MAX || zmq_msg_init_size(&m, ENTRY_HEAD + msg.n) < 0)
        return err_set(err, "out of memory for a message of %zu bytes", msg.n);
    p = zmq_msg_data(&m);
    memcpy(p + ENTRY_HEAD, msg.p, msg.n);
    write_head(g, p, worker, msg.n);
    return send_frame(g, &m, err);
}

int gather_add(struct gather *g, uint32_t worker, struct slice msg, struct err *err)
{
    if (msg.n > GATHER_ALONE && may_leave(g)) {
        gather_flush(g);
        return send_alone(g, worker, msg, err);
    }
    if (bundle_add(&g->wait, g->node, worker, msg) < 0)
        return err_set(err, "out of memory for a message of %zu bytes", msg.n);
    if (msg.n >= SPAN_HEADER_SIZE)
        span_stamp(g->wait.p + g->wait.n - msg.n, worker);
    leave_soon(g);
    return 0;
}

int gather_give(struct gather *g, uint32_t worker, struct buf *msg, struct err *err)
{
    const struct slice inside = slice_of(msg->p + GATHER_ROOM, msg->n - GATHER_ROOM);
    zmq_msg_t m;
    int rc;

    if (inside.n <= GATHER_ALONE || inside.n > UINT32_MAX || !may_leave(g)) {
        rc = gather_add(g, worker, inside, err);
        buf_release(msg);
        return rc;
    }
    gather_flush(g);
    write_head(g, (uint8_t *)msg->p, worker, inside.n);
    return socket_frame(&m, msg, 0, err) < 0 ? -1 : send_frame(g, &m, err);
}

int gather_pass(struct gather *g, struct slice whole, struct err *err)
{
    if (buf_add_slice(&g->wait, whole) < 0)
        return err_set(err, "out of memory for an entry of %zu bytes", whole.n);
    leave_soon(g);
    return 0;
}

int gather_pass_all(struct gather *g, zmq_msg_t *frame, struct err *err)
{
    const struct slice all = slice_of(zmq_msg_data(frame), zmq_msg_size(frame));
    int rc;

    if (all.n > GATHER_ALONE && may_leave(g)) {
        gather_flush(g);
        return send_frame(g, frame, err);
    }
    rc = gather_pass(g, all, err);
    zmq_msg_close(frame);
    return rc;
}

int gather_send_now(struct gather *g, struct slice msg, struct err *err)
{
    return g->socket ? send_alone(g, SPAN_WORKER_NONE, msg, err)
                     : err_set(err, "there is no link to the kernel");
}
