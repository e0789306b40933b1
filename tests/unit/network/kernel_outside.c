/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_outside.c - what kernel/agents calls outside: ZeroMQ's messages, which are counted
 * references to bytes, a loop with one timer, and sockets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "tests/unit/network/fleet.h"

struct watch {
    loop_f f;
    void *arg;
    uint64_t due_ns;
};

static struct fleet *fleet; /* one at a time */
static struct watch timer;

void outside_open(struct fleet *f)
{
    fleet = f;
}

/* ---- a loop ---- */

static uint64_t now_ns(void *arg)
{
    (void)arg;
    return fleet->now;
}

static const struct clock the_clock = { .now_ns = now_ns };

const struct clock *loop_clock(const struct loop *loop)
{
    (void)loop;
    return &the_clock;
}

struct watch *loop_timer(struct loop *loop, uint64_t after_ns, uint64_t every_ns, loop_f f,
                         void *arg, struct err *err)
{
    (void)loop, (void)every_ns, (void)err;
    timer = (struct watch){ f, arg, UINT64_MAX };
    loop_timer_again(&timer, after_ns);
    return &timer;
}

void loop_timer_again(struct watch *w, uint64_t after_ns)
{
    w->due_ns = after_ns == LOOP_OFF ? UINT64_MAX : fleet->now + after_ns;
}

uint64_t outside_due_ns(void)
{
    return timer.due_ns;
}

void outside_tick(void)
{
    if (timer.due_ns > fleet->now)
        return;
    timer.due_ns = UINT64_MAX;
    timer.f(timer.arg);
}

/* ---- sockets ---- */

/* A wire's number is the descriptor of its connection. (ld --wrap) */
int __wrap_shutdown(int fd, int how);

int __wrap_shutdown(int fd, int how)
{
    struct wire *w = network_wire(&fleet->net, (unsigned)fd);

    (void)how;
    if (w && !w->closed[SIDE_KERNEL] && planted != PLANTED_TWO_CONNECTIONS)
        network_close(&fleet->net, w, SIDE_KERNEL, fleet->now);
    return 0;
}

void agents_zap_user(unsigned node, const unsigned char key[KEY_SIZE],
                     char user[static AGENTS_ZAP_USER_SIZE])
{
    uint64_t begin;

    memcpy(&begin, key, sizeof begin);
    (void)snprintf(user, AGENTS_ZAP_USER_SIZE, "%u.%016" PRIx64, node, begin);
}

void agents_zap_refused(struct agents_zap *z, const char *what)
{
    (void)z, (void)what;
}

void meter_watch(struct meter *m, int fd)
{
    (void)m, (void)fd;
}

bool meter_moved(struct meter *m)
{
    (void)m;
    return false;
}

/* ---- agents_nodes.c: no engine gives a notice ---- */

void agents_nodes_give_kept(struct agents *a, struct node_link *link)
{
    (void)a, (void)link;
}

/* ---- blobs of this machine: there are none ---- */

void local_blobs_release(struct local_blobs *t)
{
    (void)t;
}

int local_blobs_begin(struct local_blobs *t, int socket, const struct span *chunk, struct err *err)
{
    (void)t, (void)socket, (void)chunk;
    return err_set(err, "there are no blobs");
}

bool local_blobs_acked(struct local_blobs *t, const struct span *m, uint64_t now)
{
    (void)t, (void)m, (void)now;
    return false;
}

bool local_blobs_again(struct local_blobs *t, const struct span *ship)
{
    (void)t, (void)ship;
    return false;
}

bool local_blobs_next(struct local_blobs *t, struct span *m, uint64_t now)
{
    (void)t, (void)m, (void)now;
    return false;
}

void local_blobs_drop(struct local_blobs *t, uint64_t blob)
{
    (void)t, (void)blob;
}

/* ---- ZeroMQ's messages ---- */

struct bytes {
    unsigned refs;
    size_t n;
    char p[];
};

static struct bytes *get(const zmq_msg_t *m)
{
    struct bytes *b;

    memcpy(&b, m, sizeof b);
    return b;
}

static void set(zmq_msg_t *m, struct bytes *b)
{
    memcpy(m, &b, sizeof b);
}

int zmq_msg_init(zmq_msg_t *m)
{
    set(m, NULL);
    return 0;
}

int zmq_msg_init_size(zmq_msg_t *m, size_t n)
{
    struct bytes *b = malloc(sizeof *b + n);

    if (!b)
        abort();
    b->refs = 1;
    b->n = n;
    set(m, b);
    return 0;
}

int zmq_msg_init_data(zmq_msg_t *m, void *p, size_t n, zmq_free_fn *free_it, void *hint)
{
    (void)zmq_msg_init_size(m, n);
    memcpy(zmq_msg_data(m), p, n);
    free_it(p, hint);
    return 0;
}

int zmq_msg_close(zmq_msg_t *m)
{
    struct bytes *b = get(m);

    if (b && --b->refs == 0)
        free(b);
    set(m, NULL);
    return 0;
}

int zmq_msg_copy(zmq_msg_t *to, zmq_msg_t *from)
{
    struct bytes *b = get(from);

    (void)zmq_msg_close(to);
    if (b)
        b->refs++;
    set(to, b);
    return 0;
}

void *zmq_msg_data(zmq_msg_t *m)
{
    struct bytes *b = get(m);

    return b ? b->p : NULL;
}

size_t zmq_msg_size(const zmq_msg_t *m)
{
    const struct bytes *b = get(m);

    return b ? b->n : 0;
}
