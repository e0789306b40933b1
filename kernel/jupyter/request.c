/* SPDX-License-Identifier: BSD-3-Clause */
/* The frames stay in ZeroMQ's memory and are not copied. */
#include "kernel/jupyter/inbox.h"

#include <stdlib.h>

struct request {
    unsigned refs;
    enum channel channel;
    struct jupyter_message message; /* borrows from the frames below */
    char begun[32];
    bool over;
    int outputs;
    size_t n;
    struct slice *frame; /* n of them, after the parts in the same allocation */
    zmq_msg_t part[];
};

static void request_free(struct request *r)
{
    for (size_t i = 0; i < r->n; i++)
        zmq_msg_close(&r->part[i]);
    free(r);
}

enum jupyter_fault request_create(enum channel channel, zmq_msg_t *part, size_t n,
                                  struct jupyter_session *session, struct request **out)
{
    struct request *r;
    enum jupyter_fault fault;

    *out = NULL;
    if (n > JUPYTER_FRAMES_MAX)
        return JUPYTER_TOO_MANY;
    if (!(r = malloc(sizeof *r + n * (sizeof r->part[0] + sizeof r->frame[0]))))
        return JUPYTER_NO_MEMORY;
    r->refs = 1;
    r->channel = channel;
    r->begun[0] = '\0';
    r->over = false;
    r->outputs = 0;
    r->n = n;
    r->frame = (struct slice *)(void *)(r->part + n);
    /* a small frame's bytes are inside the zmq_msg_t: take their address only after the move */
    for (size_t i = 0; i < n; i++) {
        zmq_msg_init(&r->part[i]);
        zmq_msg_move(&r->part[i], &part[i]);
        r->frame[i] = slice_of(zmq_msg_data(&r->part[i]), zmq_msg_size(&r->part[i]));
    }
    if ((fault = jupyter_decode(session, r->frame, n, &r->message)) == JUPYTER_FINE)
        *out = r;
    else
        request_free(r);
    return fault;
}

struct request *request_ref(struct request *r)
{
    r->refs++;
    return r;
}

void request_unref(struct request *r)
{
    if (!r || --r->refs > 0)
        return;
    jupyter_message_release(&r->message);
    request_free(r);
}

void request_begin(struct request *r)
{
    clock_iso8601(r->begun);
}

const char *request_begun(const struct request *r)
{
    return r->begun;
}

void request_end(struct request *r)
{
    r->over = true;
}

bool request_is_over(const struct request *r)
{
    return r->over;
}

void request_add_outputs(struct request *r, int n)
{
    r->outputs += n;
}

int request_outputs(const struct request *r)
{
    return r->outputs;
}

enum channel request_channel(const struct request *r)
{
    return r->channel;
}

const char *request_type(const struct request *r)
{
    return r->message.type;
}

const char *request_id(const struct request *r)
{
    return r->message.id;
}

const char *request_subshell(const struct request *r)
{
    const char *id = json_string_value(json_object_get(r->message.header, "subshell_id"));

    return id && *id ? id : NULL;
}

const json_t *request_content(const struct request *r)
{
    return r->message.content;
}

struct slice request_part(const struct request *r, enum jupyter_part part)
{
    return r->message.part[part];
}

const struct slice *request_buffers(const struct request *r, size_t *n)
{
    *n = r->message.buffers;
    return r->message.buffer;
}

const struct slice *request_identity(const struct request *r, size_t *n)
{
    *n = r->message.identities;
    return r->message.identity;
}

bool request_same_client(const struct request *a, const struct request *b)
{
    if (a->message.identities != b->message.identities)
        return false;
    for (size_t i = 0; i < a->message.identities; i++)
        if (!slice_equal(a->message.identity[i], b->message.identity[i]))
            return false;
    return true;
}
