/* SPDX-License-Identifier: BSD-3-Clause */
/* A message with too many frames is read over many turns of the loop, and its frames are not kept.
 */
#include "kernel/jupyter/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/jupyter/out_message.h"

#define FIRST_FRAMES 16u

void inbox_init(struct inbox *in, enum channel channel, const char *name, void *socket,
                struct jupyter_session *session, struct refusals *refusals)
{
    memset(in, 0, sizeof *in);
    in->channel = channel;
    in->name = name;
    in->socket = socket;
    in->session = session;
    in->refusals = refusals;
}

static void parts_drop(struct inbox *in)
{
    for (size_t i = 0; i < in->n; i++)
        zmq_msg_close(&in->part[i]);
    in->n = 0;
}

void inbox_release(struct inbox *in)
{
    parts_drop(in);
    free(in->part);
    memset(in, 0, sizeof *in);
}

/* Logs the first of a kind, the tenth, the hundredth …, so that a flood does not fill the disk. */
static void refuse(struct inbox *in, enum jupyter_fault fault)
{
    unsigned long long n = ++in->refusals->count[fault];

    while (n % 10 == 0)
        n /= 10;
    if (n == 1)
        log_warn("jupyter", "%s: a message %s: dropped (%llu of this kind so far)", in->name,
                 jupyter_fault_text(fault), in->refusals->count[fault]);
}

/* Keeps the frame. false: there are too many, or memory is out. */
static bool part_keep(struct inbox *in, zmq_msg_t *frame)
{
    if (in->n >= JUPYTER_FRAMES_MAX)
        return false;
    if (in->n == in->cap) {
        const size_t cap = in->cap ? in->cap * 2 : FIRST_FRAMES;
        /* no realloc: only zmq_msg_move may move a zmq_msg_t */
        zmq_msg_t *part = malloc(cap * sizeof *part);

        if (!part)
            return false;
        for (size_t i = 0; i < in->n; i++) {
            zmq_msg_init(&part[i]);
            zmq_msg_move(&part[i], &in->part[i]);
        }
        free(in->part);
        in->part = part;
        in->cap = cap;
    }
    zmq_msg_init(&in->part[in->n]);
    zmq_msg_move(&in->part[in->n++], frame);
    return true;
}

/* Reads one frame. 1: the message is complete; 0: more frames follow; -1: no frame is there. */
static int frame_read(struct inbox *in)
{
    zmq_msg_t frame;
    int more, rc;

    zmq_msg_init(&frame);
    while ((rc = zmq_msg_recv(&frame, in->socket, ZMQ_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (rc < 0) {
        zmq_msg_close(&frame);
        return -1;
    }
    more = zmq_msg_more(&frame);
    in->taken += zmq_msg_size(&frame) + (more ? 0 : OUT_MESSAGE_ALLOWANCE);
    if (!in->skipping && !part_keep(in, &frame)) {
        in->skipping = true;
        parts_drop(in);
    }
    zmq_msg_close(&frame);
    return !more;
}

static struct request *complete(struct inbox *in)
{
    struct request *r = NULL;
    enum jupyter_fault fault = JUPYTER_TOO_MANY;

    if (!in->skipping)
        fault = request_create(in->channel, in->part, in->n, in->session, &r);
    in->skipping = false;
    parts_drop(in);
    if (fault != JUPYTER_FINE)
        refuse(in, fault);
    return r;
}

struct request *inbox_next(struct inbox *in, unsigned *budget)
{
    while (*budget > 0) {
        const int rc = frame_read(in);
        struct request *r;

        if (rc < 0)
            return NULL;
        --*budget;
        if (rc == 1 && (r = complete(in)))
            return r;
    }
    return NULL;
}
