/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c - a Jupyter client. It uses the kernel's own code to encode and read messages. */
#include "cli/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/monitor.h"
#include "base/random.h"
#include "kernel/jupyter/out_message.h"

#define FRAMES_PER_TURN 256u
#define LINGER_MS       500
#define READ_STEP       (256u << 10) /* the kernel is told when so much more was read */
#define RECONNECT_MS    5            /* the kernel binds a few milliseconds after we connect */

struct channel_state {
    struct client *client;
    enum client_channel channel;
    void *socket;
    struct inbox inbox;
    struct watch *watch; /* NULL: it is held */
};

struct client {
    struct loop *loop;
    char id[UUID_TEXT_SIZE];
    client_message_f f;
    void *arg;
    void *context;
    struct jupyter_session session;
    bool session_ready;
    struct refusals refusals;
    struct channel_state channel[CLIENT_CHANNELS];
    void *monitor; /* tells when iopub's connection ends; NULL: it has, or nothing would tell */
    bool tells;
    uint64_t told; /* bytes of iopub; 0: nothing yet */
    char *asked;   /* owned: msg_id of the last request on shell */
};

static bool is_ours(const struct client *c, const struct request *m)
{
    json_t *parent = jupyter_object(request_part(m, JUPYTER_PARENT));
    const char *id = json_string_value(json_object_get(parent, "msg_id"));
    const bool ours = id && c->asked && strcmp(id, c->asked) == 0;

    json_decref(parent);
    return ours;
}

/* Which subscriber we are is in our own topic, which every message has: \x01NUMBER\x01. */
static void tell_read(struct client *c, const struct request *m)
{
    const uint64_t bytes = c->channel[CLIENT_IOPUB].inbox.taken;
    char topic[32], content[96];
    struct err err = { "" };
    const struct slice *first;
    size_t n;

    if (c->told && bytes - c->told < READ_STEP)
        return;
    first = request_identity(m, &n);
    if (n == 0 || first->n == 0 || first->p[0] != '\x01')
        return;
    snprintf(topic, sizeof topic, "%.*s", SLICE_ARG(*first));
    snprintf(content, sizeof content, "{\"subscriber\":%llu,\"bytes\":%llu}",
             strtoull(topic + 1, NULL, 10), (unsigned long long)bytes);
    if (client_send(c, CLIENT_CONTROL, CHANNELS_READ, slice_text(content), &err) == 0)
        c->told = bytes; /* otherwise the next message says it */
}

static void readable(void *arg)
{
    struct channel_state *s = arg;
    unsigned budget = FRAMES_PER_TURN;
    struct request *m;

    while (s->watch && (m = inbox_next(&s->inbox, &budget))) {
        if (s->channel == CLIENT_IOPUB && s->client->tells)
            tell_read(s->client, m);
        s->client->f(s->client->arg, s->channel, m, is_ours(s->client, m));
        request_unref(m);
    }
}

static int channel_open(struct client *c, enum client_channel channel, const struct connection *to,
                        struct err *err)
{
    static const enum port port[CLIENT_CHANNELS] = { PORT_SHELL, PORT_CONTROL, PORT_IOPUB,
                                                     PORT_STDIN };
    static const char *const name[CLIENT_CHANNELS] = { "shell", "control", "iopub", "stdin" };
    struct channel_state *s = &c->channel[channel];
    char endpoint[CONNECTION_ENDPOINT_SIZE];

    s->client = c;
    s->channel = channel;
    if (connection_endpoint(to, port[channel], endpoint, err) < 0)
        return -1;
    /* one routing id for all channels: questions find us by it */
    if (!(s->socket = zmq_socket(c->context, channel == CLIENT_IOPUB ? ZMQ_SUB : ZMQ_DEALER)) ||
        zmq_setsockopt(s->socket, ZMQ_ROUTING_ID, c->id, strlen(c->id)) < 0 ||
        loop_zmq_set(s->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) < 0 ||
        loop_zmq_set(s->socket, ZMQ_LINGER, LINGER_MS) < 0 ||
        loop_zmq_set(s->socket, ZMQ_RCVHWM, 0) < 0 ||
        (channel == CLIENT_IOPUB && zmq_setsockopt(s->socket, ZMQ_SUBSCRIBE, "", 0) < 0) ||
        (channel == CLIENT_IOPUB &&
         !(c->monitor = monitor_open(c->context, s->socket, ZMQ_EVENT_DISCONNECTED, err))) ||
        zmq_connect(s->socket, endpoint) < 0)
        return err_set(err, "%s: ZeroMQ: %s", endpoint, zmq_strerror(errno));
    inbox_init(&s->inbox, CHANNEL_SHELL, name[channel], s->socket, &c->session, &c->refusals);
    return (s->watch = loop_zmq(c->loop, s->socket, readable, s, err)) ? 0 : -1;
}

struct client *client_create(struct loop *loop, const struct connection *to, unsigned channels,
                             bool tells, client_message_f f, void *arg, struct err *err)
{
    struct client *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->loop = loop;
    c->tells = tells;
    c->f = f;
    c->arg = arg;
    random_uuid(c->id);
    if (jupyter_session_init(&c->session, c->id, "cellspan", slice_of(to->key, to->key_size), err) <
        0)
        goto undo;
    c->session_ready = true;
    if (!(c->context = zmq_ctx_new())) {
        err_set(err, "ZeroMQ: %s", zmq_strerror(errno));
        goto undo;
    }
    for (unsigned i = 0; i < CLIENT_CHANNELS; i++)
        if ((channels & 1u << i) && channel_open(c, (enum client_channel)i, to, err) < 0)
            goto undo;
    return c;
undo:
    client_destroy(c);
    return NULL;
}

void client_destroy(struct client *c)
{
    if (!c)
        return;
    for (unsigned i = 0; i < CLIENT_CHANNELS; i++) {
        watch_stop(c->channel[i].watch);
        inbox_release(&c->channel[i].inbox);
        if (c->channel[i].socket)
            zmq_close(c->channel[i].socket);
    }
    if (c->monitor)
        zmq_close(c->monitor);
    if (c->context)
        while (zmq_ctx_term(c->context) < 0 && errno == EINTR)
            ;
    if (c->session_ready)
        jupyter_session_release(&c->session);
    free(c->asked);
    free(c);
}

int client_hold(struct client *c, enum client_channel channel, bool hold, struct err *err)
{
    struct channel_state *s = &c->channel[channel];

    if (hold)
        watch_clear(&s->watch);
    else if (!s->watch && !(s->watch = loop_zmq(c->loop, s->socket, readable, s, err)))
        return -1;
    return 0;
}

bool client_is_drained(struct client *c)
{
    int events = 0;
    size_t size = sizeof events;
    char event[16];

    if (c->monitor && zmq_recv(c->monitor, event, sizeof event, ZMQ_DONTWAIT) >= 0) {
        zmq_close(c->monitor);
        c->monitor = NULL;
    }
    if (c->monitor)
        return false;
    return zmq_getsockopt(c->channel[CLIENT_IOPUB].socket, ZMQ_EVENTS, &events, &size) < 0 ||
           !(events & ZMQ_POLLIN);
}

/* The header was just written by us: its msg_id is where we put it. */
static int asked_set(struct client *c, struct slice header)
{
    json_t *object = jupyter_object(header);
    const char *id = json_string_value(json_object_get(object, "msg_id"));

    free(c->asked);
    c->asked = id ? strdup(id) : NULL;
    json_decref(object);
    return c->asked ? 0 : -1;
}

int client_send(struct client *c, enum client_channel channel, const char *type,
                struct slice content, struct err *err)
{
    struct slice frame[JUPYTER_OUT_FRAMES];
    struct out_message *o;
    char date[32];
    int rc;

    clock_iso8601(date);
    if (jupyter_encode(&c->session, type, date, slice_text(""), slice_text(""), content, frame,
                       err) < 0)
        return -1;
    if (channel == CLIENT_SHELL && asked_set(c, frame[JUPYTER_OUT_HEADER]) < 0)
        return err_set(err, "out of memory");
    if (!(o = out_message_create(frame, JUPYTER_OUT_FRAMES, err)))
        return -1;
    rc = out_message_send(o, c->channel[channel].socket);
    out_message_destroy(o);
    return rc == 0 ? 0 : err_set(err, "%s can't be sent: %s", type, zmq_strerror(errno));
}
