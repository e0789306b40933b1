/* admit.c - see admit.h. */
#include "worker/agent/admit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

#define ENDPOINT          "inproc://zeromq.zap.01"
#define VERSION           "1.0"
#define PARTS             7u /* version, request id, domain, address, identity, mechanism, key */
#define PART_MAX          256u
#define REQUESTS_PER_TURN 32
#define NEWS_PER_TURN     256
#define FAILURES          (ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)

struct admit {
    struct loop *loop;
    void *context, *socket;
    struct watch *watch;
    admit_f f;
    void *arg;
    unsigned long refused, failed; /* for their keys; before they had said any */
    void *listener, *monitor;      /* the former is borrowed */
    struct watch *news;
};

struct request {
    char part[PARTS][PART_MAX];
    size_t size[PARTS];
    unsigned n;
};

/* -1: there is none, or it is not as RFC 27 has it: parts beyond our room are taken and make it wrong. */
static int receive(void *socket, struct request *r, bool *empty)
{
    int more = 1;
    size_t size = sizeof more;
    bool good = true;

    for (r->n = 0; more; r->n++) {
        char junk[PART_MAX];
        const bool keep = r->n < PARTS;
        const int n = zmq_recv(socket, keep ? r->part[r->n] : junk, PART_MAX, r->n ? 0 : ZMQ_DONTWAIT);

        if (n < 0) {
            *empty = true;
            return -1;
        }
        good = good && keep && (size_t)n <= PART_MAX;
        if (keep)
            r->size[r->n] = (size_t)n;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0)
            return -1;
    }
    return good && r->n == PARTS && r->size[0] == 3 && memcmp(r->part[0], VERSION, 3) == 0 ? 0 : -1;
}

static void answer(void *socket, const struct request *r, bool good, const char *name)
{
    const char *const parts[] = { good ? "200" : "400", good ? "OK" : "unknown key", good ? name : "", "" };

    (void)zmq_send(socket, VERSION, 3, ZMQ_SNDMORE);
    (void)zmq_send(socket, r->part[1], r->size[1], ZMQ_SNDMORE);
    for (unsigned i = 0; i < 4; i++)
        (void)zmq_send(socket, parts[i], strlen(parts[i]), i < 3 ? ZMQ_SNDMORE : 0);
}

static void admit_ready(struct loop *loop, void *arg)
{
    struct admit *a = arg;
    bool empty = false;

    (void)loop;
    for (int i = 0; i < REQUESTS_PER_TURN && !empty; i++) {
        char name[ADMIT_NAME_SIZE] = "";
        struct request r;
        bool good = receive(a->socket, &r, &empty) == 0;

        if (empty)
            return;
        good = good && r.size[5] == 5 && memcmp(r.part[5], "CURVE", 5) == 0 && r.size[6] == KEY_SIZE &&
               a->f(a->arg, (const unsigned char *)r.part[6], name);
        if (!good && a->refused++ == 0)
            log_warn("peers", "a connection with a key that is not expected was refused; more are not logged");
        answer(a->socket, &r, good, name);
    }
}

struct admit *admit_open(struct loop *loop, void *context, admit_f f, void *arg, struct err *err)
{
    const int linger = 0;
    struct admit *a = calloc(1, sizeof *a);

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->context = context;
    a->f = f;
    a->arg = arg;
    if (!(a->socket = zmq_socket(context, ZMQ_REP)) ||
        zmq_setsockopt(a->socket, ZMQ_LINGER, &linger, sizeof linger) < 0 || zmq_bind(a->socket, ENDPOINT) < 0) {
        (void)err_set(err, "ZeroMQ's authentication: %s", zmq_strerror(zmq_errno()));
        goto fail;
    }
    if ((a->watch = loop_zmq(loop, a->socket, admit_ready, a, err)))
        return a;
fail:
    admit_close(a);
    return NULL;
}

/* ---- who does not get as far as to show a key ---- */

static bool news_skip(void *monitor)
{
    char frame[512];
    int more = 1;
    size_t size = sizeof more;

    while (more)
        if (zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT) < 0 ||
            zmq_getsockopt(monitor, ZMQ_RCVMORE, &more, &size) < 0)
            return false;
    return true;
}

static void admit_news(struct loop *loop, void *arg)
{
    struct admit *a = arg;

    (void)loop;
    for (int i = 0; i < NEWS_PER_TURN && news_skip(a->monitor); i++)
        if (a->failed++ == 0)
            log_warn("peers", "a connection that does not speak as agents do was refused; more are not logged");
}

int admit_watch(struct admit *a, void *listener, struct err *err)
{
    char name[64];

    (void)snprintf(name, sizeof name, "inproc://strangers-%p", listener);
    if (zmq_socket_monitor(listener, name, FAILURES) < 0)
        return err_set(err, "ZeroMQ: a socket's monitor: %s", zmq_strerror(zmq_errno()));
    a->listener = listener;
    if (!(a->monitor = zmq_socket(a->context, ZMQ_PAIR)) || zmq_connect(a->monitor, name) < 0)
        return err_set(err, "ZeroMQ: a socket's monitor: %s", zmq_strerror(zmq_errno()));
    return (a->news = loop_zmq(a->loop, a->monitor, admit_news, a, err)) ? 0 : -1;
}

void admit_close(struct admit *a)
{
    if (!a)
        return;
    if (admit_refused(a) > 0)
        log_info("peers", "refused in all: %lu connections for their key, %lu before they had shown one", a->refused,
                 a->failed);
    if (a->listener)
        (void)zmq_socket_monitor(a->listener, NULL, 0);
    watch_stop(a->news);
    if (a->monitor)
        zmq_close(a->monitor);
    watch_stop(a->watch);
    if (a->socket)
        zmq_close(a->socket);
    free(a);
}

unsigned long admit_refused(const struct admit *a)
{
    return a ? a->refused + a->failed : 0;
}
