/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/uplink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/message_stream.h"
#include "base/log.h"
#include "base/unix_socket.h"
#include "protocol/route.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/frame_batch.h"
#include "worker/agent/net/line.h"
#include "worker/agent/net/peer.h"
#include "worker/agent/net/peers.h"
#include "worker/agent/net/silence.h"
#include "worker/agent/net/socket.h"

#define MESSAGES_PER_TURN 32
#define LINGER_MS         500 /* for what waits when the stream is closed */
#define END_NS            NS_PER_S
#define GREETING_NS       (24 * 3600 * NS_PER_S) /* whoever waits for WELCOME has a limit */

_Static_assert(UPLINK_ROOM == FRAME_BATCH_ROOM,
               "a message that is given has room for what stands before it in a bundle");

struct uplink {
    struct loop *loop;
    void *context;
    bool own_context;
    struct keys keys;
    bool has_keys;
    struct uplink_line line;       /* to the kernel or a parent */
    struct message_stream *stream; /* to the kernel on this machine, instead of line */
    struct uplink_line
        parent; /* the next one: messages to the kernel wait until something arrives */
    struct frame_batch *batch;
    /* what outlives a connection; resume NULL: nothing does */
    struct session session;
    struct resume *resume;
    uint64_t cut_ns; /* since when there is no connection; 0: there is one */
    bool silent;     /* since then nothing has come, but nobody has ended it */
    struct peers *peers;
    struct silence silence;
    uint64_t resume_ns; /* WELCOME's: how long the kernel waits for this agent */
    struct watch *end;  /* the stream has ended: when the agent ends, too */
    bool greeted;       /* the first message has arrived */
    struct uplink_handler handler;
};

/* ---- the agent's own words ---- */

static void say(void *arg, const struct span *m)
{
    struct uplink *u = arg;
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    if (span_encode(m, &msg, &err) < 0 ||
        frame_batch_add(u->batch, SPAN_WORKER_NONE, buf_slice(&msg), &err) < 0)
        log_error("uplink", "%s", err.text);
    buf_release(&msg);
}

/* ---- silence ---- */

static void say_beat(struct uplink *u, uint64_t sent)
{
    struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_SENT].u64 = sent };

    beat.v[F_BEAT_RECEIVED].u64 = session_tell(&u->session);
    silence_said(&u->silence);
    say(u, &beat);
}

static void lost(struct uplink *u, const char *why)
{
    silence_stop(&u->silence);
    if (u->handler.lost)
        u->handler.lost(u->handler.arg, why);
}

static void give_up(void *arg, bool refused)
{
    struct uplink *u = arg;
    const uint64_t limit_ns = !u->greeted ? GREETING_NS
                              : u->resume ? u->resume_ns
                                          : u->silence.timeout_ns;
    char why[96];

    snprintf(why, sizeof why,
             u->silent
                 ? "nothing was heard from the kernel for %.1f s"
                 : "the connection to the kernel has ended, and could not be made anew in %.1f s",
             (double)limit_ns / (double)NS_PER_S);
    lost(u, refused ? "the kernel does not take it back" : why);
}

/* The connection has ended, or leads nowhere: the agent dials the kernel itself. out: the network
 * is, as far as is known. */
static void cut(struct uplink *u, const char *why, bool out)
{
    if (u->cut_ns || (u->greeted && !u->silence.timeout_ns))
        return;
    log_warn("uplink", "the connection to the kernel has ended: %s", why);
    u->cut_ns = u->silent ? u->silence.kernel.heard : clock_now(loop_clock(u->loop));
    peers_cut(u->peers, out);
    peers_stay(u->peers);
    line_discard(&u->line);
    line_discard(&u->parent);
    frame_batch_cut(u->batch);
    resume_start(u->resume, u->greeted ? u->resume_ns : GREETING_NS, out);
}

static void on_end_of_line(void *arg)
{
    struct uplink *u = arg;
    const bool ended = line_has_ended(&u->line), parent_ended = line_has_ended(&u->parent);

    if (!ended && !parent_ended)
        return;
    if (!u->cut_ns) {
        cut(u, "it was closed or reset", false);
        return;
    }
    line_discard(&u->line);
    resume_again(u->resume);
}

static int watch_end(struct uplink *u, struct uplink_line *l, struct err *err)
{
    return u->resume ? line_watch_end(l, u->loop, u->context, on_end_of_line, u, err) : 0;
}

static void beat_unasked(void *arg)
{
    say_beat(arg, 0);
}

static bool is_moving(void *arg)
{
    return peers_moving(((struct uplink *)arg)->peers);
}

bool uplink_is_cut_off(const struct uplink *u)
{
    return u->cut_ns != 0;
}

static bool is_cut_off(void *arg) /* the attempts have an end of their own */
{
    return uplink_is_cut_off(arg);
}

static void on_silence(void *arg)
{
    struct uplink *u = arg;

    u->silent = true;
    if (u->resume)
        cut(u, "the kernel is silent", true);
    else
        give_up(u, false);
}

/* An agent on the kernel's machine notices the kernel's end by its stdin. Who resumes does so
 * before the kernel gives it up. */
static void listen_for_silence(struct uplink *u, uint64_t timeout_ms, uint64_t resume_ms)
{
    const uint64_t timeout_ns = timeout_ms * NS_PER_MS;

    u->resume_ns = (resume_ms > timeout_ms && resume_ms <= UINT32_MAX ? resume_ms : timeout_ms) *
                   NS_PER_MS;
    if (timeout_ms > 0 && timeout_ms <= UINT32_MAX && u->has_keys)
        silence_listen(&u->silence, timeout_ns, u->resume ? timeout_ns / 2 : timeout_ns);
}

/* ---- down ---- */

/* The first message: WELCOME, with this agent's number, or REFUSE. */
static void greet(struct uplink *u, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    u->greeted = true;
    if (span_decode(&m, msg.p, msg.n, &err) < 0)
        return; /* its handler reports what is wrong with it */
    if (m.kind == SPAN_WELCOME) {
        if (u->cut_ns) /* HELLO was sent again */
            frame_batch_socket(u->batch, u->line.socket);
        peers_number(u->peers, (uint32_t)m.v[F_WELCOME_NUMBER].u64);
        frame_batch_number(u->batch, (uint32_t)m.v[F_WELCOME_NUMBER].u64);
        listen_for_silence(u, m.v[F_WELCOME_TIMEOUT_MS].u64, m.v[F_WELCOME_RESUME_MS].u64);
        if (u->resume)
            resume_welcome(u->resume, m.v[F_WELCOME_AGENTS].u64);
        u->cut_ns = 0;
    }
    span_release(&m);
}

static void on_beat(struct uplink *u, const struct span *m)
{
    struct err err = { "" };

    if (u->resume && frame_batch_acked(u->batch, m->v[F_BEAT_RECEIVED].u64, &err) < 0)
        lost(u, err.text);
    else
        say_beat(u, m->v[F_BEAT_SENT].u64);
}

static bool is_ours(unsigned kind)
{
    return kind == SPAN_BEAT || kind == SPAN_OPEN || kind == SPAN_DIAL;
}

/* Handles this agent's part of a message. */
static void take(struct uplink *u, struct slice workers, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    if (workers.n > 0 || span_peek(&m, msg.p, msg.n, &err) < 0 || !is_ours(m.kind)) {
        u->handler.message(u->handler.arg, workers, msg);
        return;
    }
    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        log_error("uplink", "from the kernel: %s", err.text);
        return;
    }
    if (m.kind == SPAN_BEAT)
        on_beat(u, &m);
    else if (m.kind == SPAN_OPEN)
        peer_accept_open(u->peers, &m);
    else
        peers_dial(u->peers, &m);
    span_release(&m);
}

/* Counts the message, whatever becomes of it: the kernel does, too. */
static void count(struct uplink *u, struct slice msg)
{
    if (u->resume && span_is_numbered(msg.p, msg.n) && session_received(&u->session, msg.n))
        say_beat(u, 0);
}

static void on_resumed(struct uplink *u, const struct span *m)
{
    struct err err = { "" };

    if (frame_batch_resume(u->batch, u->line.socket, m->v[F_RESUME_RECEIVED].u64, &err) < 0) {
        lost(u, err.text);
        return;
    }
    log_info("uplink", "resumed after %.3f s",
             (double)(clock_now(loop_clock(u->loop)) - u->cut_ns) / (double)NS_PER_S);
    u->cut_ns = 0;
    u->silent = false;
    resume_done(u->resume);
    silence_restart(&u->silence);
    if (u->handler.resumed)
        u->handler.resumed(u->handler.arg);
}

/* The answer to RESUME, or REFUSE. A parent's RESUME says that it has lost its own connection. */
static void take_answer(struct uplink *u, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        log_error("uplink", "from the kernel: %s", err.text);
        return;
    }
    if (m.kind == SPAN_REFUSE)
        u->handler.message(u->handler.arg, slice_text(""), msg);
    else if (m.kind == SPAN_RESUME && u->cut_ns)
        on_resumed(u, &m);
    else if (m.kind == SPAN_RESUME)
        cut(u, "the parent has lost its own", m.v[F_RESUME_NUMBER].u64 != 0);
    span_release(&m);
}

/* Nodes below get it first, because it takes longer to reach them. */
static void deliver(struct uplink *u, struct slice route, zmq_msg_t *frame)
{
    const struct slice msg = slice_of(zmq_msg_data(frame), zmq_msg_size(frame));
    const bool first = !u->greeted;
    struct route_section s;

    if (!route_is_whole(route)) {
        log_warn("uplink", "a torn route: dropped");
        return;
    }
    if (u->greeted && (u->cut_ns || (u->resume && route.n == 0))) {
        take_answer(u, msg);
        return;
    }
    if (first)
        greet(u, msg);
    peers_down(u->peers, route, frame_batch_node(u->batch), frame);
    while (route_next(&route, &s))
        if (first || s.node == frame_batch_node(u->batch)) {
            count(u, msg);
            take(u, s.workers, msg);
            return;
        }
}

/* true: there may be more. */
static bool take_one(struct uplink *u, void *socket)
{
    zmq_msg_t route, msg;
    bool empty;

    zmq_msg_init(&route);
    zmq_msg_init(&msg);
    if (line_receive(socket, &route, &msg, &empty) == 1)
        deliver(u, slice_of(zmq_msg_data(&route), zmq_msg_size(&route)), &msg);
    if (!empty)
        meter_watch(&u->silence.meter, zmq_msg_get(&route, ZMQ_SRCFD));
    zmq_msg_close(&route);
    zmq_msg_close(&msg);
    if (!empty)
        silence_heard(&u->silence);
    return !empty;
}

static void line_ready(void *arg)
{
    struct uplink *u = arg;

    for (int i = 0; i < MESSAGES_PER_TURN && u->line.socket; i++)
        if (!take_one(u, u->line.socket))
            return;
}

/* ---- on the kernel's machine ---- */

static void on_message(void *arg, zmq_msg_t part[2])
{
    deliver(arg, slice_of(zmq_msg_data(&part[0]), zmq_msg_size(&part[0])), &part[1]);
    silence_heard(&((struct uplink *)arg)->silence);
}

static void still_there(void *arg)
{
    lost(arg, "the connection to the kernel has ended");
}

/* Usually the kernel has ended, and stdin says so before the time is over. */
static void on_end(void *arg, const char *why)
{
    struct uplink *u = arg;
    struct err err = { "" };

    log_info("uplink", "the connection to the kernel is over: %s", why);
    watch_stop(u->end);
    if (!(u->end = loop_timer(u->loop, END_NS, 0, still_there, u, &err)))
        still_there(u);
}

static int dial_here(struct uplink *u, const char *path, struct err *err)
{
    const struct message_stream_handler handler = { on_message, on_end, u };
    const int fd = unix_connect(path);

    if (fd < 0)
        return err_set(err, "--connect %s%s: %s", ROUTE_UNIX, path, strerror(errno));
    if (!(u->stream = message_stream_open(u->loop, fd, &handler, err)))
        return -1;
    frame_batch_stream(u->batch, u->stream);
    return 0;
}

/* ---- a parent ---- */

/* The kernel has received everything that was sent on the old connection. From now on messages go
 * through the parent, also those that wait. */
static void parent_ready(void *arg)
{
    struct uplink *u = arg;
    struct err err = { "" };

    watch_stop(u->parent.watch);
    u->parent.watch = loop_zmq(u->loop, u->parent.socket, line_ready, u, &err);
    if (!u->parent.watch)
        log_error("uplink", "%s", err.text);
    line_ready(u); /* messages on the old connection came before */
    line_close(&u->line);
    u->line = u->parent;
    u->parent = (struct uplink_line)LINE_INIT;
    frame_batch_socket(u->batch, u->line.socket);
    line_ready(u);
}

static void on_parent(void *arg, uint32_t node, void *socket)
{
    struct span m = { .kind = SPAN_DIALED };
    struct uplink *u = arg;
    struct err err = { "" };
    struct watch *watch = u->parent.socket ? err_null(&err, "a parent has been dialed already")
                                           : loop_zmq(u->loop, socket, parent_ready, u, &err);

    m.v[F_DIALED_NODE].u64 = node;
    m.v[F_DIALED_ERROR].s = slice_text(err.text);
    say(u, &m);
    if (!watch) {
        zmq_close(socket);
        return;
    }
    frame_batch_flush(u->batch);
    frame_batch_socket(u->batch, NULL);
    u->parent = (struct uplink_line){ .socket = socket, .watch = watch };
    if (watch_end(u, &u->parent, &err) < 0)
        log_error("uplink", "%s", err.text); /* its silence will be noticed */
}

/* ---- RESUME ---- */

static void on_connected(void *arg, void *socket)
{
    struct uplink *u = arg;
    struct err err = { "" };

    u->line.socket = socket;
    if (watch_end(u, &u->line, &err) == 0 &&
        (u->line.watch = loop_zmq(u->loop, socket, line_ready, u, &err)) &&
        resume_say(u->resume, socket, frame_batch_node(u->batch), session_tell(&u->session),
                   &err) == 0)
        return;
    log_error("uplink", "%s", err.text);
    line_discard(&u->line);
    resume_again(u->resume);
}

static void on_unanswered(void *arg)
{
    struct uplink *u = arg;

    cut(u, "HELLO is not answered", true); /* nothing, if it is cut off already */
    line_discard(&u->line);
}

static int prepare_resume(struct uplink *u, const struct uplink_config *c, struct err *err)
{
    const struct resume_to to = { c->again, u->context, c->kernel, c->keys, c->hello_ns, c->stuck };
    const struct resume_handler handler = { on_connected, on_unanswered, give_up, u };

    if (!c->again || !c->keys)
        return 0;
    frame_batch_session(u->batch, &u->session, c->handler.full, c->handler.arg);
    return (u->resume = resume_create(u->loop, &to, &handler, err)) ? 0 : -1;
}

struct slice uplink_next_key(const struct uplink *u)
{
    return u->resume ? slice_of(resume_next(u->resume), KEY_SIZE) : slice_text("");
}

/* ---- children and peers ---- */

static void on_entry(void *arg, struct slice whole)
{
    struct uplink *u = arg;
    struct err err = { "" };

    if (frame_batch_pass(u->batch, whole, &err) < 0)
        log_error("uplink", "%s", err.text);
}

static void on_bundle(void *arg, zmq_msg_t *frame)
{
    struct uplink *u = arg;
    struct err err = { "" };

    if (frame_batch_pass_all(u->batch, frame, &err) < 0)
        log_error("uplink", "%s", err.text);
}

static void on_blobs(void *arg, uint32_t node, struct slice msg)
{
    const struct uplink *u = arg;

    if (u->handler.blobs)
        u->handler.blobs(u->handler.arg, node, msg);
}

static void on_unlinked(void *arg, uint32_t node, const char *why)
{
    const struct uplink *u = arg;

    if (u->handler.unlinked)
        u->handler.unlinked(u->handler.arg, node, why);
}

/* ---- the whole ---- */

static int dial(struct uplink *u, const struct uplink_config *c, struct err *err)
{
    if (!c->socket && strncmp(c->endpoint, ROUTE_UNIX, strlen(ROUTE_UNIX)) == 0)
        return dial_here(u, c->endpoint + strlen(ROUTE_UNIX), err);
    if (!c->socket && !(u->line.socket = socket_dialer(u->context, &u->keys, c->kernel, err)))
        return -1;
    if (!c->socket && zmq_connect(u->line.socket, c->endpoint) < 0)
        return err_set(err, "--connect %s: %s", c->endpoint, zmq_strerror(zmq_errno()));
    frame_batch_socket(u->batch, u->line.socket);
    if (watch_end(u, &u->line, err) < 0)
        return -1;
    return (u->line.watch = loop_zmq(u->loop, u->line.socket, line_ready, u, err)) ? 0 : -1;
}

struct uplink *uplink_open(struct loop *loop, const struct uplink_config *config, struct err *err)
{
    struct uplink *u = calloc(1, sizeof *u);
    const struct peers_ops ops = { on_entry, on_bundle, on_blobs, on_unlinked, on_parent, say, u };
    const struct silence_ops silence = { beat_unasked, on_silence, is_moving, is_cut_off, u };

    if (!u) {
        zmq_close(config->socket);
        return err_null(err, "out of memory");
    }
    u->loop = loop;
    silence_init(&u->silence, loop, &silence);
    u->silence.meter.relayed = config->relayed;
    u->line.socket = config->socket;
    u->handler = config->handler;
    u->own_context = !config->context;
    u->context = config->context ? config->context : zmq_ctx_new();
    if ((u->has_keys = config->keys != NULL))
        u->keys = *config->keys;
    if (!u->context)
        (void)err_set(err, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
    else if ((u->batch = frame_batch_create(loop, err)) &&
             (u->peers = peers_create(loop, u->context, u->has_keys ? &u->keys : NULL, &ops,
                                      err)) &&
             prepare_resume(u, config, err) == 0 && dial(u, config, err) == 0)
        return u;
    uplink_close(u);
    return NULL;
}

void uplink_close(struct uplink *u)
{
    if (!u)
        return;
    silence_stop(&u->silence);
    watch_stop(u->end);
    if (u->batch && u->parent.socket)
        /* the kernel may not have received DIALED, but there is no other way */
        frame_batch_socket(u->batch, u->parent.socket);
    resume_destroy(u->resume);
    frame_batch_destroy(u->batch);
    session_release(&u->session);
    message_stream_close(u->stream, LINGER_MS);
    line_close(&u->parent);
    line_close(&u->line);
    peers_destroy(u->peers);
    if (u->context && u->own_context)
        zmq_ctx_term(u->context);
    keys_wipe(&u->keys);
    free(u);
}

bool uplink_outlasts(const struct uplink *u)
{
    return u->greeted && u->resume && u->silence.timeout_ns && u->resume_ns > u->silence.timeout_ns;
}

bool uplink_is_welcome(const struct uplink *u)
{
    return u->greeted;
}

int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err)
{
    struct span head;

    if (worker == SPAN_WORKER_NONE && span_peek(&head, msg.p, msg.n, NULL) == 0 &&
        head.kind == SPAN_HELLO)
        return u->resume && resume_hello(u->resume, msg, err) < 0
                   ? -1
                   : frame_batch_send_now(u->batch, msg, err);
    return frame_batch_add(u->batch, worker, msg, err);
}

int uplink_give(struct uplink *u, struct buf *msg, struct err *err)
{
    return frame_batch_give(u->batch, SPAN_WORKER_NONE, msg, err);
}

int uplink_give_peer(struct uplink *u, uint32_t node, struct buf *msg, struct err *err)
{
    return peers_give(u->peers, node, msg, UPLINK_ROOM, err);
}
