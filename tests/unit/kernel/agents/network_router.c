/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of kernel/agents/network_router.c: to which descriptor a message belongs, when connections
 * end and others get their numbers before it is read. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/random.h"
#include "kernel/agents/router.h"
#include "tests/unit/tap.h"

#define PEERS    2
#define LIMIT_MS 60000
#define STEP_MS  5

/* ---- peers: in another process, so that only the router takes numbers in this one ---- */

enum deed { OPEN, SAY, CLOSE };

struct order {
    enum deed deed;
    unsigned peer;
    char endpoint[64];
};

static void *peer_open(void *context, const struct order *o, const struct keys *server)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    const int linger = -1;
    struct keys own;

    keys_create(&own);
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    (void)zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own.public, KEY_SIZE);
    (void)zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own.secret, KEY_SIZE);
    (void)zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server->public, KEY_SIZE);
    if (zmq_connect(socket, o->endpoint) < 0)
        _exit(1);
    return socket;
}

static void peers_main(int orders, const struct keys *server)
{
    void *context = zmq_ctx_new(), *socket[PEERS];
    struct order o;

    while (read(orders, &o, sizeof o) == (ssize_t)sizeof o) {
        const char name[2] = { (char)('a' + (int)o.peer), 0 };

        if (o.deed == OPEN)
            socket[o.peer] = peer_open(context, &o, server);
        else if (o.deed == CLOSE)
            (void)zmq_close(socket[o.peer]);
        else if (zmq_send(socket[o.peer], name, 1, 0) < 0)
            _exit(1);
    }
    _exit(0);
}

/* ---- the router ---- */

struct bench {
    struct loop *loop;
    void *context;
    struct router *router;
    char endpoint[64];
    int orders;
    pid_t peers;
    unsigned messages[PEERS];
    int fd[PEERS]; /* of the last message */
};

static void arrived(void *arg, const struct router_message *m)
{
    struct bench *b = arg;
    const unsigned peer = m->first.n == 1 ? (unsigned)(m->first.p[0] - 'a') : PEERS;

    router_settle(m->router);
    if (peer >= PEERS)
        return;
    b->messages[peer]++;
    b->fd[peer] = m->fd;
}

static void parted(void *arg, struct router *r, int fd)
{
    (void)arg, (void)r, (void)fd;
}

static void refused(void *arg, struct router *r, const char *why)
{
    (void)arg, (void)r, (void)why;
}

static void bench_open(struct bench *b)
{
    const struct router_handler handler = { arrived, parted, refused, b };
    struct err err = { "" };
    struct keys keys;
    int fd[2];

    *b = (struct bench){ .fd = { -2, -2 } };
    keys_create(&keys);
    if (fd_pipe(fd) < 0 || (b->peers = fork()) < 0)
        abort();
    if (b->peers == 0) {
        close(fd[1]);
        peers_main(fd[0], &keys);
    }
    close(fd[0]);
    b->orders = fd[1];
    b->context = zmq_ctx_new();
    if (!(b->loop = loop_create(&clock_system, &err)) ||
        !(b->router = network_router_create(b->loop, b->context, &keys, "cellspan", &handler,
                                            &err)) ||
        network_router_bind(b->router, "tcp://127.0.0.1:*") != 0)
        abort();
    snprintf(b->endpoint, sizeof b->endpoint, "tcp://127.0.0.1:%u", network_router_port(b->router));
}

static void bench_close(struct bench *b)
{
    close(b->orders);
    (void)waitpid(b->peers, NULL, 0);
    router_destroy(b->router);
    loop_destroy(b->loop);
    zmq_ctx_term(b->context);
}

static void tell(struct bench *b, enum deed deed, unsigned peer)
{
    struct order o = { .deed = deed, .peer = peer };

    snprintf(o.endpoint, sizeof o.endpoint, "%s", b->endpoint);
    if (write(b->orders, &o, sizeof o) != (ssize_t)sizeof o)
        abort();
}

/* The number that the next connection gets. */
static int next_number(void)
{
    const int fd = dup(STDIN_FILENO);

    if (fd < 0)
        abort();
    close(fd);
    return fd;
}

/* Waits, while the router reads nothing. */
static bool becomes(int fd, bool open)
{
    unsigned ms = 0;

    while ((fcntl(fd, F_GETFD) >= 0) != open && ms < LIMIT_MS) {
        (void)poll(NULL, 0, STEP_MS);
        ms += STEP_MS;
    }
    return ms < LIMIT_MS;
}

static void stop(void *loop)
{
    loop_stop(loop);
}

static bool hears(struct bench *b, unsigned peer, unsigned messages)
{
    for (unsigned ms = 0; b->messages[peer] < messages && ms < LIMIT_MS; ms += STEP_MS) {
        struct watch *w = loop_timer(b->loop, STEP_MS * NS_PER_MS, 0, stop, b->loop, NULL);

        if (!w || loop_run(b->loop, NULL) < 0)
            abort();
        watch_stop(w);
    }
    return b->messages[peer] == messages;
}

/* The first peer speaks and leaves before the router reads anything. The number that it had. */
static int one_speaks_and_leaves(struct bench *b)
{
    const int fd = next_number();

    tell(b, OPEN, 0);
    tell(b, SAY, 0);
    ok(becomes(fd, true), "a peer connects");
    tell(b, CLOSE, 0);
    ok(becomes(fd, false), "and leaves");
    return fd;
}

static void a_connection_that_has_ended_has_no_descriptor(void)
{
    struct bench b;
    int fd;

    bench_open(&b);
    fd = next_number();
    tell(&b, OPEN, 1);
    tell(&b, SAY, 1);
    ok(hears(&b, 1, 1) && b.fd[1] == fd, "a message has the descriptor of its connection");
    (void)one_speaks_and_leaves(&b);
    ok(hears(&b, 0, 1), "what a connection had sent before its end is read");
    is_int(b.fd[0], -1, "and belongs to no descriptor");
    bench_close(&b);
}

static void a_number_that_is_used_again_is_that_of_the_new_one(void)
{
    struct bench b;
    int fd;

    bench_open(&b);
    fd = one_speaks_and_leaves(&b);
    tell(&b, OPEN, 1);
    tell(&b, SAY, 1);
    ok(becomes(fd, true), "another gets its number");
    ok(hears(&b, 0, 1) && hears(&b, 1, 1), "both are heard");
    is_int(b.fd[0], -1, "what the former had sent does not belong to it");
    tell(&b, SAY, 1);
    ok(hears(&b, 1, 2) && b.fd[1] == fd, "what the other one sends then does");
    bench_close(&b);
}

int main(void)
{
    struct err err = { "" };

    (void)signal(SIGPIPE, SIG_IGN);
    if (random_open(&err) < 0)
        abort();
    a_connection_that_has_ended_has_no_descriptor();
    a_number_that_is_used_again_is_that_of_the_new_one();
    return plan_done();
}
