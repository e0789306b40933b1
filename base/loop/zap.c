/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket is a ROUTER, so that questions can be answered in any order. */
#include "base/loop/zap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ENDPOINT           "inproc://zeromq.zap.01"
#define RFC_VERSION        "1.0"
#define QUESTIONS_PER_TURN 256

/* Frames of a question; the first two are the way back to the sender. */
enum { ROUTE, EMPTY, VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, FRAMES };

struct zap {
    void *socket;
    struct watch *watch;
    zap_f f;
    void *arg;
};

static struct slice text_of(const struct zap_field *f)
{
    return slice_of(f->byte, f->n);
}

/* Reads one frame. If it is too long, it reads as empty and *good becomes false. 0: no frame. */
static int frame_read(void *socket, struct zap_field *f, bool *good)
{
    const int n = zmq_recv(socket, f->byte, sizeof f->byte, ZMQ_DONTWAIT);

    if (n < 0)
        return 0;
    if (n > (int)ZAP_FIELD_MAX)
        *good = false;
    f->n = n > (int)ZAP_FIELD_MAX ? 0 : (uint8_t)n;
    return 1;
}

/* Reads the frames of a question and returns their number; those beyond FRAMES are only counted. 0:
 * there is no question. */
static unsigned frames_read(void *socket, struct zap_field frame[FRAMES], bool *good)
{
    int more = 1;
    size_t size = sizeof more;
    unsigned n = 0;

    for (; more; n++) {
        struct zap_field beyond;

        if (!frame_read(socket, n < FRAMES ? &frame[n] : &beyond, good) ||
            zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0)
            return 0;
    }
    return n;
}

static bool question_read(void *socket, struct zap_question *q)
{
    struct zap_field frame[FRAMES] = { { 0 } };
    bool good = true;
    const unsigned n = frames_read(socket, frame, &good);

    *q = (struct zap_question){ frame[ROUTE], frame[REQUEST], frame[DOMAIN], false, { 0 } };
    q->good = good && n == FRAMES && frame[EMPTY].n == 0 &&
              slice_is(text_of(&frame[VERSION]), RFC_VERSION) &&
              slice_is(text_of(&frame[MECHANISM]), "CURVE") && frame[CREDENTIALS].n == ZAP_KEY_SIZE;
    if (q->good)
        memcpy(q->key, frame[CREDENTIALS].byte, ZAP_KEY_SIZE);
    return n > 0;
}

static void zap_ready(void *arg)
{
    struct zap *z = arg;
    struct zap_question q;

    for (int i = 0; i < QUESTIONS_PER_TURN && question_read(z->socket, &q); i++)
        z->f(z, &q, z->arg);
}

/* If the sender of the question is gone, ZeroMQ drops the frames. */
void zap_answer(struct zap *z, const struct zap_question *q, enum zap_status status,
                const char *user)
{
    const char *const text = status == ZAP_YES ? "OK" : "refused";
    char code[8];

    (void)snprintf(code, sizeof code, "%d", (int)status);
    (void)zmq_send(z->socket, q->route.byte, q->route.n, ZMQ_SNDMORE);
    (void)zmq_send(z->socket, "", 0, ZMQ_SNDMORE);
    (void)zmq_send(z->socket, RFC_VERSION, strlen(RFC_VERSION), ZMQ_SNDMORE);
    (void)zmq_send(z->socket, q->request.byte, q->request.n, ZMQ_SNDMORE);
    (void)zmq_send(z->socket, code, strlen(code), ZMQ_SNDMORE);
    (void)zmq_send(z->socket, text, strlen(text), ZMQ_SNDMORE);
    (void)zmq_send(z->socket, user, strlen(user), ZMQ_SNDMORE);
    (void)zmq_send(z->socket, "", 0, 0);
}

struct slice zap_domain(const struct zap_question *q)
{
    return text_of(&q->domain);
}

const unsigned char *zap_key(const struct zap_question *q)
{
    return q->good ? q->key : NULL;
}

struct zap *zap_open(struct loop *loop, void *context, zap_f f, void *arg, struct err *err)
{
    struct zap *z = calloc(1, sizeof *z);

    if (!z)
        return err_null(err, "out of memory");
    z->f = f;
    z->arg = arg;
    if (!(z->socket = zmq_socket(context, ZMQ_ROUTER)) ||
        loop_zmq_set(z->socket, ZMQ_LINGER, 0) < 0 || zmq_bind(z->socket, ENDPOINT) < 0)
        (void)err_set(err, "ZeroMQ's authentication: %s", zmq_strerror(zmq_errno()));
    else if ((z->watch = loop_zmq(loop, z->socket, zap_ready, z, err)))
        return z;
    zap_close(z);
    return NULL;
}

void zap_close(struct zap *z)
{
    if (!z)
        return;
    watch_stop(z->watch);
    /* zmq_close() alone frees the endpoint later: another zap_open() could find it taken. */
    (void)zmq_unbind(z->socket, ENDPOINT);
    zmq_close(z->socket);
    free(z);
}
