/* link.h - a worker's end of the socket to its agent: one I/O thread receives, any thread sends.
 *
 * The I/O thread holds no Python object and never takes the interpreter's lock, so an interrupt, a
 * cut of sockets and the agent's death are served while Python is stuck. A second thread, the
 * flusher, takes the lock every 50 ms while a cell runs, so that buffered text is seen. Both mask
 * every signal: signals are the main thread's. */
#ifndef WORKER_EXT_LINK_H
#define WORKER_EXT_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/link/packet.h"

/* cells of one worker that may be active at once: nested calls, comms during an await */
#define LINK_CELLS_MAX 16u

struct inbox {
    struct packet packet;
    struct inbox *next;
};

struct link {
    /* the socket, owned; -1: not started, or this process was forked from the one that was */
    int fd;
    int wake[2]; /* holds one byte while the inbox is not empty */
    pthread_t thread;
    pthread_t main_thread; /* who gets the SIGINT */
    /* of a CUT that asks for it: collectives of this rank are to return; NULL: nobody's */
    void (*abort)(void *arg);
    void *abort_arg;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t synced;
    struct inbox *first;
    struct inbox **last;
    uint64_t cells[LINK_CELLS_MAX]; /* what the main thread executes now */
    unsigned cells_n;
    bool interrupted; /* a SIGINT was sent since link_end last looked */
    uint64_t coming;  /* the last cell or probe that came, begun or not; 0: none */
    uint64_t early;   /* it was interrupted before it began; 0: none */
    bool stopping;
    uint64_t syncs_sent;
    uint64_t syncs_seen;
};

/* Everything but the threads; the link is then unused. */
MUST_USE int link_init(struct link *l, struct err *err);
/* Takes fd and starts the I/O thread; the calling thread is the one that interrupts go to. On
 * failure fd stays the caller's. */
MUST_USE int link_start(struct link *l, int fd, struct err *err);
/* Ends the I/O thread and closes the socket. */
void link_stop(struct link *l);
/* For the child of a fork: forgets threads and locks, closes the socket. Sends fail from here
 * on. */
void link_forked(struct link *l);

/* The oldest message, now the caller's. false: none. */
bool link_take(struct link *l, struct packet *p);

/* An interrupt of `cell` is a SIGINT to the main thread from begin to end; of a RUN, a PROBE or a
 * cell of home's that came, but has not begun, as it begins. -1: too many at once. */
MUST_USE int link_begin(struct link *l, uint64_t cell);
/* true: a SIGINT was sent that the caller may not have seen yet. */
bool link_end(struct link *l, uint64_t cell);

#endif
