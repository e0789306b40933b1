/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/jupyter/out_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The counted frame: its bytes and their tally. */
struct counted {
    struct tally *tally;
    size_t size;
    char bytes[];
};

/* the frame that this thread is passing to libzmq */
static _Thread_local const struct counted *on_its_way;
static _Thread_local bool given_back;

/* Called by libzmq's I/O thread, or by the thread that closes a frame that was not sent. */
static void counted_free(void *data, void *hint)
{
    struct counted *c = hint;

    (void)data;
    if (c == on_its_way)
        given_back = true;
    atomic_fetch_sub_explicit(&c->tally->bytes, c->size, memory_order_relaxed);
    free(c);
}

static int part_counted(zmq_msg_t *part, struct slice bytes, size_t size, struct tally *tally)
{
    struct counted *c = malloc(sizeof *c + bytes.n);

    if (!c)
        return -1;
    c->tally = tally;
    c->size = size;
    memcpy(c->bytes, bytes.p, bytes.n);
    if (zmq_msg_init_data(part, c->bytes, bytes.n, counted_free, c) < 0) {
        free(c);
        return -1;
    }
    atomic_fetch_add_explicit(&tally->bytes, size, memory_order_relaxed);
    return 0;
}

static int part_copied(zmq_msg_t *part, struct slice bytes)
{
    if (zmq_msg_init_size(part, bytes.n) < 0)
        return -1;
    if (bytes.n)
        memcpy(zmq_msg_data(part), bytes.p, bytes.n);
    return 0;
}

static struct out_message *with_room(size_t n)
{
    struct out_message *o = malloc(sizeof *o + n * sizeof o->part[0]);

    if (o)
        *o = (struct out_message){ .size = OUT_MESSAGE_ALLOWANCE };
    return o;
}

struct out_message *out_message_create(const struct slice *frame, size_t n, struct err *err)
{
    struct out_message *o = with_room(n);

    if (!o)
        return err_null(err, "out of memory");
    for (size_t i = 0; i < n; i++)
        o->size += frame[i].n;
    for (; o->n < n; o->n++)
        if (part_copied(&o->part[o->n], frame[o->n]) < 0) {
            out_message_destroy(o);
            return err_null(err, "out of memory");
        }
    return o;
}

struct out_message *out_message_behind(struct slice first, struct out_message *rest,
                                       struct tally *tally)
{
    struct out_message *o = with_room(rest->n + 1);

    if (!o)
        return NULL;
    o->size = rest->size + first.n;
    if (part_counted(&o->part[0], first, o->size, tally) < 0) {
        free(o);
        return NULL;
    }
    o->counted = zmq_msg_data(&o->part[0]);
    for (o->n = 1; o->n <= rest->n; o->n++) {
        zmq_msg_init(&o->part[o->n]);
        if (zmq_msg_copy(&o->part[o->n], &rest->part[o->n - 1]) < 0) {
            out_message_destroy(o);
            return NULL;
        }
    }
    return o;
}

void out_message_destroy(struct out_message *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++)
        zmq_msg_close(&o->part[i]);
    free(o);
}

static int send_parts(struct out_message *o, void *socket)
{
    int rc = 0;

    given_back = false;
    on_its_way = o->counted ? (const struct counted *)((const char *)o->counted -
                                                       offsetof(struct counted, bytes))
                            : NULL;
    for (size_t i = 0; rc == 0 && i < o->n; i++) {
        const int flags = ZMQ_DONTWAIT | (i + 1 < o->n ? ZMQ_SNDMORE : 0);

        while ((rc = zmq_msg_send(&o->part[i], socket, flags)) < 0 && errno == EINTR)
            ;
        rc = rc >= 0 ? 0 : i == 0 && errno == EAGAIN ? 1 : -1;
    }
    on_its_way = NULL;
    return rc;
}

/* If libzmq takes the first frame it takes the others, too: its limit counts messages. */
int out_message_send(struct out_message *o, void *socket)
{
    const int rc = send_parts(o, socket);

    return rc == 0 && given_back ? 2 : rc;
}
