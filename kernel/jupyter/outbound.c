/* outbound.c - the last frame carries the count: libzmq frees it when the whole message has left for every subscriber. */
#include "kernel/jupyter/outbound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWANCE 512u /* bytes: frames' structs and the small frames */

/* Lives in front of the counted frame's bytes. */
struct counted {
    struct tally *tally;
    size_t size;
    char bytes[];
};

/* Called by libzmq's I/O thread, or by whoever closes a frame that never left. */
static void counted_free(void *data, void *hint)
{
    struct counted *c = hint;

    (void)data;
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

struct outbound *outbound_create(const struct slice *frame, size_t n, struct tally *tally, struct err *err)
{
    struct outbound *o = malloc(sizeof *o + n * sizeof o->part[0]);

    if (!o)
        return err_null(err, "out of memory");
    o->next = NULL;
    o->size = ALLOWANCE;
    for (size_t i = 0; i < n; i++)
        o->size += frame[i].n;
    for (o->n = 0; o->n < n; o->n++) {
        const size_t i = o->n;
        const int rc = tally && i == n - 1 ? part_counted(&o->part[i], frame[i], o->size, tally)
                                           : part_copied(&o->part[i], frame[i]);

        if (rc < 0) {
            outbound_destroy(o);
            return err_null(err, "out of memory");
        }
    }
    return o;
}

void outbound_destroy(struct outbound *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++)
        zmq_msg_close(&o->part[i]);
    free(o);
}

/* Once the first frame was taken libzmq takes the others: it counts messages, not frames. */
int outbound_send(struct outbound *o, void *socket)
{
    for (size_t i = 0; i < o->n; i++) {
        const int flags = ZMQ_DONTWAIT | (i + 1 < o->n ? ZMQ_SNDMORE : 0);
        int rc;

        while ((rc = zmq_msg_send(&o->part[i], socket, flags)) < 0 && errno == EINTR)
            ;
        if (rc < 0)
            return i == 0 && errno == EAGAIN ? 1 : -1;
    }
    return 0;
}
