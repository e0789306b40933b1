/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the parts behind channels.h, such as sockets, iopub and the heartbeat, for the files
 * of this folder. */
#ifndef KERNEL_JUPYTER_PRIVATE_H
#define KERNEL_JUPYTER_PRIVATE_H

#include "kernel/jupyter/connection.h"
#include "kernel/jupyter/channels.h"

/* ---- proc.c ---- */
/* Reads facts about processes and the machine from Linux's /proc. On other systems every call
 * returns -1. */

struct proc_process {
    long pid, parent;
    uint64_t started; /* ticks since boot: distinguishes two processes with the same pid */
    uint64_t ticks;   /* CPU time used, user and system */
};

struct proc_memory { /* bytes */
    uint64_t total, free, available, buffers, cached, shared, active, inactive, slab;
};

struct proc_cpu { /* ticks since boot, of all CPUs */
    uint64_t busy, all;
};

/* The process pid and all its descendants, pid first. The caller frees *list. */
MUST_USE int proc_tree(long pid, struct proc_process **list, size_t *n);
MUST_USE int proc_memory(struct proc_memory *m);
MUST_USE int proc_cpu(struct proc_cpu *c);

/* Do all threads of the process sleep, and what CPU time has it used? A stopped one does not sleep.
 */
MUST_USE int proc_rests(long pid, struct proc_process *p, bool *rests);

/* ---- usage.c ---- */
/* Answers usage_request (jupyter-resource-usage): CPU and memory of the kernel with all its workers
 * on this machine, and of the machine. */

struct usage;

/* The answer to r; content is for the reply, borrowed for the call. */
typedef void (*usage_reply_f)(void *arg, struct request *r, struct slice content);

struct usage *usage_create(struct loop *loop, usage_reply_f reply, void *arg, struct err *err);
void usage_destroy(struct usage *u); /* NULL is fine; waiting requests get no answer */
/* Answers after a few turns of the loop: measuring a large process takes milliseconds, so each turn
 * measures one process. */
MUST_USE int usage_ask(struct usage *u, struct request *r, struct err *err);

/* ---- heartbeat.c ---- */
/* Echoes heartbeats from a thread of its own, so that it answers even while the loop is busy. */

struct heartbeat;

/* Takes ownership of the bound ROUTER, which from now on only the thread uses. On failure the
 * socket is closed. */
struct heartbeat *heartbeat_start(void *socket, struct err *err);
/* Waits for the thread, which ends when the socket's context is shut down. NULL is fine. */
void heartbeat_join(struct heartbeat *h);

/* ---- sockets.c ---- */
/* The ZeroMQ sockets of the five channels: one context, one I/O thread, options, keys, addresses.
 */

struct channels_zap;

struct sockets {
    void *context;
    void *socket[PORTS];      /* the heartbeat's is NULL: its thread owns it */
    struct channels_zap *zap; /* NULL: no encryption */
    struct heartbeat *heartbeat;
};

/* Creates and binds all five, and starts the heartbeat. On failure nothing stays open; *err names
 * the port, the file and the fix. */
MUST_USE int sockets_open(struct sockets *s, struct loop *loop, const struct connection *c,
                          struct err *err);
/* Closes all; waits up to linger_ms until sent messages have left. Safe on a zeroed struct. */
void sockets_close(struct sockets *s, int linger_ms);

/* ---- iopub.c ---- */
/* The broadcast channel. A slow subscriber loses nothing: messages that can't leave yet wait here
 * in order. Their bytes are counted, so that programs that print can be slowed down. A subscriber
 * that reads nothing for ten seconds no longer slows down anybody. When it reads again it gets only
 * the last few MiB of streams and displays, but all other messages. One that is kept is waited for
 * as long as it is there. */

struct iopub;

/* A client subscribed to the topic (borrowed). */
typedef void (*iopub_subscribed_f)(void *arg, struct slice topic);

/* The limits of channels.h: above `high`, programs that print should stop; below `low`
 * iopub_on_drained reports that they may continue. */
struct iopub_marks {
    size_t high, low; /* bytes */
};

/* socket: an XPUB with NODROP, MANUAL and no high-water mark, borrowed. */
struct iopub *iopub_create(struct loop *loop, void *socket, struct iopub_marks marks,
                           iopub_subscribed_f f, void *arg, struct err *err);
/* Call it while the socket is still open. Drops waiting messages (see iopub_flush()). libzmq may
 * still use the byte counts, so call iopub_release() after the context is gone. */
void iopub_stop(struct iopub *p);
void iopub_release(struct iopub *p); /* NULL is fine */

/* Calls iopub_subscribed_f for new subscribers, so that they get the next message. Call it before
 * iopub_send(), and before its frames are made. What is sent within iopub_subscribed_f goes only to
 * the new subscriber. */
void iopub_welcome(struct iopub *p);
/* May a subscriber that does not read miss a message? An UPDATE tells the same as an earlier one,
 * anew. */
enum iopub_bulk { IOPUB_REST, IOPUB_BULK, IOPUB_UPDATE };
/* Sends or queues copies of the frames. The first is the topic, or the delimiter if there is no
 * topic. */
MUST_USE int iopub_send(struct iopub *p, const struct slice *frame, size_t n, enum iopub_bulk bulk,
                        struct err *err);
/* A subscriber tells what it has read, and does so from now on. `subscriber` is the number in its
 * own topic, \x01NUMBER\x01; bytes: of all frames that it has got, and OUT_MESSAGE_ALLOWANCE for
 * each message. It is sent only what it can keep, and programs that print wait for it, also if it
 * reads nothing for long. */
void iopub_read(struct iopub *p, unsigned long long subscriber, uint64_t bytes);
/* Sends waiting messages until none is left or the time is over, to those that read slowly, too.
 * Blocks. */
void iopub_flush(struct iopub *p, uint64_t limit_ns);
size_t iopub_waiting(const struct iopub *p); /* bytes */
/* Bytes of streams and displays that a very slow client might still have to read, here or in its
 * own memory. Each message counts a little besides its size. */
size_t iopub_unread(struct iopub *p);
void iopub_set_read(struct iopub *p); /* the clients have read everything */
/* Remembers what every subscriber has to get until now. */
void iopub_mark(struct iopub *p);
/* How many bytes before that mark have not left for the subscribers that still read? */
size_t iopub_behind(const struct iopub *p);
void iopub_on_drained(struct iopub *p, loop_f drained, void *arg);

/* ---- waiting_replies.c ---- */
/* Keeps the replies of cells that have printed much, until clients have read their output. */

struct waiting_replies;
struct out_message;

/* Sends and destroys the reply. */
typedef void (*waiting_replies_send_f)(void *arg, struct out_message *o);

/* iopub: borrowed. */
struct waiting_replies *waiting_replies_create(struct loop *loop, struct iopub *iopub,
                                               waiting_replies_send_f send, void *arg,
                                               struct err *err);
/* Sends the replies that it has. NULL is fine. */
void waiting_replies_destroy(struct waiting_replies *w);
void waiting_replies_client(struct waiting_replies *w,
                            long pid); /* the program that started the kernel */
/* Takes the reply, or returns false: nothing to wait for, the caller sends it. */
MUST_USE bool waiting_replies_keep(struct waiting_replies *w, struct out_message *o);

#endif
