/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates the channels and connects them: inbox.c receives, iopub.c publishes, usage.c measures.
 * It publishes busy and idle; who answers a request says when, by ops.status(). */
#include "kernel/jupyter/channels.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/log.h"
#include "base/random.h"
#include "kernel/jupyter/inbox.h"
#include "kernel/jupyter/private.h"
#include "kernel/jupyter/out_message.h"

#define INCOMING          3u
#define FRAMES_PER_TURN   512u
#define MESSAGES_PER_TURN 16u
#define FAREWELL_NS       NS_PER_S /* the most that channels_destroy waits */
#define FRAMES_ON_STACK   32u
#define TOPIC_SIZE        128u
#define BUSY_AGAIN_NS     (30 * NS_PER_S) /* servers that stop idle kernels expect one a minute */
#define BUSY_SOON_NS      (3 * NS_PER_S)
#define ASK_AGAIN_NS      (50 * NS_PER_MS)

static const enum port port_of[INCOMING] = { PORT_SHELL, PORT_CONTROL, PORT_STDIN };

/* A channel on which messages come in. */
struct incoming {
    struct channels *channels;
    struct inbox inbox;
    struct watch *watch;
};

struct channels {
    struct loop *loop;
    channels_request_f on_request;
    void *arg;
    struct connection connection;
    struct sockets sockets;
    bool bound; /* we have bound the addresses */
    struct jupyter_session session;
    bool session_ready;
    struct incoming incoming[INCOMING];
    struct refusals refusals;
    struct iopub *iopub;
    struct waiting_replies *waiting;
    struct usage *usage;
    enum occupied (*occupied)(void *arg); /* NULL: never */
    void *occupied_arg;
    struct watch *busy_again;
    struct out_message
        *question; /* waits until its client has connected its stdin channel, or NULL */
    struct watch *ask_again;
};

/* The frames of a message in order: identities or topic, the six frames of jupyter_encode, buffers.
 * If there are more than fit in `few`, they are on the heap. */
struct frames {
    struct slice few[FRAMES_ON_STACK];
    struct slice *all;
    size_t n;
};

static void frames_release(struct frames *fs)
{
    if (fs->all != fs->few)
        free(fs->all);
}

static int frames_collect(struct frames *fs, struct channels *ch, const struct request *parent,
                          const char *type, const struct slice *before, size_t n_before,
                          const struct content *p, struct err *err)
{
    char date[32];

    fs->n = n_before + JUPYTER_OUT_FRAMES + p->n;
    fs->all = fs->few;
    if (fs->n > FRAMES_ON_STACK && !(fs->all = malloc(fs->n * sizeof *fs->all)))
        return err_set(err, "out of memory");
    clock_iso8601(date);
    if (jupyter_encode(&ch->session, type, date,
                       parent ? request_part(parent, JUPYTER_HEADER) : slice_text(""), p->metadata,
                       p->content, fs->all + n_before, err) < 0) {
        frames_release(fs);
        return -1;
    }
    if (n_before)
        memcpy(fs->all, before, n_before * sizeof *before);
    if (p->n)
        memcpy(fs->all + n_before + JUPYTER_OUT_FRAMES, p->buffers, p->n * sizeof *p->buffers);
    return 0;
}

/* 1: no client has that identity (only reported with ZMQ_ROUTER_MANDATORY). */
static int out_message_route(struct out_message *o, struct channels *ch, enum channel channel,
                             struct err *err)
{
    const int rc = out_message_send(o, ch->sockets.socket[port_of[channel]]);

    if (rc < 0 && errno == EHOSTUNREACH)
        return 1;
    return rc == 0 ? 0
                   : err_set(err, "a reply can't leave: %s",
                             rc > 0 ? "the client takes nothing" : zmq_strerror(errno));
}

/* Sends the frames, or keeps them until clients have read the cell's output. */
static int route(struct channels *ch, enum channel channel, bool of_cell, const struct frames *fs,
                 struct err *err)
{
    struct out_message *o = out_message_create(fs->all, fs->n, err);
    int rc;

    if (o && of_cell && waiting_replies_keep(ch->waiting, o))
        return 0;
    rc = o ? out_message_route(o, ch, channel, err) : -1;
    out_message_destroy(o);
    return rc;
}

static void send_waiting(void *arg, struct out_message *o)
{
    struct err err = { "" };

    if (out_message_route(o, arg, CHANNEL_SHELL, &err) < 0)
        log_error("jupyter", "execute_reply: %s", err.text);
    out_message_destroy(o);
}

void channels_client(struct channels *ch, long pid)
{
    waiting_replies_client(ch->waiting, pid);
}

/* Appends the reply's metadata (an object, or empty) with `started` added as the first member. */
static int metadata_started(struct buf *out, const struct request *r, struct slice metadata)
{
    const bool more = metadata.n > 2; /* not "{}" */

    if (!*request_begun(r))
        return buf_add(out, metadata.p, metadata.n);
    return buf_addf(out, "{\"started\":\"%s\"%s%.*s", request_begun(r), more ? "," : "}",
                    more ? (int)(metadata.n - 1) : 0, more ? (const char *)metadata.p + 1 : "");
}

int channels_reply(struct channels *ch, struct request *r, const char *type,
                   const struct content *p, struct err *err)
{
    struct frames fs;
    struct buf metadata = BUF_INIT;
    struct content whole = *p;
    size_t n_identity;
    const struct slice *identity = request_identity(r, &n_identity);
    int rc = metadata_started(&metadata, r, p->metadata);

    whole.metadata = buf_slice(&metadata);
    if (rc < 0) {
        err_set(err, "out of memory");
    } else if ((rc = frames_collect(&fs, ch, r, type, identity, n_identity, &whole, err)) == 0) {
        rc = route(ch, request_channel(r),
                   request_channel(r) == CHANNEL_SHELL && strcmp(type, "execute_reply") == 0, &fs,
                   err);
        frames_release(&fs);
    }
    buf_release(&metadata);
    return rc < 0 ? -1 : 0; /* 1: the client is gone and needs no reply */
}

/* Messages that a client may miss while it does not read. */
static enum iopub_bulk bulk_of(const char *type)
{
    if (strcmp(type, "update_display_data") == 0)
        return IOPUB_UPDATE;
    return strcmp(type, "stream") == 0 || strcmp(type, "clear_output") == 0 ||
                   strstr(type, "display_data")
               ? IOPUB_BULK
               : IOPUB_REST;
}

int channels_publish(struct channels *ch, const struct request *r, const char *type,
                     const struct content *p, struct err *err)
{
    struct frames fs;
    char topic[TOPIC_SIZE];
    int rc;

    snprintf(topic, sizeof topic, "kernel.%s.%s", ch->session.id, type);
    const struct slice before = slice_text(topic);

    iopub_welcome(ch->iopub); /* first: it encodes frames of its own into the session's buffer */
    if (frames_collect(&fs, ch, r, type, &before, 1, p, err) < 0)
        return -1;
    rc = iopub_send(ch->iopub, fs.all, fs.n, bulk_of(type), err);
    frames_release(&fs);
    return rc;
}

static int publish_status(struct channels *ch, const struct request *r, const char *state,
                          struct err *err)
{
    char content[64];

    snprintf(content, sizeof content, "{\"execution_state\":\"%s\"}", state);
    return channels_publish(ch, r, "status", &(struct content){ .content = slice_text(content) },
                            err);
}

static enum occupied occupied(const struct channels *ch)
{
    return ch->occupied ? ch->occupied(ch->occupied_arg) : OCCUPIED_NOT;
}

/* No extra busy after the debugger's requests: clients expect busy and idle to alternate there. */
static bool is_debug(const struct request *r)
{
    return r && strcmp(request_type(r), "debug_request") == 0;
}

/* Servers use the last state that they got. */
static int after_idle(struct channels *ch, const struct request *r, struct err *err)
{
    const enum occupied by = is_debug(r) ? OCCUPIED_NOT : occupied(ch);

    if (by == OCCUPIED && !(r && request_subshell(r)))
        return publish_status(ch, NULL, "busy", err);
    if (by != OCCUPIED_NOT)
        loop_timer_again(ch->busy_again, BUSY_SOON_NS);
    return 0;
}

int channels_status(struct channels *ch, struct request *r, const char *state, struct err *err)
{
    if (publish_status(ch, r, state, err) < 0)
        return -1;
    if (strcmp(state, "busy") == 0) {
        loop_timer_again(ch->busy_again, BUSY_AGAIN_NS);
        if (r)
            request_begin(r);
    }
    return strcmp(state, "idle") == 0 ? after_idle(ch, r, err) : 0;
}

static void busy_again(void *arg)
{
    struct channels *ch = arg;
    struct err err = { "" };

    if (occupied(ch) == OCCUPIED_NOT)
        return;
    if (channels_status(ch, NULL, "busy", &err) < 0)
        log_error("jupyter", "status: %s", err.text);
}

void channels_on_idle(struct channels *ch, enum occupied (*f)(void *arg), void *arg)
{
    ch->occupied = f;
    ch->occupied_arg = arg;
}

/* Sends iopub_welcome, which only the new subscriber gets. */
static void welcome(void *arg, struct slice topic)
{
    struct channels *ch = arg;
    struct err err = { "" };
    struct frames fs;
    char *text;
    json_t *content = json_pack("{s:o}", "subscription", json_stringn(topic.p, topic.n));

    if (!content) /* the topic is not UTF-8: not a Jupyter client */
        return;
    if ((text = json_dumps(content, JSON_COMPACT)) &&
        frames_collect(&fs, ch, NULL, "iopub_welcome", &topic, topic.n > 0,
                       &(struct content){ .content = slice_text(text) }, &err) == 0) {
        if (iopub_send(ch->iopub, fs.all, fs.n, IOPUB_REST, &err) < 0)
            log_error("jupyter", "iopub_welcome: %s", err.text);
        frames_release(&fs);
    }
    free(text);
    json_decref(content);
}

static void log_failure(const char *what, const struct err *err)
{
    log_error("jupyter", "%s: %s", what, err->text);
}

static void answer(struct channels *ch, struct request *r, const char *type, struct slice content)
{
    struct err err = { "" };

    if (channels_reply(ch, r, type, &(struct content){ .content = content }, &err) < 0 ||
        channels_status(ch, r, "idle", &err) < 0)
        log_failure(type, &err);
}

static void usage_answer(void *arg, struct request *r, struct slice content)
{
    answer(arg, r, "usage_reply", content);
}

static void connect_answer(struct channels *ch, struct request *r)
{
    struct buf content = BUF_INIT;
    int rc = buf_add_text(&content, "{\"status\":\"ok\"");

    for (unsigned port = 0; port < PORTS && rc == 0; port++)
        rc = buf_addf(&content, ",\"%s\":%u", connection_port_name((enum port)port),
                      ch->connection.port[port]);
    if (rc == 0 && buf_add_text(&content, "}") == 0)
        answer(ch, r, "connect_reply", buf_slice(&content));
    buf_release(&content);
}

/* A client says so again and again. It is no request: no status is published. */
static void read_told(struct channels *ch, const struct request *r)
{
    const json_t *subscriber = json_object_get(request_content(r), "subscriber");
    const json_t *bytes = json_object_get(request_content(r), "bytes");

    if (json_is_integer(subscriber) && json_is_integer(bytes))
        iopub_read(ch->iopub, (unsigned long long)json_integer_value(subscriber),
                   (uint64_t)json_integer_value(bytes));
}

/* Answers requests that need no interpreter and no state; passes all others to the callback. */
static void dispatch(struct channels *ch, struct request *r)
{
    const char *type = request_type(r);
    const bool usage = strcmp(type, "usage_request") == 0;
    struct err err = { "" };

    if (request_channel(r) == CHANNEL_CONTROL && strcmp(type, CHANNELS_READ) == 0) {
        read_told(ch, r);
        return;
    }
    if (request_channel(r) == CHANNEL_STDIN || (!usage && strcmp(type, "connect_request") != 0)) {
        ch->on_request(ch->arg, r);
        return;
    }
    if (channels_status(ch, r, "busy", &err) < 0 || (usage && usage_ask(ch->usage, r, &err) < 0))
        log_failure(type, &err);
    else if (!usage)
        connect_answer(ch, r);
}

/* Passes on so many messages at the most, with so many frames. */
static void incoming_read(struct incoming *in, unsigned messages, unsigned frames)
{
    struct request *r;

    while (messages-- > 0 && (r = inbox_next(&in->inbox, &frames))) {
        dispatch(in->channels, r);
        request_unref(r);
    }
}

static void incoming_ready(void *arg)
{
    incoming_read(arg, MESSAGES_PER_TURN, FRAMES_PER_TURN);
}

void channels_drain_shell(struct channels *ch)
{
    incoming_read(&ch->incoming[CHANNEL_SHELL], UINT_MAX, JUPYTER_FRAMES_MAX * 16u);
}

/* Drops answers to an input() that was interrupted, so that the next input() does not get them. */
static void stale_drop(struct channels *ch, const struct request *asker)
{
    unsigned budget = JUPYTER_FRAMES_MAX;
    struct request *r;

    while ((r = inbox_next(&ch->incoming[CHANNEL_STDIN].inbox, &budget))) {
        if (!request_same_client(r, asker))
            dispatch(ch, r);
        request_unref(r);
    }
}

/* Sends the question. A client connects its channels one by one, and the cell may be quicker than
 * its stdin: the question then waits. */
static int question_send(struct channels *ch, struct err *err)
{
    const int rc = out_message_route(ch->question, ch, CHANNEL_STDIN, err);

    if (rc > 0) {
        loop_timer_again(ch->ask_again, ASK_AGAIN_NS);
        return 0;
    }
    out_message_destroy(ch->question);
    ch->question = NULL;
    return rc;
}

static void ask_again(void *arg)
{
    struct channels *ch = arg;
    struct err err = { "" };

    if (ch->question && question_send(ch, &err) < 0)
        log_failure("input_request", &err);
}

int channels_ask(struct channels *ch, const struct request *r, struct slice prompt, bool password,
                 struct err *err)
{
    struct buf content = BUF_INIT;
    struct frames fs;
    size_t n_identity;
    const struct slice *identity = request_identity(r, &n_identity);
    int rc = -1;

    stale_drop(ch, r);
    if (buf_add_text(&content, "{\"prompt\":") < 0 || jupyter_quote(&content, prompt) < 0 ||
        buf_addf(&content, ",\"password\":%s}", password ? "true" : "false") < 0) {
        buf_release(&content);
        return err_set(err, "out of memory");
    }
    if (frames_collect(&fs, ch, r, "input_request", identity, n_identity,
                       &(struct content){ .content = buf_slice(&content) }, err) == 0) {
        out_message_destroy(ch->question);
        ch->question = out_message_create(fs.all, fs.n, err);
        rc = ch->question ? question_send(ch, err) : -1;
        frames_release(&fs);
    }
    buf_release(&content);
    return rc;
}

void channels_ask_over(struct channels *ch)
{
    out_message_destroy(ch->question);
    ch->question = NULL;
    loop_timer_off(ch->ask_again);
}

size_t channels_waiting(const struct channels *ch)
{
    return iopub_waiting(ch->iopub);
}

void channels_on_drained(struct channels *ch, loop_f drained, void *arg)
{
    iopub_on_drained(ch->iopub, drained, arg);
}

static int session_open(struct channels *ch, struct err *err)
{
    char id[UUID_TEXT_SIZE];
    const char *user = getenv("USER");
    json_t *checked = json_string(user && *user ? user : "username"); /* NULL: not UTF-8 */

    random_uuid(id);
    if (jupyter_session_init(&ch->session, id, checked ? json_string_value(checked) : "username",
                             slice_of(ch->connection.key, ch->connection.key_size), err) == 0)
        ch->session_ready = true;
    json_decref(checked);
    return ch->session_ready ? 0 : -1;
}

static int incoming_open(struct channels *ch, struct err *err)
{
    static const char *const name[INCOMING] = { "shell", "control", "stdin" };
    static const struct iopub_marks marks = { CHANNELS_WAITING_HIGH, CHANNELS_WAITING_LOW };

    for (unsigned i = 0; i < INCOMING; i++) {
        ch->incoming[i].channels = ch;
        inbox_init(&ch->incoming[i].inbox, (enum channel)i, name[i], ch->sockets.socket[port_of[i]],
                   &ch->session, &ch->refusals);
    }
    /* Control first: the loop serves watches in the order in which they were made. */
    static const enum channel order[INCOMING] = { CHANNEL_CONTROL, CHANNEL_SHELL, CHANNEL_STDIN };

    for (unsigned i = 0; i < INCOMING; i++) {
        struct incoming *in = &ch->incoming[order[i]];

        if (!(in->watch = loop_zmq(ch->loop, in->inbox.socket, incoming_ready, in, err)))
            return -1;
    }
    if (!(ch->busy_again = loop_timer(ch->loop, BUSY_AGAIN_NS, 0, busy_again, ch, err)) ||
        !(ch->ask_again = loop_timer(ch->loop, LOOP_OFF, 0, ask_again, ch, err)))
        return -1;
    ch->iopub = iopub_create(ch->loop, ch->sockets.socket[PORT_IOPUB], marks, welcome, ch, err);
    if (!ch->iopub ||
        !(ch->waiting = waiting_replies_create(ch->loop, ch->iopub, send_waiting, ch, err)))
        return -1;
    return (ch->usage = usage_create(ch->loop, usage_answer, ch, err)) ? 0 : -1;
}

/* Call it before the first thread starts. ZeroMQ's threads share one arena, which takes less memory
 * than one each. The thresholds are fixed, because glibc raises its own after each large message
 * and then keeps the memory of a burst of output. */
static void memory_set(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 512 << 10);
#endif
}

struct channels *channels_create(struct loop *loop, const char *file, channels_request_f callback,
                                 void *arg, struct err *err)
{
    struct channels *ch = calloc(1, sizeof *ch);

    if (!ch)
        return err_null(err, "out of memory");
    ch->loop = loop;
    ch->on_request = callback;
    ch->arg = arg;
    memory_set();
    if (connection_read(&ch->connection, file, err) < 0) {
        free(ch);
        return NULL;
    }
    ch->bound = sockets_open(&ch->sockets, loop, &ch->connection, err) == 0;
    if (!ch->bound || session_open(ch, err) < 0 || incoming_open(ch, err) < 0) {
        channels_destroy(ch);
        return NULL;
    }
    return ch;
}

void channels_destroy(struct channels *ch)
{
    const uint64_t begin = clock_now(&clock_system);
    uint64_t spent;

    if (!ch)
        return;
    usage_destroy(ch->usage);
    waiting_replies_destroy(ch->waiting);
    watch_stop(ch->busy_again);
    watch_stop(ch->ask_again);
    out_message_destroy(ch->question);
    for (unsigned i = 0; i < INCOMING; i++) {
        watch_stop(ch->incoming[i].watch);
        inbox_release(&ch->incoming[i].inbox);
    }
    if (ch->iopub) {
        iopub_flush(ch->iopub, FAREWELL_NS);
        iopub_stop(ch->iopub);
    }
    spent = clock_now(&clock_system) - begin;
    sockets_close(&ch->sockets, spent < FAREWELL_NS ? (int)((FAREWELL_NS - spent) / NS_PER_MS) : 0);
    if (ch->bound)
        connection_unlink(&ch->connection);
    iopub_release(ch->iopub);
    if (ch->session_ready)
        jupyter_session_release(&ch->session);
    connection_release(&ch->connection);
    free(ch);
}
