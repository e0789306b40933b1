/* SPDX-License-Identifier: BSD-3-Clause */
/* A turn sleeps in poll(2) until something happens or a timer is due. Then it serves signals, then
 * descriptors and ZeroMQ sockets in the order in which their watches were made, then the due
 * timers, earliest first, then the functions of loop_later. Finally it frees stopped watches. A
 * watch that a callback adds is served from the next turn on. All watches are in one array, which
 * each turn scans a few times, as poll(2) scans its own. */
#include "base/loop/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/wake.h"
#include "base/rows.h"

enum kind { KIND_FD, KIND_ZMQ, KIND_TIMER, KIND_SIGNAL };

struct watch {
    struct loop *loop;
    enum kind kind;
    bool stopped; /* to be freed when the turn is over */
    int fd;       /* KIND_SIGNAL: the pipe of wake.c; KIND_ZMQ: from ZMQ_FD */
    unsigned events;
    bool reported; /* KIND_FD: the hang-up was reported while events was 0; don't report it again */
    bool ready;    /* KIND_ZMQ: there were messages before poll(2) */
    void *socket;
    int signo;
    bool armed;
    uint64_t due_ns, every_ns;
    uint64_t set_in; /* the turn in which the timer was set: it fires in a later one */
    loop_f f;
    loop_fd_f fd_f;
    void *arg;
};

struct later {
    loop_f f;
    void *arg;
};

struct loop {
    const struct clock *clock;
    struct watch **watch; /* owned, and each of them */
    struct pollfd *poll;  /* parallel to watch; fd -1: nothing to poll */
    size_t n, cap;
    struct later *later;
    size_t n_later, later_cap;
    uint64_t turn;
    bool stop;
    bool any_stopped;
};

/* ---- the loop itself ---- */

struct loop *loop_create(const struct clock *clock, struct err *err)
{
    struct loop *loop = calloc(1, sizeof *loop);

    if (!loop)
        return err_null(err, "out of memory");
    loop->clock = clock;
    return loop;
}

const struct clock *loop_clock(const struct loop *loop)
{
    return loop->clock;
}

void loop_stop(struct loop *loop)
{
    loop->stop = true;
}

static void sweep(struct loop *loop)
{
    size_t kept = 0;

    if (!loop->any_stopped)
        return;
    for (size_t i = 0; i < loop->n; i++)
        if (loop->watch[i]->stopped)
            free(loop->watch[i]);
        else
            loop->watch[kept++] = loop->watch[i];
    loop->n = kept;
    loop->any_stopped = false;
}

/* Calls the functions of loop_later. What they add themselves waits for the next turn. */
static void run_later(struct loop *loop)
{
    struct later *later = loop->later;
    const size_t n = loop->n_later;

    loop->later = NULL;
    loop->n_later = loop->later_cap = 0;
    for (size_t i = 0; i < n; i++)
        later[i].f(later[i].arg);
    free(later);
}

void loop_destroy(struct loop *loop)
{
    const int saved = errno;

    if (!loop)
        return;
    while (loop->n_later > 0)
        run_later(loop);
    for (size_t i = 0; i < loop->n; i++)
        watch_stop(loop->watch[i]);
    sweep(loop);
    free(loop->watch);
    free(loop->poll);
    free(loop->later);
    free(loop);
    errno = saved;
}

int loop_later(struct loop *loop, loop_f f, void *arg)
{
    struct later *later = rows_add(&loop->later, &loop->n_later, &loop->later_cap, sizeof *later);

    if (!later)
        return -1;
    *later = (struct later){ f, arg };
    return 0;
}

void loop_free(struct loop *loop, void *p)
{
    (void)!loop_later(loop, free, p);
}

/* ---- watches ---- */

/* Makes room for one more in both arrays, so that a turn never needs to allocate. */
static int reserve(struct loop *loop)
{
    const size_t cap = loop->cap ? loop->cap * 2 : 16;
    struct watch **watch;
    struct pollfd *polls;

    if (loop->n < loop->cap)
        return 0;
    if (!(watch = realloc(loop->watch, cap * sizeof(struct watch *))))
        return -1;
    loop->watch = watch;
    if (!(polls = realloc(loop->poll, cap * sizeof *polls)))
        return -1;
    loop->poll = polls;
    loop->cap = cap;
    return 0;
}

static struct watch *watch_create(struct loop *loop, enum kind kind, loop_f f, void *arg,
                                  struct err *err)
{
    struct watch *w;

    if (reserve(loop) < 0 || !(w = calloc(1, sizeof *w)))
        return err_null(err, "out of memory");
    w->loop = loop;
    w->kind = kind;
    w->fd = -1;
    w->f = f;
    w->arg = arg;
    loop->watch[loop->n++] = w;
    return w;
}

void watch_stop(struct watch *w)
{
    if (!w || w->stopped)
        return;
    w->stopped = true;
    w->loop->any_stopped = true;
    if (w->kind == KIND_SIGNAL && w->fd >= 0)
        wake_release(w->signo);
}

void watch_clear(struct watch **w)
{
    watch_stop(*w);
    *w = NULL;
}

struct watch *loop_fd(struct loop *loop, int fd, unsigned events, loop_fd_f f, void *arg,
                      struct err *err)
{
    struct watch *w = watch_create(loop, KIND_FD, NULL, arg, err);

    if (!w)
        return NULL;
    w->fd = fd;
    w->fd_f = f;
    w->events = events;
    return w;
}

void loop_fd_events(struct watch *w, unsigned events)
{
    w->events = events & (LOOP_READ | LOOP_WRITE);
    if (w->events)
        w->reported = false;
}

struct watch *loop_zmq(struct loop *loop, void *socket, loop_f f, void *arg, struct err *err)
{
    int fd;
    size_t size = sizeof fd;
    struct watch *w;

    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) < 0)
        return err_null(err, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
    if (!(w = watch_create(loop, KIND_ZMQ, f, arg, err)))
        return NULL;
    w->socket = socket;
    w->fd = fd;
    return w;
}

void loop_zmq_skip(void *socket)
{
    int more = 1;
    size_t size = sizeof more;
    zmq_msg_t rest;

    while (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more) {
        zmq_msg_init(&rest);
        more = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0;
        zmq_msg_close(&rest);
        if (!more)
            return;
    }
}

int loop_zmq_set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

struct watch *loop_timer(struct loop *loop, uint64_t after_ns, uint64_t every_ns, loop_f f,
                         void *arg, struct err *err)
{
    struct watch *w = watch_create(loop, KIND_TIMER, f, arg, err);

    if (!w)
        return NULL;
    w->every_ns = every_ns;
    loop_timer_again(w, after_ns);
    return w;
}

void loop_timer_again(struct watch *w, uint64_t after_ns)
{
    const uint64_t now = clock_now(w->loop->clock);

    w->due_ns = after_ns < UINT64_MAX - now ? now + after_ns : UINT64_MAX;
    w->set_in = w->loop->turn;
    w->armed = true;
}

void loop_timer_off(struct watch *w)
{
    w->armed = false;
}

struct watch *loop_signal(struct loop *loop, int signo, loop_f f, void *arg, struct err *err)
{
    struct watch *w;

    for (size_t i = 0; i < loop->n; i++)
        if (loop->watch[i]->kind == KIND_SIGNAL && !loop->watch[i]->stopped &&
            loop->watch[i]->signo == signo)
            return err_null(err, "signal %d is being watched already", signo);
    if (!(w = watch_create(loop, KIND_SIGNAL, f, arg, err)))
        return NULL;
    w->signo = signo;
    if ((w->fd = wake_catch(signo, err)) < 0) {
        watch_stop(w);
        return NULL;
    }
    return w;
}

/* ---- one turn ---- */

/* ZMQ_EVENTS also makes ZeroMQ process its internal commands. Otherwise its descriptor would not
 * signal again. */
static bool zmq_has_messages(void *socket)
{
    int events = 0;
    size_t size = sizeof events;
    int rc;

    do
        rc = zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size);
    while (rc < 0 && zmq_errno() == EINTR);
    return rc == 0 && (events & ZMQ_POLLIN) != 0;
}

static short poll_events(const struct watch *w)
{
    unsigned events = 0;

    if (w->kind != KIND_FD)
        return POLLIN;
    if (w->events & LOOP_READ)
        events |= POLLIN;
    if (w->events & LOOP_WRITE)
        events |= POLLOUT;
    return (short)events;
}

static int sleep_ms(const struct loop *loop, uint64_t due_ns)
{
    const uint64_t now = clock_now(loop->clock);
    uint64_t ms;

    if (due_ns == UINT64_MAX)
        return -1;
    if (due_ns <= now)
        return 0;
    ms = (due_ns - now - 1) / NS_PER_MS + 1; /* rounded up, so that we don't wake up too early */
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Fills loop->poll. Returns how long to sleep, in ms; -1: until something comes. */
static int prepare(struct loop *loop)
{
    uint64_t due_ns = UINT64_MAX;
    bool now = loop->n_later > 0;

    for (size_t i = 0; i < loop->n; i++) {
        struct watch *w = loop->watch[i];
        const bool quiet = w->kind == KIND_TIMER || w->reported;

        loop->poll[i] = (struct pollfd){ quiet ? -1 : w->fd, poll_events(w), 0 };
        if (w->kind == KIND_TIMER && w->armed && w->due_ns < due_ns)
            due_ns = w->due_ns;
        if (w->kind == KIND_ZMQ && (w->ready = zmq_has_messages(w->socket)))
            now = true;
    }
    return now ? 0 : sleep_ms(loop, due_ns);
}

static void serve_signals(struct loop *loop, size_t n)
{
    bool woken = false;

    for (size_t i = 0; i < n && !woken; i++)
        woken = loop->watch[i]->kind == KIND_SIGNAL && loop->poll[i].revents != 0;
    if (!woken)
        return;
    wake_drain();
    for (size_t i = 0; i < n; i++) {
        struct watch *w = loop->watch[i];

        if (w->kind == KIND_SIGNAL && !w->stopped && wake_take(w->signo))
            w->f(w->arg);
    }
}

/* After a hang-up, a read returns the end and a write an error, both at once. So a hang-up counts
 * as all events that the watch asked for. */
static void serve_fd(struct watch *w, short revents)
{
    const bool hangup = (revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    unsigned events = 0;

    if (revents & POLLIN || hangup)
        events |= w->events & LOOP_READ;
    if (revents & POLLOUT || hangup)
        events |= w->events & LOOP_WRITE;
    if (hangup) {
        events |= LOOP_HANGUP;
        w->reported = w->events == 0 || (revents & POLLNVAL) != 0;
    }
    if (events)
        w->fd_f(w->arg, w->fd, events);
}

static void serve_descriptors(struct loop *loop, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct watch *w = loop->watch[i];

        if (w->stopped)
            continue;
        if (w->kind == KIND_FD && loop->poll[i].revents)
            serve_fd(w, loop->poll[i].revents);
        else if (w->kind == KIND_ZMQ &&
                 (w->ready || (loop->poll[i].revents && zmq_has_messages(w->socket))))
            w->f(w->arg);
    }
}

static struct watch *earliest(struct loop *loop, uint64_t now_ns)
{
    struct watch *first = NULL;

    for (size_t i = 0; i < loop->n; i++) {
        struct watch *w = loop->watch[i];

        if (w->kind == KIND_TIMER && !w->stopped && w->armed && w->due_ns <= now_ns &&
            w->set_in < loop->turn && (!first || w->due_ns < first->due_ns))
            first = w;
    }
    return first;
}

/* A timer that is late by more than its period skips the missed calls, so that there is no burst
 * after the machine slept. */
static void rearm(struct watch *w, uint64_t now_ns)
{
    w->set_in = w->loop->turn;
    w->armed = w->every_ns > 0;
    w->due_ns = w->every_ns <= UINT64_MAX - w->due_ns ? w->due_ns + w->every_ns : UINT64_MAX;
    if (w->due_ns <= now_ns)
        w->due_ns = w->every_ns < UINT64_MAX - now_ns ? now_ns + w->every_ns : UINT64_MAX;
}

static void serve_timers(struct loop *loop)
{
    const uint64_t now_ns = clock_now(loop->clock);
    struct watch *w;

    while ((w = earliest(loop, now_ns))) {
        rearm(w, now_ns);
        w->f(w->arg);
    }
}

static int turn(struct loop *loop, struct err *err)
{
    const int wait_ms = prepare(loop);
    const size_t n = loop->n;

    loop->turn++;
    if (poll(loop->poll, (nfds_t)n, wait_ms) < 0) {
        if (errno != EINTR && errno != EAGAIN)
            return err_set(err, "poll: %s", strerror(errno));
        for (size_t i = 0; i < n; i++)
            loop->poll[i].revents = 0;
    }
    serve_signals(loop, n);
    serve_descriptors(loop, n);
    serve_timers(loop);
    if (loop->n_later > 0)
        run_later(loop);
    sweep(loop);
    return 0;
}

int loop_run(struct loop *loop, struct err *err)
{
    loop->stop = false;
    sweep(loop); /* what was stopped before the loop ran must not be polled */
    while (!loop->stop)
        if (turn(loop, err) < 0)
            return -1;
    return 0;
}
