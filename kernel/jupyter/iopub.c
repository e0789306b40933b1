/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue for each subscriber, in front of one XPUB socket. libzmq does not tell which subscriber
 * is slow, and drops messages for one whose pipe is full. So we subscribe each subscriber to a
 * topic of its own, which begins with the topic that it asked for. Each one gets its own message,
 * with its own topic before the real topic; the other frames share their bytes. At most IN_FLIGHT
 * bytes for a subscriber are in libzmq. The rest waits here, and a timer of TICK_NS tries again. A
 * subscriber is gone when libzmq has no receiver for its message.
 *
 * `cellspan run` tells what it has read (iopub_read()), and is sent no more than it can keep. Its
 * own socket has no limit: a libzmq that has stopped reading loses what has come when we are
 * killed. */
#include "kernel/jupyter/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernel/jupyter/out_message.h"

#define IN_FLIGHT (4u << 20) /* also what one that tells what it has read may have unread */
/* bytes of streams and displays that wait for a subscriber that does not read */
#define BULK_MAX ((size_t)4 << 20)
#define REST_MAX ((size_t)64 << 20) /* the same of all other messages */
#define TICK_NS  (2 * NS_PER_MS)
/* while the queues are empty and libzmq's bytes must fall below `low` */
#define SLOW_TICK_NS      (20 * NS_PER_MS)
#define NOT_READING_NS    (10 * NS_PER_S)
#define MESSAGES_PER_TURN 256u
/* what a message costs a client besides its bytes, as bytes; and what the slowest client reads in a
 * second */
#define MESSAGE_COST           4096u
#define SLOW_READER            ((size_t)1 << 20)
#define SUBSCRIPTIONS_PER_TURN 32
#define TOPIC_MAX              512u

struct subscriber {
    struct subscriber *next;
    struct tally tally; /* bytes here and in libzmq; must outlive the context */
    /* owned: the topic that it asked for (topic_n bytes) and a unique suffix; own_n bytes in all */
    char *topic;
    size_t topic_n, own_n;
    struct out_message *first, **last;
    size_t queued, bulk;  /* bytes; bulk: only streams and displays */
    size_t updates;       /* bytes of bulk that a later message may replace */
    size_t total, marked; /* bytes that were ever for it, and those before the mark */
    size_t held_before;   /* bytes in libzmq at the last check */
    uint64_t progress_ns; /* when data last moved */
    uint64_t sent, read;  /* bytes that left for it, and those that it says it has read */
    unsigned long long number;
    bool stuck, gone;
    bool kept; /* it says what it has read: programs that print wait for it */
    /* it is sent one message more than it takes, for only that shows whether it is there */
    bool may_be_gone;
};

struct iopub {
    struct loop *loop;
    void *socket;
    struct watch *subscriptions, *tick;
    iopub_subscribed_f subscribed;
    void *subscribed_arg;
    loop_f drained;
    void *drained_arg;
    struct iopub_marks marks;
    /* all: connected; left: gone, but libzmq may still use their counts */
    struct subscriber *all, *left;
    struct subscriber *only; /* the new one that is being welcomed, or NULL */
    unsigned long long number;
    bool over;
    bool ending; /* all that waits leaves */
    enum { TICK_OFF, TICK_SLOW, TICK_FAST } pace;
    size_t unread; /* see iopub_unread() */
    uint64_t unread_ns;
};

static size_t waiting_for(const struct subscriber *s)
{
    return atomic_load_explicit(&s->tally.bytes, memory_order_relaxed);
}

static size_t held(const struct subscriber *s)
{
    const size_t all = waiting_for(s);

    return all > s->queued ? all - s->queued : 0;
}

/* It reads nothing, and nobody waits for it. */
static bool is_left_behind(const struct subscriber *s)
{
    return s->stuck && !s->kept;
}

/* Bytes that wait for the slowest subscriber that still reads. */
size_t iopub_waiting(const struct iopub *p)
{
    size_t most = 0;

    for (const struct subscriber *s = p->all; s; s = s->next)
        if (!is_left_behind(s) && waiting_for(s) > most)
            most = waiting_for(s);
    return most;
}

/* ---- one subscriber's queue ---- */

static struct out_message *take_at(struct subscriber *s, struct out_message **at)
{
    struct out_message *o = *at;

    if (!(*at = o->next))
        s->last = at;
    s->queued -= o->size;
    s->bulk -= o->bulk != IOPUB_REST ? o->size : 0;
    s->updates -= o->bulk == IOPUB_UPDATE ? o->size : 0;
    return o;
}

static void drop_all(struct subscriber *s)
{
    while (s->first)
        out_message_destroy(take_at(s, &s->first));
}

/* While the programs that print are held back, the status of ranks is still updated. */
static void trim_updates(struct subscriber *s)
{
    for (struct out_message **at = &s->first; *at && s->updates > REST_MAX;)
        if ((*at)->bulk == IOPUB_UPDATE)
            out_message_destroy(take_at(s, at));
        else
            at = &(*at)->next;
}

/* Drops the oldest messages above the limits. */
static void trim(struct subscriber *s)
{
    if (s->kept) {
        trim_updates(s);
        return;
    }
    for (struct out_message **at = &s->first; *at && s->bulk > BULK_MAX;)
        if ((*at)->bulk != IOPUB_REST)
            out_message_destroy(take_at(s, at));
        else
            at = &(*at)->next;
    while (s->first && s->queued - s->bulk > REST_MAX) {
        log_error("jupyter", "iopub: messages are lost for a client that reads nothing");
        out_message_destroy(take_at(s, &s->first));
    }
}

static void put(struct subscriber *s, struct out_message *o)
{
    *s->last = o;
    s->last = &o->next;
    s->queued += o->size;
    s->total += o->size;
    s->bulk += o->bulk != IOPUB_REST ? o->size : 0;
    s->updates += o->bulk == IOPUB_UPDATE ? o->size : 0;
    if (s->stuck)
        trim(s);
}

static bool takes_more(const struct iopub *p, const struct subscriber *s)
{
    return held(s) < IN_FLIGHT && (!s->kept || p->ending || s->sent - s->read < IN_FLIGHT);
}

static void flush_some(struct iopub *p, struct subscriber *s)
{
    for (unsigned i = 0;
         i < MESSAGES_PER_TURN && s->first && !s->gone && (takes_more(p, s) || s->may_be_gone);
         i++) {
        struct out_message *o = s->first;
        const bool takes = takes_more(p, s);
        const int rc = out_message_send(o, p->socket);

        if (rc == 1)
            return;
        if (rc < 0)
            log_error("jupyter", "iopub: a message is lost: %s", zmq_strerror(errno));
        else
            s->sent += o->size;
        s->gone = rc == 2;
        s->may_be_gone = false;
        if (takes) /* else nothing shows that it reads */
            s->progress_ns = clock_now(loop_clock(p->loop));
        out_message_destroy(take_at(s, &s->first));
    }
}

static void reads_again(struct subscriber *s)
{
    if (s->stuck)
        log_warn("jupyter", "iopub: a client reads again");
    s->stuck = false;
}

/* Checks whether it reads. After NOT_READING_NS without reading, it no longer slows down the
 * others. */
static void watch_progress(struct iopub *p, struct subscriber *s)
{
    const uint64_t now = clock_now(loop_clock(p->loop));
    const size_t now_held = held(s);
    const bool moved = now_held < s->held_before;

    s->held_before = now_held;
    if (moved || !s->first)
        s->progress_ns = now;
    if (s->stuck && moved) {
        reads_again(s);
    } else if (!s->stuck && now - s->progress_ns >= NOT_READING_NS) {
        s->stuck = true;
        log_warn("jupyter", "iopub: a client has read nothing for %llu s: %s until it reads again",
                 (unsigned long long)((now - s->progress_ns) / NS_PER_S),
                 s->kept ? "its output waits" : "it loses streams and displays");
        trim(s);
    }
}

/* ---- what clients have read ---- */

/* What the slowest client would have read since the last message counts no more. */
size_t iopub_unread(struct iopub *p)
{
    const uint64_t now = clock_now(loop_clock(p->loop)), passed = now - p->unread_ns;
    const size_t read = passed < NS_PER_S ? (size_t)(passed * SLOW_READER / NS_PER_S)
                                          : (size_t)(passed / NS_PER_S) * SLOW_READER;

    p->unread_ns = now;
    p->unread = p->unread > read ? p->unread - read : 0;
    return p->unread;
}

void iopub_set_read(struct iopub *p)
{
    p->unread = 0;
}

void iopub_mark(struct iopub *p)
{
    for (struct subscriber *s = p->all; s; s = s->next)
        s->marked = s->total;
}

size_t iopub_behind(const struct iopub *p)
{
    size_t all = 0;

    for (const struct subscriber *s = p->all; s; s = s->next) {
        const size_t left = s->total - waiting_for(s);

        all += is_left_behind(s) || s->gone || left >= s->marked ? 0 : s->marked - left;
    }
    return all;
}

/* ---- who is there ---- */

static void subscriber_free(struct subscriber *s)
{
    if (s)
        free(s->topic);
    free(s);
}

/* Removes subscribers that are gone. Frees each one only when libzmq has freed all its messages,
 * since until then it uses the counts. */
static void sweep(struct iopub *p)
{
    for (struct subscriber **at = &p->all; *at;) {
        struct subscriber *s = *at;

        if (!s->gone) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        drop_all(s);
        s->next = p->left;
        p->left = s;
    }
    for (struct subscriber **at = &p->left; *at;) {
        struct subscriber *s = *at;

        if (waiting_for(s)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        subscriber_free(s);
    }
}

static struct subscriber *subscriber_add(struct iopub *p, struct slice topic)
{
    struct subscriber *s = calloc(1, sizeof *s);
    const size_t room = topic.n + 32;
    const unsigned long long number = p->number++;

    if (!s || !(s->topic = malloc(room))) {
        free(s);
        return NULL;
    }
    if (topic.n)
        memcpy(s->topic, topic.p, topic.n);
    s->topic_n = topic.n;
    s->own_n = topic.n +
               (size_t)snprintf(s->topic + topic.n, room - topic.n, "\x01%llu\x01", number);
    s->number = number;
    s->last = &s->first;
    s->progress_ns = clock_now(loop_clock(p->loop));
    atomic_init(&s->tally.bytes, 0);
    if (zmq_setsockopt(p->socket, ZMQ_SUBSCRIBE, s->topic, s->own_n) < 0)
        log_error("jupyter", "iopub: a subscription is lost: %s", zmq_strerror(errno));
    s->next = p->all;
    p->all = s;
    return s;
}

/* libzmq does not tell which of the subscribers with that topic it was. So it unsubscribes the
 * unique topics of all of them; they have an effect only on the pipe that the message came from.
 * This is also the frame of one whose connection has ended. */
static void unsubscribe(struct iopub *p, struct slice topic)
{
    for (struct subscriber *s = p->all; s; s = s->next) {
        if (!slice_equal(slice_of(s->topic, s->topic_n), topic))
            continue;
        (void)zmq_setsockopt(p->socket, ZMQ_UNSUBSCRIBE, s->topic, s->own_n);
        s->may_be_gone = s->kept && !takes_more(p, s);
        flush_some(p, s);
    }
}

/* Handles a client's frame: 1 and a topic subscribes, 0 and a topic unsubscribes; drops others. */
static void took(struct iopub *p, struct slice m)
{
    const struct slice topic = slice_of(m.p + 1, m.n - (m.n > 0));
    struct subscriber *s;

    if (m.n > 0 && m.p[0] == 0)
        unsubscribe(p, topic);
    if (m.n == 0 || m.p[0] != 1 || topic.n > TOPIC_MAX)
        return;
    if (!(s = subscriber_add(p, topic))) {
        log_error("jupyter", "iopub: a subscription is lost: out of memory");
        return;
    }
    p->only = s;
    p->subscribed(p->subscribed_arg, topic);
    p->only = NULL;
}

static void subscribed(void *arg)
{
    struct iopub *p = arg;

    for (int i = 0; i < SUBSCRIPTIONS_PER_TURN; i++) {
        zmq_msg_t m;

        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, p->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&m);
            return;
        }
        took(p, slice_of(zmq_msg_data(&m), zmq_msg_size(&m)));
        zmq_msg_close(&m);
    }
}

void iopub_welcome(struct iopub *p)
{
    subscribed(p);
}

/* ---- the clock ---- */

static void tick_at(struct iopub *p, int pace)
{
    p->pace = pace;
    if (pace != TICK_OFF)
        loop_timer_again(p->tick, pace == TICK_FAST ? TICK_NS : SLOW_TICK_NS);
}

static bool flush_all(struct iopub *p)
{
    bool rest = false;

    for (struct subscriber *s = p->all; s; s = s->next) {
        flush_some(p, s);
        rest = rest || (s->first && !s->gone);
    }
    sweep(p);
    return rest;
}

static void ticked(void *arg)
{
    struct iopub *p = arg;
    bool rest = flush_all(p), stuck = true;

    for (struct subscriber *s = p->all; s; s = s->next) {
        watch_progress(p, s);
        stuck = stuck && (s->stuck || !s->first);
    }
    if (p->over && iopub_waiting(p) < p->marks.low) {
        p->over = false;
        memory_return();
        if (p->drained)
            p->drained(p->drained_arg);
    }
    tick_at(p, rest && !stuck ? TICK_FAST : rest || p->over ? TICK_SLOW : TICK_OFF);
}

/* ---- sending ---- */

/* The first frame for a subscriber; NULL if it has not asked for that topic. */
static const char *first_frame(const struct subscriber *s, struct slice topic, char *room,
                               size_t *n)
{
    if (topic.n > TOPIC_MAX || topic.n < s->topic_n ||
        (s->topic_n && memcmp(topic.p, s->topic, s->topic_n) != 0))
        return NULL;
    memcpy(room, s->topic, s->own_n);
    if (topic.n)
        memcpy(room + s->own_n, topic.p, topic.n);
    *n = s->own_n + topic.n;
    return room;
}

static int send_one(struct iopub *p, struct subscriber *s, struct slice topic,
                    struct out_message *rest, enum iopub_bulk bulk)
{
    char room[2 * TOPIC_MAX + 32];
    struct out_message *o;
    size_t n;
    const char *first = first_frame(s, topic, room, &n);

    if (!first)
        return 0;
    if (!(o = out_message_behind(slice_of(first, n), rest, &s->tally)))
        return -1;
    o->bulk = bulk;
    if (!s->first)
        s->progress_ns = clock_now(loop_clock(p->loop));
    put(s, o);
    if (s->first == o)
        flush_some(p, s);
    return 0;
}

int iopub_send(struct iopub *p, const struct slice *frame, size_t n, enum iopub_bulk bulk,
               struct err *err)
{
    const bool bare = slice_is(frame[0], JUPYTER_DELIMITER); /* there is no topic */
    struct out_message *rest = out_message_create(frame + !bare, n - !bare, err);
    bool wait = false;
    int rc = 0;

    if (!rest)
        return -1;
    for (struct subscriber *s = p->all; s; s = s->next) {
        if (p->only && s != p->only)
            continue;
        rc = send_one(p, s, bare ? slice_of("", 0) : frame[0], rest, bulk) < 0 ? -1 : rc;
        wait = wait || s->first;
    }
    if (bulk != IOPUB_REST && p->all)
        p->unread = iopub_unread(p) + rest->size + MESSAGE_COST;
    out_message_destroy(rest);
    sweep(p);
    if (wait && p->pace != TICK_FAST)
        tick_at(p, TICK_FAST);
    if (!p->over && iopub_waiting(p) > p->marks.high) {
        p->over = true;
        if (p->pace == TICK_OFF)
            tick_at(p, TICK_SLOW);
    }
    return rc < 0 ? err_set(err, "out of memory") : 0;
}

struct iopub *iopub_create(struct loop *loop, void *socket, struct iopub_marks marks,
                           iopub_subscribed_f f, void *arg, struct err *err)
{
    struct iopub *p = calloc(1, sizeof *p);

    if (!p)
        return err_null(err, "out of memory");
    p->loop = loop;
    p->socket = socket;
    p->marks = marks;
    p->subscribed = f;
    p->subscribed_arg = arg;
    if (!(p->subscriptions = loop_zmq(loop, socket, subscribed, p, err)) ||
        !(p->tick = loop_timer(loop, LOOP_OFF, 0, ticked, p, err))) {
        iopub_stop(p);
        iopub_release(p);
        return NULL;
    }
    return p;
}

void iopub_flush(struct iopub *p, uint64_t limit_ns)
{
    const struct timespec pause = { 0, (long)TICK_NS };
    const uint64_t until = clock_now(&clock_system) + limit_ns;

    p->ending = true;
    while (flush_all(p) && clock_now(&clock_system) < until)
        nanosleep(&pause, NULL);
}

void iopub_stop(struct iopub *p)
{
    watch_stop(p->subscriptions);
    watch_stop(p->tick);
    p->subscriptions = p->tick = NULL;
    for (struct subscriber *s = p->all; s; s = s->next)
        drop_all(s);
}

static void release_list(struct subscriber *s)
{
    while (s) {
        struct subscriber *next = s->next;

        subscriber_free(s);
        s = next;
    }
}

void iopub_release(struct iopub *p)
{
    if (!p)
        return;
    release_list(p->all);
    release_list(p->left);
    free(p);
}

void iopub_read(struct iopub *p, unsigned long long subscriber, uint64_t bytes)
{
    for (struct subscriber *s = p->all; s; s = s->next) {
        if (s->number != subscriber)
            continue;
        s->kept = true;
        if (bytes <= s->read || bytes > s->sent)
            continue;
        s->read = bytes;
        reads_again(s);
        flush_some(p, s);
        if (s->first && p->pace != TICK_FAST)
            tick_at(p, TICK_FAST);
    }
}

void iopub_on_drained(struct iopub *p, loop_f drained, void *arg)
{
    p->drained = drained;
    p->drained_arg = arg;
}
