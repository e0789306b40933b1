/* SPDX-License-Identifier: BSD-3-Clause */
/* frame_batch.c - see frame_batch.h. The workers' credit limits how much can wait, so there is no
 * high-water mark that drops messages. */
#include "worker/agent/net/frame_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span.h"
#include "worker/agent/net/socket.h"

#define BUNDLE_MAX 262144u /* bytes of waiting entries that leave before the turn ends */
#define ENTRY_HEAD FRAME_BATCH_ROOM

struct frame_batch {
    struct loop *loop;
    void *socket;                  /* borrowed */
    struct message_stream *stream; /* borrowed; instead of socket. Both NULL: entries wait */
    struct session *session;       /* borrowed; NULL: nothing is kept */
    frame_batch_full_f full_f;
    void *full_arg;
    bool full; /* as f was told last */
    uint32_t node;
    struct buf wait; /* entries that wait */
    bool due;        /* they leave at the end of the turn */
    bool destroyed;  /* by its owner, before the end of the turn */
};

struct frame_batch *frame_batch_create(struct loop *loop, struct err *err)
{
    struct frame_batch *b = calloc(1, sizeof *b);

    if (!b)
        return err_null(err, "out of memory");
    b->loop = loop;
    b->node = ROUTE_KERNEL;
    return b;
}

static void release(struct frame_batch *b)
{
    buf_release(&b->wait);
    free(b);
}

void frame_batch_destroy(struct frame_batch *b)
{
    if (!b)
        return;
    frame_batch_flush(b);
    b->socket = NULL;
    b->stream = NULL;
    b->destroyed = true;
    if (!b->due)
        release(b);
}

uint32_t frame_batch_node(const struct frame_batch *b)
{
    return b->node;
}

/* ---- sending ---- */

static int send_frame(struct frame_batch *b, zmq_msg_t *m, struct err *err)
{
    struct err why = { "" };
    int rc;

    if (b->stream) {
        rc = message_stream_send(b->stream, slice_text(""), m, &why);
        if (rc < 0 && message_stream_is_over(b->stream)) /* stdin tells that the kernel has ended */
            rc = 0;
    } else if ((rc = zmq_msg_send(m, b->socket, ZMQ_DONTWAIT)) < 0)
        (void)err_set(&why, "%s", zmq_strerror(zmq_errno()));
    if (b->stream || rc < 0)
        zmq_msg_close(m);
    return rc < 0 ? err_set(err, "can't send to the kernel: %s", why.text) : 0;
}

static bool has_way(const struct frame_batch *b)
{
    return b->socket || b->stream;
}

static bool may_leave(const struct frame_batch *b)
{
    return has_way(b) && b->node != ROUTE_KERNEL;
}

void frame_batch_flush(struct frame_batch *b)
{
    struct err err = { "" };
    zmq_msg_t m;

    if (!may_leave(b) || b->wait.n == 0)
        return;
    if (zmq_msg_init_size(&m, b->wait.n) < 0) {
        log_error("uplink", "out of memory for a bundle of %zu bytes", b->wait.n);
        return;
    }
    memcpy(zmq_msg_data(&m), b->wait.p, b->wait.n);
    if (send_frame(b, &m, &err) < 0)
        log_error("uplink", "%s", err.text);
    if (b->wait.cap > 2 * BUNDLE_MAX)
        buf_release(&b->wait);
    else
        buf_clear(&b->wait);
}

static void turn_is_over(void *arg)
{
    struct frame_batch *b = arg;

    b->due = false;
    if (b->destroyed)
        release(b);
    else
        frame_batch_flush(b);
}

/* Sends what waits, at the latest at the end of the turn. */
static void leave_soon(struct frame_batch *b)
{
    if (!may_leave(b))
        return;
    if (b->wait.n >= BUNDLE_MAX)
        frame_batch_flush(b);
    else if (!b->due && !(b->due = loop_later(b->loop, turn_is_over, b) == 0))
        frame_batch_flush(b);
}

void frame_batch_socket(struct frame_batch *b, void *socket)
{
    b->socket = socket;
    frame_batch_flush(b);
}

void frame_batch_stream(struct frame_batch *b, struct message_stream *stream)
{
    b->stream = stream;
    frame_batch_flush(b);
}

/* ---- the session ---- */

/* A message of this agent, as an entry. ZeroMQ shares its bytes with a frame that is on its way. */
struct kept {
    zmq_msg_t entry;
};

static void kept_free(void *item)
{
    struct kept *k = item;

    zmq_msg_close(&k->entry);
    free(k);
}

void frame_batch_session(struct frame_batch *b, struct session *session, frame_batch_full_f f,
                         void *arg)
{
    session_init(session, kept_free);
    b->session = session;
    b->full_f = f;
    b->full_arg = arg;
}

static void check_full(struct frame_batch *b)
{
    if (b->full == session_is_full(b->session))
        return;
    b->full = !b->full;
    if (b->full_f)
        b->full_f(b->full_arg, b->full);
}

int frame_batch_acked(struct frame_batch *b, uint64_t received, struct err *err)
{
    if (session_acked(b->session, received, err) < 0)
        return -1;
    check_full(b);
    return 0;
}

/* No message reaches the kernel: the agent was welcome before. */
static bool is_cut(const struct frame_batch *b)
{
    return b->session && !b->session->connected && b->node != ROUTE_KERNEL;
}

/* A long entry leaves in its own frame, which is not copied. */
static int send_kept(struct frame_batch *b, struct kept *k, struct err *err)
{
    const struct slice entry = slice_of(zmq_msg_data(&k->entry), zmq_msg_size(&k->entry));
    zmq_msg_t copy;

    if (entry.n <= FRAME_BATCH_ALONE || !may_leave(b))
        return buf_add_slice(&b->wait, entry) < 0 ? err_set(err, "out of memory") : 0;
    frame_batch_flush(b);
    (void)zmq_msg_init(&copy);
    if (zmq_msg_copy(&copy, &k->entry) < 0)
        return err_set(err, "out of memory");
    return send_frame(b, &copy, err);
}

/* Sends what is next. What can't be sent now waits for the next call. */
static void send_next(struct frame_batch *b)
{
    struct err err = { "" };
    struct kept *k;

    while ((k = session_next(b->session))) {
        uint8_t *p = zmq_msg_data(&k->entry);

        if (le_get(p, 4) == ROUTE_KERNEL) /* it was made before this agent had its number */
            le_put(p, 4, b->node);
        if (send_kept(b, k, &err) < 0) {
            log_error("uplink", "%s", err.text);
            session_take_back(b->session);
            return;
        }
    }
    leave_soon(b);
}

/* Takes the entry. */
static int keep(struct frame_batch *b, zmq_msg_t *entry, struct err *err)
{
    const size_t n = zmq_msg_size(entry);
    struct kept *k = malloc(sizeof *k);

    if (!k) {
        zmq_msg_close(entry);
        return err_set(err, "out of memory for a message of %zu bytes", n);
    }
    (void)zmq_msg_init(&k->entry);
    (void)zmq_msg_move(&k->entry, entry);
    if (session_keep(b->session, k, n - ENTRY_HEAD, err) < 0)
        return -1;
    send_next(b);
    check_full(b);
    return 0;
}

void frame_batch_cut(struct frame_batch *b)
{
    b->socket = NULL;
    buf_clear(&b->wait);
    session_cut(b->session);
}

int frame_batch_resume(struct frame_batch *b, void *socket, uint64_t received, struct err *err)
{
    if (session_resume(b->session, received, err) < 0)
        return -1;
    b->socket = socket;
    send_next(b);
    check_full(b);
    return 0;
}

/* ---- entries ---- */

void frame_batch_number(struct frame_batch *b, uint32_t node)
{
    struct slice rest = buf_slice(&b->wait);
    struct bundle_entry e;

    b->node = node;
    while (bundle_next(&rest, &e))
        if (e.node == ROUTE_KERNEL)
            le_put((uint8_t *)b->wait.p + (e.whole.p - b->wait.p), 4, node);
    if (b->session && session_resume(b->session, 0, NULL) == 0)
        send_next(b);
    frame_batch_flush(b);
}

/* Writes the head of an entry to p; its message of n bytes follows. */
static void write_head(const struct frame_batch *b, uint8_t *p, uint32_t worker, size_t n)
{
    le_put(p, 4, b->node);
    le_put(p + 4, 4, worker);
    le_put(p + 8, 4, (uint32_t)n);
    if (n >= SPAN_HEADER_SIZE)
        span_stamp(p + ENTRY_HEAD, worker);
}

/* Copies the message once, into the frame. */
static int make_frame(const struct frame_batch *b, uint32_t worker, struct slice msg, zmq_msg_t *m,
                      struct err *err)
{
    uint8_t *p;

    if (msg.n > UINT32_MAX || zmq_msg_init_size(m, ENTRY_HEAD + msg.n) < 0)
        return err_set(err, "out of memory for a message of %zu bytes", msg.n);
    p = zmq_msg_data(m);
    memcpy(p + ENTRY_HEAD, msg.p, msg.n);
    write_head(b, p, worker, msg.n);
    return 0;
}

static int send_alone(struct frame_batch *b, uint32_t worker, struct slice msg, struct err *err)
{
    zmq_msg_t m;

    return make_frame(b, worker, msg, &m, err) < 0 ? -1 : send_frame(b, &m, err);
}

static bool is_kept(const struct frame_batch *b, struct slice msg)
{
    return b->session && span_is_numbered(msg.p, msg.n);
}

int frame_batch_add(struct frame_batch *b, uint32_t worker, struct slice msg, struct err *err)
{
    zmq_msg_t m;

    if (is_kept(b, msg))
        return make_frame(b, worker, msg, &m, err) < 0 ? -1 : keep(b, &m, err);
    if (is_cut(b))
        return 0;
    if (msg.n > FRAME_BATCH_ALONE && may_leave(b)) {
        frame_batch_flush(b);
        return send_alone(b, worker, msg, err);
    }
    if (bundle_add(&b->wait, b->node, worker, msg) < 0)
        return err_set(err, "out of memory for a message of %zu bytes", msg.n);
    if (msg.n >= SPAN_HEADER_SIZE)
        span_stamp(b->wait.p + b->wait.n - msg.n, worker);
    leave_soon(b);
    return 0;
}

int frame_batch_give(struct frame_batch *b, uint32_t worker, struct buf *msg, struct err *err)
{
    const struct slice inside = slice_of(msg->p + FRAME_BATCH_ROOM, msg->n - FRAME_BATCH_ROOM);
    zmq_msg_t m;
    int rc;

    if (is_kept(b, inside) && inside.n <= UINT32_MAX) {
        write_head(b, (uint8_t *)msg->p, worker, inside.n);
        return socket_frame(&m, msg, 0, err) < 0 ? -1 : keep(b, &m, err);
    }
    if (inside.n <= FRAME_BATCH_ALONE || inside.n > UINT32_MAX || !may_leave(b)) {
        rc = frame_batch_add(b, worker, inside, err);
        buf_release(msg);
        return rc;
    }
    frame_batch_flush(b);
    write_head(b, (uint8_t *)msg->p, worker, inside.n);
    return socket_frame(&m, msg, 0, err) < 0 ? -1 : send_frame(b, &m, err);
}

int frame_batch_pass(struct frame_batch *b, struct slice whole, struct err *err)
{
    if (is_cut(b))
        return 0;
    if (buf_add_slice(&b->wait, whole) < 0)
        return err_set(err, "out of memory for an entry of %zu bytes", whole.n);
    leave_soon(b);
    return 0;
}

int frame_batch_pass_all(struct frame_batch *b, zmq_msg_t *frame, struct err *err)
{
    const struct slice all = slice_of(zmq_msg_data(frame), zmq_msg_size(frame));
    int rc;

    if (all.n > FRAME_BATCH_ALONE && may_leave(b)) {
        frame_batch_flush(b);
        return send_frame(b, frame, err);
    }
    rc = frame_batch_pass(b, all, err);
    zmq_msg_close(frame);
    return rc;
}

int frame_batch_send_now(struct frame_batch *b, struct slice msg, struct err *err)
{
    return has_way(b) ? send_alone(b, SPAN_WORKER_NONE, msg, err)
                      : err_set(err, "there is no link to the kernel");
}
