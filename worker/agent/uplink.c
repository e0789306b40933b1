/* uplink.c - see uplink.h. What is on its way is bounded by the workers' credit, so no high-water mark drops any of it. */
#include "worker/agent/uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"
#include "protocol/span.h"

#define ENVELOPES_PER_TURN 32
#define LINGER_MS 500

struct uplink {
    void *context;
    void *socket;
    struct watch *watch;
    uplink_f f;
    void *arg;
};

static bool has_more(const zmq_msg_t *m)
{
    return zmq_msg_more(m) != 0;
}

/* Takes the two frames of an envelope. 1: got; 0: nothing there, or nonsense, which is dropped. */
static int receive(struct uplink *u, zmq_msg_t *workers, zmq_msg_t *msg, bool *empty)
{
    zmq_msg_t rest;
    bool more;

    *empty = zmq_msg_recv(workers, u->socket, ZMQ_DONTWAIT) < 0;
    if (*empty)
        return 0;
    if (!has_more(workers)) {
        log_warn("uplink", "one frame where an envelope has two: dropped");
        return 0;
    }
    if (zmq_msg_recv(msg, u->socket, ZMQ_DONTWAIT) < 0)
        return 0;
    if (!has_more(msg))
        return 1;
    log_warn("uplink", "more than two frames: dropped");
    for (more = true; more;) {
        zmq_msg_init(&rest);
        more = zmq_msg_recv(&rest, u->socket, ZMQ_DONTWAIT) >= 0 && has_more(&rest);
        zmq_msg_close(&rest);
    }
    return 0;
}

static void uplink_ready(struct loop *loop, void *arg)
{
    struct uplink *u = arg;
    bool empty = false;

    (void)loop;
    for (int i = 0; i < ENVELOPES_PER_TURN && !empty; i++) {
        zmq_msg_t workers, msg;

        zmq_msg_init(&workers);
        zmq_msg_init(&msg);
        if (receive(u, &workers, &msg, &empty) == 1)
            u->f(u->arg, slice_of(zmq_msg_data(&workers), zmq_msg_size(&workers)),
                 slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
        zmq_msg_close(&workers);
        zmq_msg_close(&msg);
    }
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int dial(struct uplink *u, const char *endpoint)
{
    if (!(u->context = zmq_ctx_new()) || !(u->socket = zmq_socket(u->context, ZMQ_DEALER)))
        return -1;
    if (set_int(u->socket, ZMQ_SNDHWM, 0) < 0 || set_int(u->socket, ZMQ_RCVHWM, 0) < 0 ||
        set_int(u->socket, ZMQ_LINGER, LINGER_MS) < 0 || set_int(u->socket, ZMQ_RECONNECT_IVL, 10) < 0 ||
        set_int(u->socket, ZMQ_RECONNECT_IVL_MAX, 1000) < 0)
        return -1;
    return zmq_connect(u->socket, endpoint);
}

struct uplink *uplink_open(struct loop *loop, const char *endpoint, uplink_f f, void *arg, struct err *err)
{
    struct uplink *u = calloc(1, sizeof *u);

    if (!u)
        return err_null(err, "out of memory");
    u->f = f;
    u->arg = arg;
    if (dial(u, endpoint) < 0) {
        (void)err_set(err, "--connect %s: %s", endpoint, zmq_strerror(zmq_errno()));
        goto fail;
    }
    if (!(u->watch = loop_zmq(loop, u->socket, uplink_ready, u, err)))
        goto fail;
    return u;
fail:
    uplink_close(u);
    return NULL;
}

void uplink_close(struct uplink *u)
{
    if (!u)
        return;
    watch_stop(u->watch);
    if (u->socket)
        zmq_close(u->socket);
    if (u->context)
        zmq_ctx_term(u->context);
    free(u);
}

int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err)
{
    const uint8_t from[4] = { (uint8_t)worker, (uint8_t)(worker >> 8), (uint8_t)(worker >> 16), (uint8_t)(worker >> 24) };
    zmq_msg_t m;

    if (zmq_msg_init_size(&m, msg.n) < 0)
        return err_set(err, "out of memory for a message of %zu bytes", msg.n);
    memcpy(zmq_msg_data(&m), msg.p, msg.n);
    if (msg.n >= SPAN_HEADER_SIZE)
        span_stamp(zmq_msg_data(&m), worker);
    if (zmq_send(u->socket, from, worker ? sizeof from : 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        goto fail;
    if (zmq_msg_send(&m, u->socket, ZMQ_DONTWAIT) < 0)
        goto fail;
    return 0;
fail:
    (void)err_set(err, "can't send to the kernel: %s", zmq_strerror(zmq_errno()));
    zmq_msg_close(&m);
    return -1;
}
