/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernel/agents/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "base/random.h"
#include "base/runtime.h"
#include "tests/unit/kernel/agents/words.h"

#define STEP_MS  5
#define SKIP_MS  50
#define LIMIT_MS 60000

static void on_message(void *arg, unsigned node, uint32_t worker, const struct span *m)
{
    struct stage *s = arg;

    s->messages++;
    s->from_node = node;
    s->from_worker = worker;
    s->kind = m->kind;
    if (m->kind != SPAN_NOTICE)
        return;
    s->notices++;
    s->notice_s = (unsigned)m->v[F_NOTICE_SECONDS].u64;
    snprintf(s->notice, sizeof s->notice, "%.*s", SLICE_ARG(m->v[F_NOTICE_TEXT].s));
}

static void on_up(void *arg, unsigned node)
{
    struct stage *s = arg;

    s->up[node]++;
    engines_node_changed(s->engines, node);
}

static void on_lost(void *arg, unsigned node, const char *why)
{
    struct stage *s = arg;

    engines_node_changed(s->engines, node);
    s->lost[node]++;
    s->order[s->n_lost++] = node;
    snprintf(s->why[node], sizeof s->why[node], "%s", why);
}

static void on_engine(void *arg, unsigned engine, enum engine_event event, const char *text)
{
    struct stage *s = arg;

    (void)engine;
    if (event == ENGINE_SAYS)
        snprintf(s->says, sizeof s->says, "%s", text);
    else if (event == ENGINE_NODES)
        s->engine_nodes_said++;
    else {
        s->failed++;
        snprintf(s->failure, sizeof s->failure, "%s", text);
    }
}

static void on_away_changed(void *arg, unsigned node)
{
    struct stage *s = arg;

    if (agents_node(s->agents, node)->shown_away)
        s->away[node]++;
    else
        s->back[node]++;
}

static void on_replaced(void *arg, unsigned node, unsigned by)
{
    struct stage *s = arg;

    s->replaced = node;
    s->by = by;
}

/* ---- the stage ---- */

static uint64_t now_ns(void *arg)
{
    const struct stage *s = arg;

    return s->is_still ? s->still_ns : clock_now(&clock_system) + s->ahead_ns;
}

static uint64_t slept_ns(void *arg)
{
    return ((const struct stage *)arg)->slept_ns;
}

static void put_script(const struct stage *s, const char *name, const char *text)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700)) < 0 ||
        dprintf(fd, "#!/bin/sh\n%s\n", text) < 0)
        abort();
    close(fd);
}

void stage_ready(void)
{
    struct err err = { "" };

    setenv("CELLSPAN_HEARTBEAT_TIMEOUT", "60", 1);
    setenv("CELLSPAN_RESUME", "0", 1);
    if (random_open(&err) < 0 || process_adopt_orphans() < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

void stage_open(struct stage *s)
{
    const struct agents_handler handler = { .message = on_message,
                                            .up = on_up,
                                            .lost = on_lost,
                                            .away_changed = on_away_changed,
                                            .arg = s };
    struct engines_config engines = {
        .python = "python", .event = on_engine, .replaced = on_replaced, .arg = s
    };
    struct err err = { "" };

    *s = (struct stage){ .folder = "/tmp/cellspan-stage-XXXXXX",
                         .clock = { .now_ns = now_ns, .arg = s, .slept_ns = slept_ns } };
    if (!mkdtemp(s->folder) || setenv("CELLSPAN_LIBEXECDIR", s->folder, 1) < 0)
        abort();
    put_script(s, "cellspan-launch-local", "exec cat >/dev/null");
    put_script(s, "cellspan-agent", "exit 0");
    put_script(s, "cellspan-launch-fake",
               "printf '%s' \"$CELLSPAN_SECRET\" >\"$CELLSPAN_LIBEXECDIR/part\"\n"
               "mv \"$CELLSPAN_LIBEXECDIR/part\" \"$CELLSPAN_LIBEXECDIR/secret\"\n"
               "printf '%s\\n' \"$@\" >\"$CELLSPAN_LIBEXECDIR/argv\"\n"
               "eval \"$FAKE\"\n"
               "exec cat >/dev/null");
    s->zmq = zmq_ctx_new();
    s->loop = loop_create(&s->clock, &err);
    s->agents = s->loop ? agents_create(s->loop, s->folder, &handler, &err) : NULL;
    engines.agents = s->agents;
    s->engines = s->agents ? engines_create(s->loop, &engines, &err) : NULL;
    if (!s->engines) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

void stage_close(struct stage *s)
{
    struct err err = { "" };

    if (s->is_still)
        s->ahead_ns = s->still_ns - clock_now(&clock_system);
    s->is_still = false;
    engines_destroy(s->engines);
    agents_destroy(s->agents);
    loop_destroy(s->loop);
    zmq_ctx_term(s->zmq);
    secret_wipe(&s->secret);
    if (runtime_dir_remove(s->folder, &err) < 0)
        abort();
}

static void stop(void *loop)
{
    loop_stop(loop);
}

/* Everything that is there, and every timer that is due. */
static void turn(struct stage *s)
{
    struct err err = { "" };

    if (loop_later(s->loop, stop, s->loop) < 0 || loop_run(s->loop, &err) < 0)
        abort();
}

void stage_still(struct stage *s)
{
    s->still_ns = now_ns(s);
    s->is_still = true;
}

void stage_skip(struct stage *s, unsigned ms)
{
    for (unsigned passed = 0; passed < ms; passed += SKIP_MS) {
        s->still_ns += SKIP_MS * NS_PER_MS;
        turn(s);
    }
}

void stage_pass(struct stage *s, unsigned ms)
{
    struct err err = { "" };
    struct watch *w;

    if (s->is_still) {
        (void)poll(NULL, 0, (int)ms);
        turn(s);
        return;
    }
    w = loop_timer(s->loop, ms * NS_PER_MS, 0, stop, s->loop, &err);
    if (!w || loop_run(s->loop, &err) < 0)
        abort();
    watch_stop(w);
}

bool stage_until(struct stage *s, const unsigned *count, unsigned want)
{
    for (unsigned ms = 0; *count < want && ms < LIMIT_MS; ms += STEP_MS)
        stage_pass(s, STEP_MS);
    return *count >= want;
}

static bool read_secret(struct stage *s)
{
    char path[128], text[SECRET_TEXT_SIZE + 1];
    struct err err = { "" };
    int fd;
    ssize_t n;

    snprintf(path, sizeof path, "%s/secret", s->folder);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    n = read(fd, text, sizeof text);
    close(fd);
    unlink(path);
    return n > 0 && secret_parse(&s->secret, slice_of(text, (size_t)n), &err) == 0;
}

unsigned stage_engine(struct stage *s, const char *shell)
{
    struct err err = { "" };
    unsigned engine;

    setenv("FAKE", shell, 1);
    if (engines_start(s->engines, "fake", "a b", NULL, 7, NULL, &engine, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 0;
    }
    for (unsigned ms = 0; !read_secret(s) && ms < LIMIT_MS; ms += STEP_MS)
        stage_pass(s, STEP_MS);
    snprintf(s->endpoint, sizeof s->endpoint, "tcp://127.0.0.1:%u",
             network_router_port(s->agents->listen.remote));
    return engine;
}

unsigned stage_first(struct stage *s, unsigned engine)
{
    unsigned first = 0, n = 0;

    for (unsigned ms = 0; !n && ms < LIMIT_MS; ms += STEP_MS) {
        stage_pass(s, STEP_MS);
        engines_nodes(s->engines, engine, &first, &n);
    }
    return first;
}

/* ---- peers ---- */

static void set_keys(void *socket, const struct keys *own, const unsigned char *server)
{
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own->public, KEY_SIZE);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own->secret, KEY_SIZE);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, KEY_SIZE);
}

void peer_open(struct stage *s, struct peer *p, unsigned index, enum peer_key key)
{
    peer_open_turn(s, p, index, 0, key);
}

void peer_open_turn(struct stage *s, struct peer *p, unsigned index, unsigned turn,
                    enum peer_key key)
{
    struct keys keys;

    keys_derive(&keys, &s->secret, index, turn);
    if (key == PEER_WRONG)
        keys_create(&keys);
    peer_open_with(s, p, key == PEER_NULL ? NULL : &keys);
}

void peer_open_with(struct stage *s, struct peer *p, const struct keys *keys)
{
    const int none = 0, quick = 10;

    *p = (struct peer){ .socket = zmq_socket(s->zmq, ZMQ_DEALER) };
    zmq_setsockopt(p->socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(p->socket, ZMQ_RECONNECT_IVL, &quick, sizeof quick);
    if (keys)
        set_keys(p->socket, keys, s->secret.kernel);
    if (zmq_connect(p->socket, s->endpoint) < 0)
        abort();
}

static void drop_last(struct peer *p)
{
    if (!p->has)
        return;
    span_release(&p->last);
    zmq_msg_close(&p->route);
    zmq_msg_close(&p->body);
    p->has = false;
}

void peer_close(struct peer *p)
{
    drop_last(p);
    if (p->socket)
        zmq_close(p->socket);
    p->socket = NULL;
}

void peer_say(struct peer *p, uint32_t node, uint32_t worker, const struct span *m)
{
    struct buf message = BUF_INIT, bundle = BUF_INIT;
    struct err err = { "" };

    if (span_encode(m, &message, &err) < 0 ||
        bundle_add(&bundle, node, worker, buf_slice(&message)) < 0)
        abort();
    /* that: it is refused already */
    if (zmq_send(p->socket, bundle.p, bundle.n, ZMQ_DONTWAIT) < 0 && errno != EAGAIN)
        abort();
    buf_release(&message);
    buf_release(&bundle);
}

void peer_hello(struct peer *p)
{
    struct span m = { .kind = SPAN_HELLO,
                      .v[F_HELLO_VERSION].u64 = SPAN_VERSION,
                      .v[F_HELLO_PID].u64 = 4711 };

    m.v[F_HELLO_CORES].u64 = 3;
    m.v[F_HELLO_NODE].s = slice_text("peer");
    m.v[F_HELLO_ADDRESSES].s = slice_text("lo=127.0.0.1,eth0=fd00::1");
    peer_say(p, ROUTE_KERNEL, 0, &m);
}

static bool take(struct peer *p)
{
    struct err err = { "" };

    drop_last(p);
    zmq_msg_init(&p->route);
    zmq_msg_init(&p->body);
    if (zmq_msg_recv(&p->route, p->socket, ZMQ_DONTWAIT) < 0 ||
        zmq_msg_recv(&p->body, p->socket, ZMQ_DONTWAIT) < 0 ||
        span_decode(&p->last, zmq_msg_data(&p->body), zmq_msg_size(&p->body), &err) < 0) {
        zmq_msg_close(&p->route);
        zmq_msg_close(&p->body);
        return false;
    }
    return p->has = true;
}

bool peer_gets(struct stage *s, struct peer *p, enum span_kind kind)
{
    for (unsigned ms = 0; ms < LIMIT_MS; ms += STEP_MS) {
        while (take(p))
            if (p->last.kind == kind)
                return true;
        stage_pass(s, STEP_MS);
    }
    return false;
}

const char *peer_route(struct peer *p, char *out, size_t size)
{
    return route_words(slice_of(zmq_msg_data(&p->route), zmq_msg_size(&p->route)), out, size);
}

bool peers_up(struct stage *s, struct peer *peer, unsigned n, unsigned first)
{
    const struct span beat = { .kind = SPAN_BEAT };

    for (unsigned k = 0; k < n; k++) {
        peer_open(s, &peer[k], k, PEER_CURVE);
        peer_hello(&peer[k]);
    }
    for (unsigned ms = 0; ms < LIMIT_MS; ms += STEP_MS) {
        unsigned up = 0;

        for (unsigned k = 0; k < n; k++)
            if (s->up[first + k]) { /* all may take longer than one may be silent */
                up++;
                peer_say(&peer[k], first + k, 0, &beat);
            }
        if (up == n)
            return true;
        stage_pass(s, STEP_MS);
    }
    return false;
}
