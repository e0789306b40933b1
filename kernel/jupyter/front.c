/* Creates the channels and connects them: inbox.c receives, iopub.c publishes, usage.c measures. */
#include "kernel/jupyter/front.h"

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
#include "kernel/jupyter/outbound.h"

#define CHANNELS          3u
#define FRAMES_PER_TURN   512u
#define MESSAGES_PER_TURN 16u
#define FAREWELL_NS       NS_PER_S /* the most that front_destroy waits */
#define FRAMES_ON_STACK   32u
#define TOPIC_SIZE        128u
#define BUSY_AGAIN_NS     (30 * NS_PER_S) /* servers that stop idle kernels expect one a minute */

static const enum port port_of[CHANNELS] = { PORT_SHELL, PORT_CONTROL, PORT_STDIN };

struct front_channel {
    struct front *front;
    struct inbox inbox;
    struct watch *watch;
};

struct front {
    struct loop *loop;
    front_request_f f;
    void *arg;
    struct connection connection;
    struct sockets sockets;
    bool bound; /* we have bound the addresses */
    struct jupyter_session session;
    bool session_ready;
    struct front_channel channel[CHANNELS];
    struct refusals refusals;
    struct iopub *iopub;
    struct usage *usage;
    bool (*occupied)(void *arg); /* NULL: never */
    void *occupied_arg;
    struct watch *busy_again;
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

static int frames_collect(struct frames *fs, struct front *f, const struct request *parent,
                          const char *type, const struct slice *before, size_t n_before,
                          const struct content *p, struct err *err)
{
    char date[32];

    fs->n = n_before + JUPYTER_OUT_FRAMES + p->n;
    fs->all = fs->few;
    if (fs->n > FRAMES_ON_STACK && !(fs->all = malloc(fs->n * sizeof *fs->all)))
        return err_set(err, "out of memory");
    clock_iso8601(date);
    if (jupyter_encode(&f->session, type, date, parent ? request_header(parent) : slice_text(""),
                       p->metadata, p->content, fs->all + n_before, err) < 0) {
        frames_release(fs);
        return -1;
    }
    if (n_before)
        memcpy(fs->all, before, n_before * sizeof *before);
    if (p->n)
        memcpy(fs->all + n_before + JUPYTER_OUT_FRAMES, p->buffers, p->n * sizeof *p->buffers);
    return 0;
}

/* Sends the frames. 1: no client has that identity (only reported with ZMQ_ROUTER_MANDATORY). */
static int route(struct front *f, enum channel channel, const struct frames *fs, struct err *err)
{
    struct outbound *o = outbound_create(fs->all, fs->n, err);
    int rc;

    if (!o)
        return -1;
    rc = outbound_send(o, f->sockets.socket[port_of[channel]]);
    if (rc < 0 && errno == EHOSTUNREACH)
        rc = 1;
    else if (rc != 0)
        rc = err_set(err, "a reply can't leave: %s",
                     rc > 0 ? "the client takes nothing" : zmq_strerror(errno));
    outbound_destroy(o);
    return rc;
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

int front_reply(struct front *f, struct request *r, const char *type, const struct content *p,
                struct err *err)
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
    } else if ((rc = frames_collect(&fs, f, r, type, identity, n_identity, &whole, err)) == 0) {
        rc = route(f, request_channel(r), &fs, err);
        frames_release(&fs);
    }
    buf_release(&metadata);
    return rc < 0 ? -1 : 0; /* 1: the client is gone and needs no reply */
}

/* Messages that a client may miss while it does not read. */
static bool is_bulk(const char *type)
{
    return strcmp(type, "stream") == 0 || strcmp(type, "clear_output") == 0 ||
           strstr(type, "display_data");
}

int front_publish(struct front *f, const struct request *r, const char *type,
                  const struct content *p, struct err *err)
{
    struct frames fs;
    char topic[TOPIC_SIZE];
    int rc;

    snprintf(topic, sizeof topic, "kernel.%s.%s", f->session.id, type);
    const struct slice before = slice_text(topic);

    iopub_welcome(f->iopub); /* first: it encodes frames of its own into the session's buffer */
    if (frames_collect(&fs, f, r, type, &before, 1, p, err) < 0)
        return -1;
    rc = iopub_send(f->iopub, fs.all, fs.n, is_bulk(type), err);
    frames_release(&fs);
    return rc;
}

static int publish_status(struct front *f, const struct request *r, const char *state,
                          struct err *err)
{
    char content[64];

    snprintf(content, sizeof content, "{\"execution_state\":\"%s\"}", state);
    return front_publish(f, r, "status", &(struct content){ .content = slice_text(content) }, err);
}

static bool is_occupied(const struct front *f)
{
    return f->occupied && f->occupied(f->occupied_arg);
}

/* After an idle, publishes a busy if a cell runs: servers use the last state that they got. */
int front_status(struct front *f, struct request *r, const char *state, struct err *err)
{
    if (publish_status(f, r, state, err) < 0)
        return -1;
    if (strcmp(state, "busy") == 0) {
        loop_timer_again(f->busy_again, BUSY_AGAIN_NS);
        if (r)
            request_begin(r);
    }
    return strcmp(state, "idle") == 0 && is_occupied(f) ? publish_status(f, NULL, "busy", err) : 0;
}

static void busy_again(void *arg)
{
    struct front *f = arg;
    struct err err = { "" };

    if (!is_occupied(f))
        return;
    if (front_status(f, NULL, "busy", &err) < 0)
        log_error("jupyter", "status: %s", err.text);
}

void front_on_idle(struct front *f, bool (*occupied)(void *arg), void *arg)
{
    f->occupied = occupied;
    f->occupied_arg = arg;
}

/* Sends iopub_welcome, which only the new subscriber gets. */
static void welcome(void *arg, struct slice topic)
{
    struct front *f = arg;
    struct err err = { "" };
    struct frames fs;
    char *text;
    json_t *content = json_pack("{s:o}", "subscription", json_stringn(topic.p, topic.n));

    if (!content) /* the topic is not UTF-8: not a Jupyter client */
        return;
    if ((text = json_dumps(content, JSON_COMPACT)) &&
        frames_collect(&fs, f, NULL, "iopub_welcome", &topic, topic.n > 0,
                       &(struct content){ .content = slice_text(text) }, &err) == 0) {
        if (iopub_send(f->iopub, fs.all, fs.n, false, &err) < 0)
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

static void answer(struct front *f, struct request *r, const char *type, struct slice content)
{
    struct err err = { "" };

    if (front_reply(f, r, type, &(struct content){ .content = content }, &err) < 0 ||
        front_status(f, r, "idle", &err) < 0)
        log_failure(type, &err);
}

static void usage_answer(void *arg, struct request *r, struct slice content)
{
    answer(arg, r, "usage_reply", content);
}

static void connect_answer(struct front *f, struct request *r)
{
    struct buf content = BUF_INIT;
    int rc = buf_add_text(&content, "{\"status\":\"ok\"");

    for (unsigned port = 0; port < PORTS && rc == 0; port++)
        rc = buf_addf(&content, ",\"%s\":%u", connection_port_name((enum port)port),
                      f->connection.port[port]);
    if (rc == 0 && buf_add_text(&content, "}") == 0)
        answer(f, r, "connect_reply", buf_slice(&content));
    buf_release(&content);
}

/* Answers requests that need no interpreter and no state; passes all others to the callback. */
static void dispatch(struct front *f, struct request *r)
{
    const char *type = request_type(r);
    const bool usage = strcmp(type, "usage_request") == 0;
    struct err err = { "" };

    if (request_channel(r) == CHANNEL_STDIN || (!usage && strcmp(type, "connect_request") != 0)) {
        f->f(f->arg, r);
        return;
    }
    if (front_status(f, r, "busy", &err) < 0 || (usage && usage_ask(f->usage, r, &err) < 0))
        log_failure(type, &err);
    else if (!usage)
        connect_answer(f, r);
}

/* Passes on so many messages at the most, with so many frames. */
static void channel_read(struct front_channel *c, unsigned messages, unsigned frames)
{
    struct request *r;

    while (messages-- > 0 && (r = inbox_next(&c->inbox, &frames))) {
        dispatch(c->front, r);
        request_unref(r);
    }
}

static void channel_ready(void *arg)
{
    channel_read(arg, MESSAGES_PER_TURN, FRAMES_PER_TURN);
}

void front_drain_shell(struct front *f)
{
    channel_read(&f->channel[CHANNEL_SHELL], UINT_MAX, JUPYTER_FRAMES_MAX * 16u);
}

/* Drops answers to an input() that was interrupted, so that the next input() does not get them. */
static void stale_drop(struct front *f, const struct request *asker)
{
    unsigned budget = JUPYTER_FRAMES_MAX;
    struct request *r;

    while ((r = inbox_next(&f->channel[CHANNEL_STDIN].inbox, &budget))) {
        if (!request_same_client(r, asker))
            dispatch(f, r);
        request_unref(r);
    }
}

int front_ask(struct front *f, const struct request *r, struct slice prompt, bool password,
              struct err *err)
{
    struct buf content = BUF_INIT;
    struct frames fs;
    size_t n_identity;
    const struct slice *identity = request_identity(r, &n_identity);
    int rc = -1;

    stale_drop(f, r);
    if (buf_add_text(&content, "{\"prompt\":") < 0 || jupyter_quote(&content, prompt) < 0 ||
        buf_addf(&content, ",\"password\":%s}", password ? "true" : "false") < 0) {
        buf_release(&content);
        return err_set(err, "out of memory");
    }
    if (frames_collect(&fs, f, r, "input_request", identity, n_identity,
                       &(struct content){ .content = buf_slice(&content) }, err) == 0) {
        if ((rc = route(f, CHANNEL_STDIN, &fs, err)) > 0)
            rc = err_set(
                err, "input(): the client that ran this cell has not connected its stdin channel");
        frames_release(&fs);
    }
    buf_release(&content);
    return rc;
}

size_t front_waiting(const struct front *f)
{
    return iopub_waiting(f->iopub);
}

void front_on_drained(struct front *f, loop_f drained, void *arg)
{
    iopub_on_drained(f->iopub, drained, arg);
}

static int session_open(struct front *f, struct err *err)
{
    char id[UUID_TEXT_SIZE];
    const char *user = getenv("USER");
    json_t *checked = json_string(user && *user ? user : "username"); /* NULL: not UTF-8 */

    random_uuid(id);
    if (jupyter_session_init(&f->session, id, checked ? json_string_value(checked) : "username",
                             slice_of(f->connection.key, f->connection.key_size), err) == 0)
        f->session_ready = true;
    json_decref(checked);
    return f->session_ready ? 0 : -1;
}

static int channels_open(struct front *f, struct err *err)
{
    static const char *const name[CHANNELS] = { "shell", "control", "stdin" };
    static const struct iopub_marks marks = { FRONT_WAITING_HIGH, FRONT_WAITING_LOW };

    for (unsigned i = 0; i < CHANNELS; i++) {
        f->channel[i].front = f;
        inbox_init(&f->channel[i].inbox, (enum channel)i, name[i], f->sockets.socket[port_of[i]],
                   &f->session, &f->refusals);
    }
    /* Control first: the loop serves watches in the order in which they were made. */
    static const enum channel order[CHANNELS] = { CHANNEL_CONTROL, CHANNEL_SHELL, CHANNEL_STDIN };

    for (unsigned i = 0; i < CHANNELS; i++) {
        struct front_channel *c = &f->channel[order[i]];

        if (!(c->watch = loop_zmq(f->loop, c->inbox.socket, channel_ready, c, err)))
            return -1;
    }
    if (!(f->busy_again = loop_timer(f->loop, BUSY_AGAIN_NS, 0, busy_again, f, err)))
        return -1;
    f->iopub = iopub_create(f->loop, f->sockets.socket[PORT_IOPUB], marks, welcome, f, err);
    return f->iopub && (f->usage = usage_create(f->loop, usage_answer, f, err)) ? 0 : -1;
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

struct front *front_create(struct loop *loop, const char *file, front_request_f callback, void *arg,
                           struct err *err)
{
    struct front *f = calloc(1, sizeof *f);

    if (!f)
        return err_null(err, "out of memory");
    f->loop = loop;
    f->f = callback;
    f->arg = arg;
    memory_set();
    if (connection_read(&f->connection, file, err) < 0) {
        free(f);
        return NULL;
    }
    f->bound = sockets_open(&f->sockets, loop, &f->connection, err) == 0;
    if (!f->bound || session_open(f, err) < 0 || channels_open(f, err) < 0) {
        front_destroy(f);
        return NULL;
    }
    return f;
}

void front_destroy(struct front *f)
{
    const uint64_t begin = clock_now(&clock_system);
    uint64_t spent;

    if (!f)
        return;
    usage_destroy(f->usage);
    watch_stop(f->busy_again);
    for (unsigned i = 0; i < CHANNELS; i++) {
        watch_stop(f->channel[i].watch);
        inbox_release(&f->channel[i].inbox);
    }
    if (f->iopub) {
        iopub_flush(f->iopub, FAREWELL_NS);
        iopub_stop(f->iopub);
    }
    spent = clock_now(&clock_system) - begin;
    sockets_close(&f->sockets, spent < FAREWELL_NS ? (int)((FAREWELL_NS - spent) / NS_PER_MS) : 0);
    if (f->bound)
        connection_unlink(&f->connection);
    iopub_release(f->iopub);
    if (f->session_ready)
        jupyter_session_release(&f->session);
    connection_release(&f->connection);
    free(f);
}
