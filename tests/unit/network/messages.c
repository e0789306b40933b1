/* SPDX-License-Identifier: BSD-3-Clause */
/* messages.c - ZeroMQ's messages, which are counted references to bytes. */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "tests/unit/network/fleet.h"

struct bytes {
    unsigned refs;
    size_t n;
    char p[];
};

/* What a zmq_msg_t holds here. */
struct message {
    struct bytes *bytes; /* NULL: it is empty */
    bool more;
    unsigned wire; /* on which it came; 0: it did not */
};

_Static_assert(sizeof(struct message) <= sizeof(zmq_msg_t), "a message has room in ZeroMQ's");

static struct message get(const zmq_msg_t *m)
{
    struct message own;

    memcpy(&own, m, sizeof own);
    return own;
}

static void set(zmq_msg_t *m, struct message own)
{
    memcpy(m, &own, sizeof own);
}

int zmq_msg_init(zmq_msg_t *m)
{
    set(m, (struct message){ NULL, false, 0 });
    return 0;
}

int zmq_msg_init_size(zmq_msg_t *m, size_t n)
{
    struct bytes *b = malloc(sizeof *b + n);

    if (!b)
        abort();
    b->refs = 1;
    b->n = n;
    set(m, (struct message){ b, false, 0 });
    return 0;
}

int zmq_msg_init_data(zmq_msg_t *m, void *p, size_t n, zmq_free_fn *free_it, void *hint)
{
    messages_fill(m, slice_of(p, n), false, 0);
    free_it(p, hint);
    return 0;
}

int zmq_msg_close(zmq_msg_t *m)
{
    struct bytes *b = get(m).bytes;

    if (b && --b->refs == 0)
        free(b);
    return zmq_msg_init(m);
}

int zmq_msg_copy(zmq_msg_t *to, zmq_msg_t *from)
{
    const struct message own = get(from);

    (void)zmq_msg_close(to);
    if (own.bytes)
        own.bytes->refs++;
    set(to, own);
    return 0;
}

int zmq_msg_move(zmq_msg_t *to, zmq_msg_t *from)
{
    (void)zmq_msg_close(to);
    set(to, get(from));
    return zmq_msg_init(from);
}

void *zmq_msg_data(zmq_msg_t *m)
{
    struct bytes *b = get(m).bytes;

    return b ? b->p : NULL;
}

size_t zmq_msg_size(const zmq_msg_t *m)
{
    const struct bytes *b = get(m).bytes;

    return b ? b->n : 0;
}

int zmq_msg_more(const zmq_msg_t *m)
{
    return get(m).more;
}

/* ZMQ_SRCFD: a wire's number is the descriptor of its connection. */
int zmq_msg_get(const zmq_msg_t *m, int property)
{
    (void)property;
    return (int)get(m).wire;
}

void messages_fill(zmq_msg_t *m, struct slice bytes, bool more, unsigned wire)
{
    struct message own;

    (void)zmq_msg_init_size(m, bytes.n);
    if (bytes.n)
        memcpy(zmq_msg_data(m), bytes.p, bytes.n);
    own = get(m);
    own.more = more;
    own.wire = wire;
    set(m, own);
}

unsigned messages_wire(const zmq_msg_t *m)
{
    return get(m).wire;
}
