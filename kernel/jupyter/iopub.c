/* iopub.c - a queue in front of an XPUB socket.
 *
 * libzmq bounds messages per subscriber, not bytes, and tells nobody when there is room again (an XPUB is always
 * "writable"). So each message counts its bytes while libzmq holds it (outbound.h), no more than IN_FLIGHT bytes are
 * handed over, and a timer of TICK_NS looks again while anything waits.
 *
 * Two states. Normal: zmq_send refuses (NODROP) when one subscriber's pipe is full; the queue waits for it. Lossy, after
 * STUCK_NS without progress: full pipes lose messages and all others get theirs; no more than LOSSY_BURST messages leave
 * in a tick then, so that a subscriber that does read has time to. Back to normal when half of what libzmq held at that
 * moment, which is what the slow one has not taken, has left. */
#include "kernel/jupyter/iopub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernel/jupyter/outbound.h"

#define IN_FLIGHT (4u << 20)
#define TICK_NS (2 * NS_PER_MS)
#define SLOW_TICK_NS (20 * NS_PER_MS) /* while the queue is empty, and only a mark is waited for */
#define STUCK_NS (10 * NS_PER_S)
#define LOSSY_BURST 64u
#define MESSAGES_PER_TURN 256u
#define SUBSCRIPTIONS_PER_TURN 32

struct iopub {
    struct loop *loop;
    void *socket;
    struct watch *subscriptions, *tick;
    iopub_subscribed_f subscribed;
    void *subscribed_arg;
    loop_f drained;
    void *drained_arg;
    struct iopub_marks marks;
    struct tally tally;
    struct outbound *first, **last;
    size_t queued;        /* bytes */
    size_t held_before;   /* by libzmq, when it was last looked at */
    size_t held_stuck;    /* by libzmq, when it became lossy */
    uint64_t progress_ns; /* when something last moved */
    unsigned burst;       /* messages of this tick, while lossy */
    bool lossy, over;
    enum { TICK_OFF, TICK_SLOW, TICK_FAST } pace;
};

static size_t held(const struct iopub *p)
{
    return atomic_load_explicit(&p->tally.bytes, memory_order_relaxed);
}

size_t iopub_waiting(const struct iopub *p)
{
    const size_t all = held(p); /* queued ones have been counted too, when they were made */

    return p->lossy ? p->queued : all;
}

static void lossy_set(struct iopub *p, bool lossy)
{
    const int nodrop = !lossy;

    if (p->lossy == lossy || zmq_setsockopt(p->socket, ZMQ_XPUB_NODROP, &nodrop, sizeof nodrop) < 0)
        return;
    p->lossy = lossy;
    p->burst = 0;
    if (lossy)
        log_warn("jupyter", "iopub: a subscriber has taken nothing for %llu s: it loses messages until it reads again",
                 (unsigned long long)(STUCK_NS / NS_PER_S));
    else
        log_warn("jupyter", "iopub: every subscriber reads again");
}

static bool room(const struct iopub *p)
{
    return p->lossy ? p->burst < LOSSY_BURST : held(p) - p->queued < IN_FLIGHT;
}

/* True: it is gone (sent, or given up). */
static bool try_send(struct iopub *p, struct outbound *o)
{
    int rc;

    if (!room(p) || (rc = outbound_send(o, p->socket)) == 1)
        return false;
    if (rc < 0)
        log_error("jupyter", "iopub: a message is lost: %s", zmq_strerror(errno));
    p->burst++;
    p->progress_ns = clock_now(loop_clock(p->loop));
    return true;
}

static void tick_at(struct iopub *p, int pace)
{
    if (p->pace == TICK_OFF)
        p->progress_ns = clock_now(loop_clock(p->loop));
    p->pace = pace;
    if (pace != TICK_OFF)
        loop_timer_again(p->tick, pace == TICK_FAST ? TICK_NS : SLOW_TICK_NS);
}

static void flush_some(struct iopub *p)
{
    for (unsigned i = 0; i < MESSAGES_PER_TURN && p->first; i++) {
        struct outbound *o = p->first;

        if (!try_send(p, o))
            return;
        if (!(p->first = o->next))
            p->last = &p->first;
        p->queued -= o->size;
        outbound_destroy(o);
    }
}

/* Is anybody making progress? When not for too long, the slow ones no longer hold up the others. */
static void watch_progress(struct iopub *p)
{
    const uint64_t now = clock_now(loop_clock(p->loop));
    const size_t now_held = held(p) - p->queued;

    if (now_held < p->held_before)
        p->progress_ns = now;
    p->held_before = now_held;
    if (p->lossy && now_held <= p->held_stuck / 2) {
        lossy_set(p, false);
    } else if (!p->lossy && p->first && now - p->progress_ns >= STUCK_NS) {
        p->held_stuck = now_held;
        lossy_set(p, true);
    }
}

static void ticked(struct loop *loop, void *arg)
{
    struct iopub *p = arg;

    p->burst = 0;
    flush_some(p);
    watch_progress(p);
    if (p->over && iopub_waiting(p) < p->marks.low) {
        p->over = false;
        memory_return();
        if (p->drained)
            p->drained(loop, p->drained_arg);
    }
    tick_at(p, p->first ? TICK_FAST : p->over || p->lossy ? TICK_SLOW : TICK_OFF);
}

/* A subscription is one frame: 1, then the topic. What clients send otherwise is dropped. */
static void subscribed(struct loop *loop, void *arg)
{
    struct iopub *p = arg;

    (void)loop;
    for (int i = 0; i < SUBSCRIPTIONS_PER_TURN; i++) {
        zmq_msg_t m;

        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, p->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&m);
            return;
        }
        const char *bytes = zmq_msg_data(&m);
        const size_t n = zmq_msg_size(&m);

        if (n > 0 && bytes[0] == 1)
            p->subscribed(p->subscribed_arg, slice_of(bytes + 1, n - 1));
        zmq_msg_close(&m);
    }
}

void iopub_welcome(struct iopub *p)
{
    subscribed(p->loop, p);
}

int iopub_send(struct iopub *p, const struct slice *frame, size_t n, struct err *err)
{
    struct outbound *o = outbound_create(frame, n, &p->tally, err);

    if (!o)
        return -1;
    p->queued += o->size;
    if (!p->first && try_send(p, o)) {
        p->queued -= o->size;
        outbound_destroy(o);
    } else {
        *p->last = o;
        p->last = &o->next;
        if (p->pace != TICK_FAST)
            tick_at(p, TICK_FAST);
    }
    if (!p->over && iopub_waiting(p) > p->marks.high) {
        p->over = true;
        if (p->pace == TICK_OFF)
            tick_at(p, TICK_SLOW);
    }
    return 0;
}

struct iopub *iopub_create(struct loop *loop, void *socket, struct iopub_marks marks, iopub_subscribed_f f, void *arg,
                           struct err *err)
{
    struct iopub *p = calloc(1, sizeof *p);

    if (!p)
        return err_null(err, "out of memory");
    p->loop = loop;
    p->socket = socket;
    p->marks = marks;
    p->subscribed = f;
    p->subscribed_arg = arg;
    p->last = &p->first;
    atomic_init(&p->tally.bytes, 0);
    if (!(p->subscriptions = loop_zmq(loop, socket, subscribed, p, err)) ||
        !(p->tick = loop_timer(loop, TICK_NS, 0, ticked, p, err))) {
        iopub_stop(p);
        iopub_release(p);
        return NULL;
    }
    loop_timer_off(p->tick);
    return p;
}

void iopub_flush(struct iopub *p, uint64_t limit_ns)
{
    const struct timespec pause = { 0, (long)TICK_NS };
    const uint64_t until = clock_now(&clock_system) + limit_ns;

    for (;;) {
        p->burst = 0;
        flush_some(p);
        if (!p->first || clock_now(&clock_system) >= until)
            return;
        nanosleep(&pause, NULL);
    }
}

void iopub_stop(struct iopub *p)
{
    watch_stop(p->subscriptions);
    watch_stop(p->tick);
    p->subscriptions = p->tick = NULL;
    while (p->first) {
        struct outbound *o = p->first;

        p->first = o->next;
        outbound_destroy(o);
    }
    p->last = &p->first;
    p->queued = 0;
}

void iopub_release(struct iopub *p)
{
    free(p);
}

void iopub_on_drained(struct iopub *p, loop_f drained, void *arg)
{
    p->drained = drained;
    p->drained_arg = arg;
}
