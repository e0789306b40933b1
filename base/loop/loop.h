/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.h - the event loop: one for each process, created in main and passed down. It uses poll(2),
 * which every POSIX system has. A callback must do a bounded amount of work and return. A watch may
 * be stopped from any callback, even its own; it is freed at the end of the turn. A turn serves
 * signals, then descriptors and sockets in the order in which their watches were made, then timers,
 * earliest first. */
#ifndef BASE_LOOP_LOOP_H
#define BASE_LOOP_LOOP_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

struct loop;
struct watch;
typedef void (*loop_f)(void *arg);
typedef void (*loop_fd_f)(void *arg, int fd, unsigned events);

#define LOOP_READ   1u
#define LOOP_WRITE  2u
#define LOOP_HANGUP 4u /* always reported */

struct loop *loop_create(const struct clock *clock, struct err *err); /* clock is borrowed */
void loop_destroy(struct loop *loop); /* stops every watch; NULL is fine */
/* until loop_stop; -1 when poll fails */
MUST_USE int loop_run(struct loop *loop, struct err *err);
void loop_stop(struct loop *loop);
const struct clock *loop_clock(const struct loop *loop);

/* fd is borrowed and must outlive the watch. events: LOOP_READ and/or LOOP_WRITE. On a hang-up f
 * gets LOOP_HANGUP and all events that it asked for. It must read to the end, or write and get the
 * error, and then stop the watch. */
struct watch *loop_fd(struct loop *loop, int fd, unsigned events, loop_fd_f f, void *arg,
                      struct err *err);
void loop_fd_events(struct watch *w, unsigned events); /* 0: only a hang-up is reported, once */

/* f is called while the ZeroMQ socket (borrowed) has messages to read, so it may read a bounded
 * number and return. Any use of a socket may take the signal from ZeroMQ's descriptor: the loop
 * asks each socket for ZMQ_EVENTS before it sleeps. */
struct watch *loop_zmq(struct loop *loop, void *socket, loop_f f, void *arg, struct err *err);

/* Sets an option of a ZeroMQ socket that is an int. -1 and errno. */
MUST_USE int loop_zmq_set(void *socket, int option, int value);
void loop_zmq_skip(void *socket); /* Drops the remaining frames of a message. */

/* Calls f after after_ns, then every every_ns (0: once; the watch is then over and is freed by
 * watch_stop). after_ns LOOP_OFF: not before loop_timer_again(). */
#define LOOP_OFF UINT64_MAX
struct watch *loop_timer(struct loop *loop, uint64_t after_ns, uint64_t every_ns, loop_f f,
                         void *arg, struct err *err);
void loop_timer_again(struct watch *w, uint64_t after_ns); /* sets it again, also after it fired */
void loop_timer_off(struct watch *w); /* keeps the watch, for a later loop_timer_again */

/* f runs in the loop, not in the signal handler. One watch per signal number. */
struct watch *loop_signal(struct loop *loop, int signo, loop_f f, void *arg, struct err *err);

/* Calls f once, after this turn's callbacks: to free what callers up the stack may still use. */
MUST_USE int loop_later(struct loop *loop, loop_f f, void *arg);
/* The same with free(p). If memory is out, p is leaked. */
void loop_free(struct loop *loop, void *p);

void watch_stop(struct watch *w);   /* NULL is fine */
void watch_clear(struct watch **w); /* stops *w and sets it to NULL */

#endif
