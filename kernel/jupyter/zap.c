/* zap.c - libzmq's I/O thread asks over an inproc socket before it admits a client; it waits for the answer, others go on. */
#include "kernel/jupyter/zap.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

#define KEY_SIZE 32u
#define QUESTIONS_PER_TURN 32
#define FIELD_MAX 256

/* Frames of a question. */
enum { VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, FRAMES };

struct zap {
    void *socket;
    struct watch *watch;
    unsigned char key[KEY_SIZE]; /* the client's public key that is admitted */
    unsigned long refused;
};

struct question {
    char frame[FRAMES][FIELD_MAX];
    size_t size[FRAMES];
    unsigned n;
};

static bool is(const struct question *q, unsigned frame, const char *text)
{
    return q->size[frame] == strlen(text) && memcmp(q->frame[frame], text, q->size[frame]) == 0;
}

/* false: nothing there. */
static bool question_read(void *socket, struct question *q)
{
    int more = 1;
    size_t size = sizeof more;

    for (q->n = 0; more; q->n++) {
        char rest[FIELD_MAX];
        const int n = zmq_recv(socket, q->n < FRAMES ? q->frame[q->n] : rest, FIELD_MAX, ZMQ_DONTWAIT);

        if (n < 0)
            return false;
        if (q->n < FRAMES)
            q->size[q->n] = n > FIELD_MAX ? 0 : (size_t)n;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0)
            return false;
    }
    return true;
}

static bool admitted(const struct zap *z, const struct question *q)
{
    if (q->n != FRAMES || !is(q, VERSION, "1.0") || !is(q, MECHANISM, "CURVE") || q->size[CREDENTIALS] != KEY_SIZE)
        return false;
    return is(q, DOMAIN, ZAP_ANYBODY) || sodium_memcmp(q->frame[CREDENTIALS], z->key, KEY_SIZE) == 0;
}

static void answer(void *socket, const struct question *q, bool yes)
{
    const char *status = yes ? "200" : "400";
    const char *text = yes ? "OK" : "not the connection file's key";
    const size_t id = q->n > REQUEST ? q->size[REQUEST] : 0;

    zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(socket, q->frame[REQUEST], id, ZMQ_SNDMORE);
    zmq_send(socket, status, 3, ZMQ_SNDMORE);
    zmq_send(socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(socket, "", 0, ZMQ_SNDMORE);
    zmq_send(socket, "", 0, 0);
}

static void asked(struct loop *loop, void *arg)
{
    struct zap *z = arg;
    struct question q;

    (void)loop;
    for (int i = 0; i < QUESTIONS_PER_TURN && question_read(z->socket, &q); i++) {
        const bool yes = admitted(z, &q);

        if (!yes && z->refused++ == 0)
            log_warn("jupyter", "a client with another key than the connection file's was turned away (more are only "
                                "counted)");
        answer(z->socket, &q, yes);
    }
}

struct zap *zap_create(struct loop *loop, void *context, const struct connection *c, struct err *err)
{
    struct zap *z = calloc(1, sizeof *z);

    if (!z)
        return err_null(err, "out of memory");
    if (!zmq_z85_decode(z->key, c->public_key)) {
        err_set(err, "connection file %s: \"curve_publickey\" is not Z85", c->file);
        goto undo;
    }
    if (!(z->socket = zmq_socket(context, ZMQ_REP)) || zmq_bind(z->socket, "inproc://zeromq.zap.01") < 0) {
        err_set(err, "ZeroMQ: %s", zmq_strerror(errno));
        goto undo;
    }
    if (!(z->watch = loop_zmq(loop, z->socket, asked, z, err)))
        goto undo;
    return z;
undo:
    zap_destroy(z);
    return NULL;
}

void zap_destroy(struct zap *z)
{
    if (!z)
        return;
    if (z->refused)
        log_info("jupyter", "turned away in all: %lu clients with another key than the connection file's", z->refused);
    watch_stop(z->watch);
    if (z->socket)
        zmq_close(z->socket);
    free(z);
}
