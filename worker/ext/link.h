/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h - a worker's end of the socket to its agent. One I/O thread receives; any thread may send.
 *
 * The I/O thread uses no Python objects and never takes the interpreter's lock. So it can handle an
 * interrupt, a cut of sockets and the agent's death even while Python is stuck. A second thread,
 * the flusher, takes the lock every 50 ms while a cell runs, to flush buffered text. Both threads
 * block all signals: the main thread handles them. */
#ifndef WORKER_EXT_LINK_H
#define WORKER_EXT_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "worker/ext/find_waits.h"
#include "worker/ext/side_queue.h"
#include "worker/link/packet.h"

/* cells of one worker that may be active at once: nested calls, comms during an await */
#define LINK_CELLS_MAX 16u
/* from the cut of connections between ranks to that of own connections to own stores */
#define LINK_STORES_NS (500 * NS_PER_MS)

struct link_message {
    struct packet packet;
    struct link_message *next;
};

/* Does the main thread wait with an interrupt, and does a second one end that? */
enum link_hold { LINK_FREE, LINK_HELD, LINK_YIELDS };

struct worker_link {
    /* the socket, owned; -1: not started, or this process is a fork of the one that started it */
    int fd;
    int wake[2];    /* a pipe that holds one byte while the inbox is not empty, or while `woken` */
    int earlier[2]; /* a pipe: link_limit wakes the I/O thread, whose poll would end too late */
    pthread_t thread;
    pthread_t main_thread; /* gets the SIGINT */
    /* called on a CUT_SOCKETS with `abort`, so that collectives of this rank return; may be NULL */
    void (*abort)(void *arg);
    void *abort_arg;
    /* called by the I/O thread on the first DEBUG; may be NULL */
    void (*debug)(void *arg);
    void *debug_arg;
    /* called by the I/O thread on each STACKS, with its `until`; may be NULL */
    void (*stacks)(uint64_t until);
    struct side_queue *subshells; /* borrowed; gets what is for subshells */
    struct finds *finds;          /* borrowed; gets questions and answers about code */
    pthread_mutex_t lock;         /* guards everything below */
    pthread_cond_t news;          /* a SYNCED or a message has come */
    struct link_message *first;
    struct link_message **last;
    uint64_t cells[LINK_CELLS_MAX]; /* the cells that the main thread executes now */
    unsigned cells_n;
    bool interrupted;    /* a SIGINT was sent since link_end was last called */
    enum link_hold held; /* as link_hold and link_release were told */
    bool importing;      /* as link_import was told; false also after LINK_IMPORT_NS */
    bool due;            /* an interrupt came while one of these was true */
    uint64_t due_ns;     /* when */
    uint64_t coming;     /* the last cell or probe that has come, begun or not; 0: none */
    uint64_t early;      /* a cell that was interrupted before it began; 0: none */
    uint64_t limit_ns;   /* when the main thread's time is over; 0: it has no limit */
    uint64_t checks_ns;  /* when the I/O thread checks limit_ns again; 0: not before it is woken */
    uint64_t wakes_ns;   /* when the main thread is woken after its SIGINT; 0: it is not */
    unsigned wakes;      /* how often it was since then */
    uint64_t stuck;      /* a cell that ran when connections were cut; 0: none */
    uint64_t stuck_ns;   /* when connections to own stores are cut, too, if it still runs */
    unsigned why;        /* for link_why */
    bool stopping;
    uint64_t syncs_sent;
    uint64_t syncs_seen;
    /* messages for the debugger, which has a thread of its own (see debugger.py) */
    struct link_message *debug_first;
    struct link_message **debug_last;
    uint64_t debugs; /* how many have come */
    bool woken;      /* another thread has done something for which the main thread may wait */
    uint64_t come;   /* how many messages have come, and how often link_wake was called */
};

/* Initialises all but the threads. */
MUST_USE int link_init(struct worker_link *l, struct err *err);
/* Takes ownership of fd and starts the I/O thread. The calling thread becomes main_thread. On
 * failure the caller keeps fd. */
MUST_USE int link_start(struct worker_link *l, int fd, struct err *err);
bool link_is_main(const struct worker_link *l); /* Is the calling thread main_thread? */
void link_stop(struct worker_link *l);          /* Ends the I/O thread and closes the socket. */
/* For the child of a fork: forgets threads and locks, closes the socket. Later sends fail. */
void link_forked(struct worker_link *l);

/* Which messages a thread takes. _link has them by these names, without LINK_. */
#define LINK_PARTS(X)                                                                              \
    X(ALL)       /* all but those for subshells; only the main thread may */                       \
    X(ANSWERS)   /* answers to questions */                                                        \
    X(CALLS)     /* also the requests that home serves while a call waits */                       \
    X(SUBSHELLS) /* those for subshells: not for link_take(), but for side_queue_take() */
#define LINK_PART(name) LINK_##name,
enum link_part { LINK_PARTS(LINK_PART) };
#undef LINK_PART
/* Gives the oldest message of that part to the caller. false: none. */
bool link_take(struct worker_link *l, enum link_part part, struct packet *p);
/* Waits at most so long for a DEBUG, and gives it to the caller. false: none has come. */
bool link_take_debug(struct worker_link *l, uint64_t ns, struct packet *p);
/* For threads other than main_thread: sleeps until l->come differs from `seen`, or the time is
 * over. Returns l->come. */
uint64_t link_sleep(struct worker_link *l, uint64_t seen, uint64_t ns);
/* Wakes all threads in link_sleep(). If another thread calls it, it also wakes the main thread,
 * which then calls link_take(LINK_ALL). */
void link_wake(struct worker_link *l);

/* How many DEBUGs have come. */
uint64_t link_debugs(struct worker_link *l);

/* From link_begin to link_end, an interrupt of `cell` is a SIGINT to the main thread. If the
 * interrupt came before link_begin, but after the RUN, PROBE or execute_request, link_begin sends
 * it. -1: too many cells at once. */
MUST_USE int link_begin(struct worker_link *l, uint64_t cell);
/* Between link_hold and link_release the main thread gets no SIGINT, so that no message is lost to
 * an exception. link_release delivers a SIGINT that came in between. yields: if another SIGINT
 * comes at least one second after the first, it is delivered at once, because the user's code may
 * hang there. Calls don't nest: the last call counts. In other threads both do nothing. */
void link_hold(struct worker_link *l, bool yields);
void link_release(struct worker_link *l);
/* true: the main thread imports a library, and gets no SIGINT for an interrupt until the call with
 * false, which delivers it. Another one that comes at least one second after the first is delivered
 * at once. So is the first when LINK_IMPORT_NS are over, or when the agent asks for stacks, because
 * the worker may be killed next. In other threads it does nothing. */
void link_import(struct worker_link *l, bool begins);
#define LINK_IMPORT_NS (10 * NS_PER_S)
/* true also for a thread that gets no SIGINT anyway. */
bool link_held(struct worker_link *l);
/* A limit for what the main thread does: from `until` on (clock_system) it gets a SIGINT, and again
 * every LINK_AGAIN_MS. It needs no thread and no signal of its own. until: 0 ends the limit.
 * Returns the limit before. In other threads it does nothing, and returns 0. */
uint64_t link_limit(struct worker_link *l, uint64_t until);
#define LINK_AGAIN_MS 200u
/* Why a handler of SIGINT was called: bits of what was sent since the last call. */
#define LINK_INTERRUPT 1u /* somebody's interrupt; so is a SIGINT without any bit */
#define LINK_LATE      2u /* the limit's time is over */
#define LINK_OVER      4u /* as LINK_LATE, but the limit has ended meanwhile */
unsigned link_why(struct worker_link *l);
/* true: a SIGINT was sent that the caller may not have seen yet. */
bool link_end(struct worker_link *l, uint64_t cell);

#endif
