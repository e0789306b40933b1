/* admit.c - see admit.h. */
#include "worker/agent/admit.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

#define ENDPOINT          "inproc://zeromq.zap.01"
#define VERSION           "1.0"
#define PARTS             7u /* version, request id, domain, address, identity, mechanism, key */
#define PART_MAX          256u
#define REQUESTS_PER_TURN 32

struct admit {
    void *socket;
    struct watch *watch;
    admit_f f;
    void *arg;
    unsigned long refused;
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

void admit_close(struct admit *a)
{
    if (!a)
        return;
    watch_stop(a->watch);
    if (a->socket)
        zmq_close(a->socket);
    free(a);
}

unsigned long admit_refused(const struct admit *a)
{
    return a ? a->refused : 0;
}
