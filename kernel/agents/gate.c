/* gate.c - see gate.h. ZeroMQ's I/O thread asks over an inproc socket before it admits a connection; others go on
 * meanwhile. An agent may be quicker than its engine's word about it: its question is kept a moment, for one that is told to
 * try again does so only when its handshake is given up. */
#include "kernel/agents/gate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

#define QUESTIONS_PER_TURN 256
#define FIELD_MAX          256
#define REASONS_MAX        16
#define KEPT_MAX           4096u             /* questions */
#define KEPT_NS            (5 * NS_PER_S)
#define AGAIN_NS           (20 * NS_PER_MS)  /* between two looks at them */

/* Frames of a question; the first two lead back to who asked. */
enum { ROUTE, EMPTY, VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS, FRAMES };

struct reason {
    const char *what;
    unsigned long count;
};

struct gate {
    void *socket;
    struct watch *watch;
    const struct admit *admit;
    struct reason reason[REASONS_MAX];
    unsigned n_reasons;
    unsigned long refused;
    struct question *kept; /* owned, n_kept of them, oldest first */
    size_t n_kept, room;
    struct watch *again;
};

struct question {
    char frame[FRAMES][FIELD_MAX];
    size_t size[FRAMES];
    unsigned n;
    uint64_t since_ns;
};

static struct slice field(const struct question *q, unsigned frame)
{
    return slice_of(q->frame[frame], q->n > frame ? q->size[frame] : 0);
}

/* false: nothing there. */
static bool question_read(void *socket, struct question *q)
{
    int more = 1;
    size_t size = sizeof more;

    for (q->n = 0; more; q->n++) {
        char rest[FIELD_MAX];
        const int n = zmq_recv(socket, q->n < FRAMES ? q->frame[q->n] : rest, FIELD_MAX, ZMQ_DONTWAIT);

        if (n < 0)
            return false;
        if (q->n < FRAMES)
            q->size[q->n] = n > FIELD_MAX ? 0 : (size_t)n;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0)
            return false;
    }
    return true;
}

void gate_refused(struct gate *g, const char *what)
{
    unsigned k = 0;

    g->refused++;
    while (k < g->n_reasons && strcmp(g->reason[k].what, what) != 0)
        k++;
    if (k == REASONS_MAX)
        return;
    if (k == g->n_reasons) {
        g->reason[g->n_reasons++] = (struct reason){ what, 0 };
        log_warn("agents", "refused: a connection that %s (more of this kind are only counted)", what);
    }
    g->reason[k].count++;
}

unsigned long gate_count(const struct gate *g)
{
    return g->refused;
}

unsigned long gate_count_of(const struct gate *g, const char *what)
{
    for (unsigned k = 0; k < g->n_reasons; k++)
        if (strcmp(g->reason[k].what, what) == 0)
            return g->reason[k].count;
    return 0;
}

/* 300 asks the agent to try again, 400 tells it not to. */
static void answer(struct gate *g, const struct question *q, enum admit_verdict v, const char *user)
{
    static const char *const status[ADMIT_N] = { "200", "300", "400", "400", "400" };

    zmq_send(g->socket, q->frame[ROUTE], field(q, ROUTE).n, ZMQ_SNDMORE);
    zmq_send(g->socket, "", 0, ZMQ_SNDMORE);
    zmq_send(g->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(g->socket, q->frame[REQUEST], field(q, REQUEST).n, ZMQ_SNDMORE);
    zmq_send(g->socket, status[v], 3, ZMQ_SNDMORE);
    zmq_send(g->socket, v == ADMIT_YES ? "OK" : "refused", v == ADMIT_YES ? 2 : 7, ZMQ_SNDMORE);
    zmq_send(g->socket, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(g->socket, "", 0, 0);
}

/* false: that can't be said yet. */
static bool judge(struct gate *g, const struct question *q, bool may_wait)
{
    enum admit_verdict v = ADMIT_MECHANISM;
    unsigned run = 0, index = 0;
    char user[32] = "";

    if (q->n == FRAMES && slice_is(field(q, VERSION), "1.0") && slice_is(field(q, DOMAIN), GATE_DOMAIN))
        v = admit_ask(g->admit, field(q, MECHANISM), field(q, CREDENTIALS), &run, &index);
    if (v == ADMIT_LATER && may_wait)
        return false;
    if (v == ADMIT_YES)
        snprintf(user, sizeof user, "%u.%u", run, index);
    else if (v != ADMIT_LATER)
        gate_refused(g, admit_words(v));
    answer(g, q, v, user);
    return true;
}

static bool keep(struct gate *g, struct question *q, uint64_t now)
{
    if (g->n_kept == KEPT_MAX)
        return false;
    if (g->n_kept == g->room) {
        const size_t room = g->room ? 2 * g->room : 16;
        struct question *more = realloc(g->kept, room * sizeof *more);

        if (!more)
            return false;
        g->kept = more;
        g->room = room;
    }
    q->since_ns = now;
    g->kept[g->n_kept++] = *q;
    return true;
}

static void judge_kept(struct loop *loop, void *arg)
{
    const uint64_t now = clock_now(loop_clock(loop));
    struct gate *g = arg;
    size_t left = 0;

    for (size_t i = 0; i < g->n_kept; i++)
        if (!judge(g, &g->kept[i], now - g->kept[i].since_ns < KEPT_NS)) {
            if (left < i) /* they are large */
                g->kept[left] = g->kept[i];
            left++;
        }
    g->n_kept = left;
    if (left) {
        loop_timer_again(g->again, AGAIN_NS);
        return;
    }
    free(g->kept);
    g->kept = NULL;
    g->room = 0;
}

static void asked(struct loop *loop, void *arg)
{
    struct gate *g = arg;
    struct question q;

    for (int i = 0; i < QUESTIONS_PER_TURN && question_read(g->socket, &q); i++) {
        const bool first = g->n_kept == 0;

        if (judge(g, &q, true))
            continue;
        if (!keep(g, &q, clock_now(loop_clock(loop))))
            (void)judge(g, &q, false);
        else if (first)
            loop_timer_again(g->again, AGAIN_NS);
    }
}

struct gate *gate_create(struct loop *loop, void *context, const struct admit *admit, struct err *err)
{
    struct gate *g = calloc(1, sizeof *g);

    if (!g)
        return err_null(err, "out of memory");
    g->admit = admit;
    if (!(g->socket = zmq_socket(context, ZMQ_ROUTER)) || zmq_bind(g->socket, "inproc://zeromq.zap.01") < 0) {
        err_set(err, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
        goto undo;
    }
    if (!(g->again = loop_timer(loop, KEPT_NS, 0, judge_kept, g, err)) ||
        !(g->watch = loop_zmq(loop, g->socket, asked, g, err)))
        goto undo;
    loop_timer_off(g->again);
    return g;
undo:
    gate_destroy(g);
    return NULL;
}

void gate_destroy(struct gate *g)
{
    if (!g)
        return;
    for (unsigned k = 0; k < g->n_reasons; k++)
        log_info("agents", "refused in all: %lu connections that %s", g->reason[k].count, g->reason[k].what);
    watch_stop(g->watch);
    watch_stop(g->again);
    free(g->kept);
    if (g->socket)
        zmq_close(g->socket);
    free(g);
}
