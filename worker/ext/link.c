/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/ext/link.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/ext/cond.h"
#include "worker/ext/link_interrupts.h"
#include "worker/ext/private.h"

int link_init(struct worker_link *l, struct err *err)
{
    memset(l, 0, sizeof *l);
    l->fd = l->wake[0] = l->wake[1] = l->earlier[0] = l->earlier[1] = -1;
    l->last = &l->first;
    l->debug_last = &l->debug_first;
    if (pthread_mutex_init(&l->lock, NULL) != 0 || cond_init(&l->news) != 0)
        return err_set(err, "no lock for the link: %s", strerror(errno));
    return 0;
}

static int wake_open(struct worker_link *l, struct err *err)
{
    if (fd_pipe(l->wake) < 0 || fd_nonblock(l->wake[0], true) < 0 ||
        fd_nonblock(l->wake[1], true) < 0 || fd_pipe(l->earlier) < 0 ||
        fd_nonblock(l->earlier[0], true) < 0 || fd_nonblock(l->earlier[1], true) < 0)
        return err_set(err, "no pipe for the link: %s", strerror(errno));
    return 0;
}

static void wake_close(struct worker_link *l)
{
    fd_close(&l->wake[0]);
    fd_close(&l->wake[1]);
    fd_close(&l->earlier[0]);
    fd_close(&l->earlier[1]);
}

/* A worker must not outlive its agent: ends it and its process group at once, without handlers or
 * clean-up. */
static void die(void)
{
    if (getpgrp() == getpid())
        kill(0, SIGKILL);
    _exit(1);
}

/* Does it start or prepare a cell? Home's other requests are short and are not interrupted. */
static bool is_cell(const struct packet *p, const struct span *head)
{
    struct err err = { "" };
    struct span m;
    bool executes;

    if (head->kind != SPAN_REQUEST)
        return head->kind == SPAN_RUN || head->kind == SPAN_FETCH || head->kind == SPAN_PROBE ||
               head->kind == SPAN_BIND || head->kind == SPAN_CAPTURE || head->kind == SPAN_PACK;
    if (span_decode(&m, p->p, p->n, &err) < 0)
        return false;
    executes = slice_is(m.v[F_REQUEST_TYPE].s, "execute_request");
    span_release(&m);
    return executes;
}

/* At once: a COUNT may come before Python sees the message. */
static void note_meet(const struct packet *p)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, p->p, p->n, &err) < 0)
        return;
    if (m.v[F_MEET_HOW].u64 == MEET_OFF)
        steps_over();
    span_release(&m);
}

static void note_coming(struct worker_link *l, const struct packet *p, const struct span *head)
{
    if (head->kind == SPAN_MEET)
        note_meet(p);
    if (!is_cell(p, head))
        return;
    if (head->kind == SPAN_RUN)
        steps_begin(head->cell);
    pthread_mutex_lock(&l->lock);
    l->coming = head->cell;
    pthread_mutex_unlock(&l->lock);
}

static void synced(struct worker_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->syncs_seen++;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
}

/* If the cell still runs later, it may wait in a store that this process hosts. */
static void note_stuck(struct worker_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->stuck = l->cells_n ? l->cells[0] : 0;
    l->stuck_ns = clock_now(&clock_system) + LINK_STORES_NS;
    pthread_mutex_unlock(&l->lock);
}

static void cut(struct worker_link *l, const struct packet *p)
{
    struct span m;
    struct err err = { "" };

    if (span_decode(&m, p->p, p->n, &err) < 0)
        return;
    if (m.v[F_CUT_SOCKETS_ABORT].u64 && l->abort)
        l->abort(l->abort_arg); /* first, since NCCL logs errors about cut sockets */
    cut_sockets(m.v[F_CUT_SOCKETS_INODES].s);
    note_stuck(l);
    span_release(&m);
}

static void stacks(const struct worker_link *l, const struct packet *p)
{
    struct span m;
    struct err err = { "" };

    if (span_decode(&m, p->p, p->n, &err) < 0)
        return;
    if (l->stacks)
        l->stacks(m.v[F_STACKS_UNTIL].u64);
    span_release(&m);
}

/* Takes the packet, and leaves an empty one. NULL: memory is out, and the packet stays. */
static struct link_message *message_create(struct packet *p)
{
    struct link_message *in = malloc(sizeof *in);

    if (!in)
        return NULL;
    in->packet = *p;
    in->next = NULL;
    *p = (struct packet)PACKET_INIT;
    return in;
}

static int enqueue(struct worker_link *l, struct packet *p)
{
    struct link_message *in = message_create(p);
    ssize_t n = 1;

    if (!in)
        return -1;
    pthread_mutex_lock(&l->lock);
    if (!l->first && !l->woken)
        n = write(l->wake[1], "", 1);
    *l->last = in;
    l->last = &in->next;
    l->come++;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    return n == 1 ? 0 : -1;
}

/* The debugger's messages don't wait for the main thread, which may stand at a breakpoint. */
static int enqueue_debug(struct worker_link *l, struct packet *p)
{
    struct link_message *in = message_create(p);
    bool first;

    if (!in)
        return -1;
    pthread_mutex_lock(&l->lock);
    *l->debug_last = in;
    l->debug_last = &in->next;
    first = l->debugs++ == 0;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    if (first && l->debug)
        l->debug(l->debug_arg);
    return 0;
}

/* For messages that must not wait for Python. */
static void handle(struct worker_link *l, const struct packet *p, const struct span *head)
{
    switch (head->kind) {
    case SPAN_INTERRUPT:
        link_interrupt_came(l, head->cell);
        break;
    case SPAN_CUT_SOCKETS:
        cut(l, p);
        break;
    case SPAN_SYNCED:
        synced(l);
        break;
    case SPAN_STACKS:
        link_interrupt_at_last(l);
        stacks(l, p);
        break;
    case SPAN_COUNT:
        steps_tell(l->fd, head->cell);
        break;
    default:
        break;
    }
}

/* Handles a message, or queues it for its thread. -1: give up. */
static int dispatch(struct worker_link *l, struct packet *p)
{
    struct span head;
    struct err err = { "" };

    if (span_peek(&head, p->p, p->n, &err) < 0)
        return -1;
    switch (span_info((unsigned)head.kind)->thread) {
    case SPAN_THREAD_READING:
        handle(l, p, &head);
        return 0;
    case SPAN_THREAD_DEBUGGING:
        return enqueue_debug(l, p);
    case SPAN_THREAD_SUBSHELLS:
        return side_queue_add(l->subshells, p);
    case SPAN_THREAD_FINDING:
        return finds_came(l->finds, p);
    default:
        note_coming(l, p, &head);
        return enqueue(l, p);
    }
}

static bool stopping(struct worker_link *l)
{
    bool stop;

    pthread_mutex_lock(&l->lock);
    stop = l->stopping;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Returns for how long poll() may wait, at most ms. */
static int cut_stores_due(struct worker_link *l, int ms)
{
    const uint64_t now = clock_now(&clock_system);
    bool runs = false, due = false;

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; l->stuck && i < l->cells_n && !runs; i++)
        runs = l->cells[i] == l->stuck;
    if (!runs || (due = now >= l->stuck_ns))
        l->stuck = 0;
    else if (ms < 0 || l->stuck_ns - now < (uint64_t)ms * NS_PER_MS)
        ms = (int)((l->stuck_ns - now) / NS_PER_MS) + 1;
    pthread_mutex_unlock(&l->lock);
    if (due)
        cut_own_stores();
    return ms;
}

/* Waits until the socket is readable. false: it never will be. */
static bool wait_readable(struct worker_link *l)
{
    struct pollfd watch[] = { { .fd = l->fd, .events = POLLIN },
                              { .fd = l->earlier[0], .events = POLLIN } };
    char bytes[16];

    for (;;) {
        if (poll(watch, 2, cut_stores_due(l, link_interrupts_due(l))) < 0 && errno != EINTR)
            return false;
        if (watch[1].revents)
            (void)!read(l->earlier[0], bytes, sizeof bytes);
        if (watch[0].revents)
            return true;
    }
}

static void *io_main(void *arg)
{
    struct worker_link *l = arg;
    struct packet_spare spare = PACKET_SPARE_INIT;

    for (;;) {
        struct packet p = PACKET_INIT;
        struct err err = { "" };
        enum packet_got got;

        packet_spare_keep(&spare);
        if (!wait_readable(l))
            break;
        if (packet_takes_descriptor(l->fd))
            packet_spare_give(&spare);
        got = packet_recv(l->fd, &p, &err);
        if (got == PACKET_NONE)
            continue;
        if (got == PACKET_ERROR)
            (void)dprintf(STDERR_FILENO, "cellspan: this process can't go on: %s\n", err.text);
        if (got != PACKET_GOT)
            break;
        if (dispatch(l, &p) < 0)
            break;
        packet_release(&p);
    }
    if (!stopping(l))
        die();
    packet_spare_give(&spare);
    return NULL;
}

int link_start(struct worker_link *l, int fd, struct err *err)
{
    int rc;

    if (l->fd >= 0)
        return err_set(err, "the link is already started");
    if (fd_nonblock(fd, true) < 0 || fd_cloexec(fd) < 0)
        return err_set(err, "descriptor %d is not a link: %s", fd, strerror(errno));
    if (wake_open(l, err) < 0) {
        wake_close(l);
        return -1;
    }
    l->fd = fd;
    l->stopping = false;
    l->main_thread = pthread_self();
    link_interrupts_init();
    if ((rc = thread_start(&l->thread, io_main, l)) != 0) {
        l->fd = -1;
        wake_close(l);
        return err_set(err, "no thread for the link: %s", strerror(rc));
    }
    return 0;
}

bool link_is_main(const struct worker_link *l)
{
    return pthread_equal(pthread_self(), l->main_thread);
}

static void drop_inbox(struct worker_link *l)
{
    struct packet p;

    while (link_take(l, LINK_ALL, &p) || link_take_debug(l, 0, &p))
        packet_release(&p);
}

void link_stop(struct worker_link *l)
{
    if (l->fd < 0)
        return;
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_mutex_unlock(&l->lock);
    shutdown(l->fd, SHUT_RDWR);
    pthread_join(l->thread, NULL);
    fd_close(&l->fd);
    drop_inbox(l);
    wake_close(l);
}

void link_forked(struct worker_link *l)
{
    /* The parent's threads don't exist here, but may have held the lock. The inbox is a copy of the
     * parent's. */
    pthread_mutex_init(&l->lock, NULL);
    cond_init(&l->news);
    fd_close(&l->fd);
    l->first = NULL;
    l->last = &l->first;
    l->debug_first = NULL;
    l->debug_last = &l->debug_first;
    l->debugs = 0;
    l->cells_n = 0;
    l->interrupted = l->woken = l->importing = l->due = false;
    l->held = LINK_FREE;
    l->why = 0;
    l->coming = l->early = l->limit_ns = l->checks_ns = l->wakes_ns = l->stuck = 0;
}

static bool is_of(enum link_part part, const struct packet *p)
{
    struct span head;
    struct err err = { "" };

    if (part == LINK_ALL)
        return true;
    if (span_peek(&head, p->p, p->n, &err) < 0)
        return false;
    switch (span_info((unsigned)head.kind)->thread) {
    case SPAN_THREAD_ASKING:
        return true;
    case SPAN_THREAD_CALLING:
        return part == LINK_CALLS;
    default:
        return false;
    }
}

bool link_take(struct worker_link *l, enum link_part part, struct packet *p)
{
    struct link_message **at, *in;
    ssize_t n = 1;
    bool held;

    pthread_mutex_lock(&l->lock);
    for (at = &l->first; *at && !is_of(part, &(*at)->packet); at = &(*at)->next)
        ;
    held = l->first || l->woken;
    in = *at;
    if (in && !(*at = in->next))
        l->last = at;
    if (!in && part == LINK_ALL)
        l->woken = false;
    if (held && !l->first && !l->woken) {
        char byte;

        n = read(l->wake[0], &byte, 1);
    }
    pthread_mutex_unlock(&l->lock);
    assert(n == 1);
    (void)n;
    if (!in)
        return false;
    *p = in->packet;
    free(in);
    return true;
}

bool link_take_debug(struct worker_link *l, uint64_t ns, struct packet *p)
{
    const struct timespec until = cond_time(ns);
    struct link_message *in;

    pthread_mutex_lock(&l->lock);
    while (!l->debug_first && ns && pthread_cond_timedwait(&l->news, &l->lock, &until) == 0)
        ;
    if ((in = l->debug_first) && !(l->debug_first = in->next))
        l->debug_last = &l->debug_first;
    pthread_mutex_unlock(&l->lock);
    if (!in)
        return false;
    *p = in->packet;
    free(in);
    return true;
}

uint64_t link_debugs(struct worker_link *l)
{
    uint64_t n;

    pthread_mutex_lock(&l->lock);
    n = l->debugs;
    pthread_mutex_unlock(&l->lock);
    return n;
}

uint64_t link_sleep(struct worker_link *l, uint64_t seen, uint64_t ns)
{
    const struct timespec until = cond_time(ns);
    uint64_t come;

    pthread_mutex_lock(&l->lock);
    while (l->come == seen && pthread_cond_timedwait(&l->news, &l->lock, &until) == 0)
        ;
    come = l->come;
    pthread_mutex_unlock(&l->lock);
    return come;
}

void link_wake(struct worker_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->come++;
    pthread_cond_broadcast(&l->news);
    if (l->fd >= 0 && !pthread_equal(pthread_self(), l->main_thread) && !l->woken) {
        l->woken = true;
        if (!l->first && write(l->wake[1], "", 1) != 1)
            l->woken = false; /* the link has ended */
    }
    pthread_mutex_unlock(&l->lock);
}
