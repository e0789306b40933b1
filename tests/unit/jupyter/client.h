/* SPDX-License-Identifier: BSD-3-Clause */
/* client.h - a small Jupyter client, which blocks with time limits. */
#ifndef TESTS_UNIT_JUPYTER_CLIENT_H
#define TESTS_UNIT_JUPYTER_CLIENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "kernel/jupyter/connection.h"
#include "protocol/jupyter.h"

#define PARTS_MOST 64
#define WAIT_MS    60000
#define SILENCE_MS 250 /* how long no answer is waited for */

struct test_client {
    void *context;
    void *socket[PORTS];
    struct jupyter_session session;
    char id[128]; /* msg_id of what was sent last */
};

/* One message, as it came and decoded; release it before the next. */
struct received {
    zmq_msg_t part[PARTS_MOST];
    struct slice frame[PARTS_MOST];
    size_t n;
    enum jupyter_fault fault;
    struct jupyter_message m;
};

struct test_keys { /* NULL: not encrypted */
    const char *server, *public, *secret;
};

/* Fills a connection over unix sockets DIR/NAME-1 and so on; release it. */
static inline void connection_over_ipc(struct connection *c, const char *dir, const char *name)
{
    char path[128];

    *c = (struct connection){ .ipc = true, .key_size = 6 };
    snprintf(path, sizeof path, "%s/%s", dir, name);
    c->ip = strdup(path);
    c->key = strdup("secret");
    if (!c->ip || !c->key)
        abort();
    for (unsigned port = 0; port < PORTS; port++)
        c->port[port] = port + 1;
}

/* Opens and connects one socket. A SUB holds one message: whoever does not read it is a slow
 * reader.
 */
static inline void client_connect(struct test_client *c, const struct connection *to,
                                  enum port port, const char *identity, struct test_keys keys)
{
    static const int type[PORTS] = { ZMQ_DEALER, ZMQ_DEALER, ZMQ_DEALER, ZMQ_SUB, ZMQ_REQ };
    const int none = 0, one = 1, quick_ms = 10;
    struct err err = { "" };
    char endpoint[CONNECTION_ENDPOINT_SIZE];
    void *s = c->socket[port] = zmq_socket(c->context, type[port]);

    zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(s, ZMQ_RCVHWM, type[port] == ZMQ_SUB ? &one : &none, sizeof none);
    zmq_setsockopt(s, ZMQ_RECONNECT_IVL, &quick_ms, sizeof quick_ms);
    if (type[port] != ZMQ_SUB)
        zmq_setsockopt(s, ZMQ_IDENTITY, identity, strlen(identity));
    if (keys.server) {
        zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, keys.server, 41);
        zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, keys.public, 41);
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, keys.secret, 41);
    }
    if (type[port] == ZMQ_SUB)
        zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    if (connection_endpoint(to, port, endpoint, &err) < 0 || zmq_connect(s, endpoint) < 0)
        abort();
}

/* session: never the same twice, or the second one's messages are replays. */
static inline void client_begin(struct test_client *c, const struct connection *to,
                                const char *session)
{
    struct err err = { "" };

    c->context = zmq_ctx_new();
    if (jupyter_session_init(&c->session, session, "tester", slice_of(to->key, to->key_size),
                             &err) < 0)
        abort();
}

static inline void client_open(struct test_client *c, const struct connection *to,
                               const char *identity, const char *session, struct test_keys keys)
{
    client_begin(c, to, session);
    for (unsigned port = 0; port < PORTS; port++)
        client_connect(c, to, (enum port)port, identity, keys);
}

static inline void client_close(struct test_client *c)
{
    for (unsigned port = 0; port < PORTS; port++)
        zmq_close(c->socket[port]);
    zmq_ctx_term(c->context);
    jupyter_session_release(&c->session);
}

static inline void frames_send(void *socket, const struct slice *frame, size_t n)
{
    for (size_t i = 0; i < n; i++)
        zmq_send(socket, frame[i].p, frame[i].n, i + 1 < n ? ZMQ_SNDMORE : 0);
}

/* Signs and sends; *out, where given, is what was sent (borrowed until the next). */
static inline void client_say(struct test_client *c, enum port port, const char *type,
                              const char *content, struct slice out[JUPYTER_OUT_FRAMES])
{
    struct slice own[JUPYTER_OUT_FRAMES];
    struct slice *frame = out ? out : own;
    struct err err = { "" };
    json_t *header;

    if (jupyter_encode(&c->session, type, "2026-01-02T03:04:05Z", slice_text(""), slice_text(""),
                       slice_text(content), frame, &err) < 0)
        abort();
    header = jupyter_object(frame[JUPYTER_OUT_HEADER]);
    snprintf(c->id, sizeof c->id, "%s", json_string_value(json_object_get(header, "msg_id")));
    json_decref(header);
    frames_send(c->socket[port], frame, JUPYTER_OUT_FRAMES);
}

/* false: nothing came in time. */
static inline bool client_hear(struct test_client *c, enum port port, int limit_ms,
                               struct received *r)
{
    void *s = c->socket[port];
    bool more = true;

    zmq_setsockopt(s, ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms);
    for (r->n = 0; more && r->n < PARTS_MOST; r->n++) {
        zmq_msg_init(&r->part[r->n]);
        if (zmq_msg_recv(&r->part[r->n], s, 0) < 0) {
            zmq_msg_close(&r->part[r->n]);
            return false;
        }
        r->frame[r->n] = slice_of(zmq_msg_data(&r->part[r->n]), zmq_msg_size(&r->part[r->n]));
        more = zmq_msg_more(&r->part[r->n]);
    }
    r->fault = jupyter_decode(&c->session, r->frame, r->n, &r->m);
    return true;
}

static inline void received_release(struct received *r)
{
    if (r->fault == JUPYTER_FINE)
        jupyter_message_release(&r->m);
    for (size_t i = 0; i < r->n; i++)
        zmq_msg_close(&r->part[i]);
}

static inline const char *content_text(const struct received *r, const char *name)
{
    const char *text = r->fault == JUPYTER_FINE
                           ? json_string_value(json_object_get(r->m.content, name))
                           : NULL;

    return text ? text : "";
}

/* Waits for a message of this type on the channel, dropping others. */
static inline bool client_await(struct test_client *c, enum port port, const char *type,
                                struct received *r)
{
    while (client_hear(c, port, WAIT_MS, r)) {
        if (r->fault == JUPYTER_FINE && strcmp(r->m.type, type) == 0)
            return true;
        received_release(r);
    }
    return false;
}

/* Does a message of this type come? Released here. */
static inline bool client_awaits(struct test_client *c, enum port port, const char *type)
{
    struct received r;

    if (!client_await(c, port, type, &r))
        return false;
    received_release(&r);
    return true;
}

static inline bool client_silence(struct test_client *c, enum port port)
{
    struct received r;

    if (!client_hear(c, port, SILENCE_MS, &r))
        return true;
    received_release(&r);
    return false;
}

#endif
