/* SPDX-License-Identifier: BSD-3-Clause */
/* link_interrupts.c - when the main thread gets a SIGINT: for an interrupt of its cell, or at the
 * end of a time limit. Functions that begin with link_ are declared in link.h. */
#include "worker/ext/link_interrupts.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static void nothing(int signo)
{
    (void)signo;
}

/* Python notes a SIGINT and handles it at its next check. If the signal comes after the last check
 * before a system call that waits, the call does not notice it and waits to its end. WAKE_SIGNAL
 * ends the wait, and Python checks. A system call without a SIGINT before it only begins anew. */
#define WAKE_SIGNAL   SIGURG /* its default action is to do nothing, so a late one is harmless */
#define WAKE_AFTER_MS 50u    /* twice as long after each one */
#define WAKES_MAX     6u

void link_interrupts_init(void)
{
    struct sigaction now, ours = { .sa_handler = nothing };

    if (sigaction(WAKE_SIGNAL, NULL, &now) < 0 || now.sa_handler != SIG_DFL)
        return;
    (void)sigemptyset(&ours.sa_mask);
    (void)sigaction(WAKE_SIGNAL, &ours, NULL);
}

/* Wakes the main thread if it is time. Leaves the signal alone if the program has a use for it. */
static void wake_main(struct worker_link *l, uint64_t now)
{
    struct sigaction is;

    if (!l->wakes_ns || now < l->wakes_ns)
        return;
    if (sigaction(WAKE_SIGNAL, NULL, &is) == 0 && is.sa_handler == nothing)
        pthread_kill(l->main_thread, WAKE_SIGNAL);
    l->wakes++;
    l->wakes_ns = l->wakes < WAKES_MAX ? now + ((WAKE_AFTER_MS * NS_PER_MS) << l->wakes) : 0;
}

/* Is an interrupt to wait? Another one after a second says that the first waits for too long. */
static bool is_held(const struct worker_link *l)
{
    const bool again = l->due && clock_now(&clock_system) - l->due_ns >= NS_PER_S;

    return l->held == LINK_HELD || (!again && (l->held == LINK_YIELDS || l->importing));
}

/* Sends SIGINT as a terminal does: to the whole process group. So it reaches the main thread (the
 * only thread that does not block it) and the commands that it waits for; during system() the
 * caller itself ignores SIGINT. */
static void send_interrupt(struct worker_link *l)
{
    if (is_held(l)) {
        if (!l->due)
            l->due_ns = clock_now(&clock_system);
        l->due = true;
        return;
    }
    l->due = false;
    l->interrupted = true;
    l->why |= LINK_INTERRUPT;
    if (getpgrp() == getpid())
        kill(0, SIGINT);
    else
        pthread_kill(l->main_thread, SIGINT);
    l->wakes = 0;
    l->wakes_ns = clock_now(&clock_system) + WAKE_AFTER_MS * NS_PER_MS;
    if (pthread_equal(pthread_self(), l->main_thread))
        (void)!write(l->earlier[1], "", 1);
}

void link_interrupt_came(struct worker_link *l, uint64_t cell)
{
    bool runs = false;

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; i < l->cells_n && !runs; i++)
        runs = l->cells[i] == cell;
    if (runs)
        send_interrupt(l);
    else if (cell == l->coming && l->early != cell)
        l->early = cell;
    else if (cell == l->coming && l->cells_n > 0)
        send_interrupt(l);
    pthread_mutex_unlock(&l->lock);
}

/* Something holds interrupts no longer. */
static void send_due(struct worker_link *l)
{
    if (!l->due || l->held || l->importing)
        return;
    l->due = false;
    send_interrupt(l);
}

void link_interrupt_at_last(struct worker_link *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->due)
        l->importing = false;
    send_due(l);
    pthread_mutex_unlock(&l->lock);
}

static int ms_until(uint64_t when, uint64_t now)
{
    return when > now ? (int)((when - now) / NS_PER_MS) + 1 : 0;
}

/* when: 0: never */
static int ms_or_earlier(int ms, uint64_t when, uint64_t now)
{
    return when && (ms < 0 || ms_until(when, now) < ms) ? ms_until(when, now) : ms;
}

int link_interrupts_due(struct worker_link *l)
{
    const uint64_t now = clock_now(&clock_system);
    int ms = -1;

    pthread_mutex_lock(&l->lock);
    if (l->limit_ns && now >= l->limit_ns) {
        l->why |= LINK_LATE;
        l->limit_ns = now + LINK_AGAIN_MS * NS_PER_MS;
        pthread_kill(l->main_thread, SIGINT);
    }
    if (l->importing && l->due && now >= l->due_ns + LINK_IMPORT_NS) {
        l->importing = false;
        send_due(l);
    }
    wake_main(l, now);
    l->checks_ns = l->limit_ns;
    ms = ms_or_earlier(ms, l->limit_ns, now);
    ms = ms_or_earlier(ms, l->wakes_ns, now);
    if (l->importing && l->due)
        ms = ms_or_earlier(ms, l->due_ns + LINK_IMPORT_NS, now);
    pthread_mutex_unlock(&l->lock);
    return ms;
}

int link_begin(struct worker_link *l, uint64_t cell)
{
    int rc = -1;

    pthread_mutex_lock(&l->lock);
    if (l->cells_n < LINK_CELLS_MAX) {
        l->cells[l->cells_n++] = cell;
        rc = 0;
    }
    if (rc == 0 && l->early && l->early == cell) {
        l->early = 0;
        send_interrupt(l);
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* A SIGINT that was sent to the main thread, which calls this, is delivered before it returns. */
static void deliver_sent(void)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_BLOCK, &none, NULL);
}

static void set_held(struct worker_link *l, enum link_hold held)
{
    if (l->fd < 0 || !pthread_equal(pthread_self(), l->main_thread))
        return;
    pthread_mutex_lock(&l->lock);
    l->held = held;
    send_due(l);
    pthread_mutex_unlock(&l->lock);
}

void link_hold(struct worker_link *l, bool yields)
{
    set_held(l, yields ? LINK_YIELDS : LINK_HELD);
}

bool link_held(struct worker_link *l)
{
    bool held = true;

    if (l->fd < 0 || !pthread_equal(pthread_self(), l->main_thread))
        return held;
    pthread_mutex_lock(&l->lock);
    held = l->held != LINK_FREE;
    pthread_mutex_unlock(&l->lock);
    return held;
}

void link_release(struct worker_link *l)
{
    set_held(l, LINK_FREE);
}

void link_import(struct worker_link *l, bool begins)
{
    if (l->fd < 0 || !pthread_equal(pthread_self(), l->main_thread))
        return;
    pthread_mutex_lock(&l->lock);
    l->importing = begins;
    send_due(l);
    pthread_mutex_unlock(&l->lock);
    deliver_sent();
}

uint64_t link_limit(struct worker_link *l, uint64_t until)
{
    uint64_t before;

    if (l->fd < 0 || !pthread_equal(pthread_self(), l->main_thread))
        return 0;
    pthread_mutex_lock(&l->lock);
    before = l->limit_ns;
    l->limit_ns = until;
    if (until && (!l->checks_ns || l->checks_ns > until) && write(l->earlier[1], "", 1) == 1)
        l->checks_ns = until;
    pthread_mutex_unlock(&l->lock);
    deliver_sent(); /* it needs link_why's answer */
    return before;
}

unsigned link_why(struct worker_link *l)
{
    unsigned why;

    pthread_mutex_lock(&l->lock);
    why = l->why;
    if ((why & LINK_LATE) && !l->limit_ns)
        why ^= LINK_LATE | LINK_OVER;
    l->why = 0;
    pthread_mutex_unlock(&l->lock);
    return why;
}

bool link_end(struct worker_link *l, uint64_t cell)
{
    bool interrupted;

    pthread_mutex_lock(&l->lock);
    for (unsigned i = l->cells_n; i-- > 0;) {
        if (l->cells[i] == cell) {
            memmove(&l->cells[i], &l->cells[i + 1], (l->cells_n - i - 1) * sizeof l->cells[0]);
            l->cells_n--;
            break;
        }
    }
    interrupted = l->interrupted;
    l->interrupted = false;
    l->wakes_ns = 0;
    pthread_mutex_unlock(&l->lock);
    return interrupted;
}
