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

#include "base/err.h"
#include "worker/link/packet.h"

/* cells of one worker that may be active at once: nested calls, comms during an await */
#define LINK_CELLS_MAX 16u

struct link_message {
    struct packet packet;
    struct link_message *next;
};

struct worker_link {
    /* the socket, owned; -1: not started, or this process is a fork of the one that started it */
    int fd;
    int wake[2]; /* a pipe that holds one byte while the inbox is not empty */
    pthread_t thread;
    pthread_t main_thread; /* gets the SIGINT */
    /* called on a CUT with `abort`, so that collectives of this rank return; may be NULL */
    void (*abort)(void *arg);
    void *abort_arg;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t synced;
    struct link_message *first;
    struct link_message **last;
    uint64_t cells[LINK_CELLS_MAX]; /* the cells that the main thread executes now */
    unsigned cells_n;
    bool interrupted; /* a SIGINT was sent since link_end was last called */
    uint64_t coming;  /* the last cell or probe that has come, begun or not; 0: none */
    uint64_t early;   /* a cell that was interrupted before it began; 0: none */
    bool stopping;
    uint64_t syncs_sent;
    uint64_t syncs_seen;
};

/* Initialises all but the threads. */
MUST_USE int link_init(struct worker_link *l, struct err *err);
/* Takes ownership of fd and starts the I/O thread. The calling thread becomes main_thread. On
 * failure the caller keeps fd. */
MUST_USE int link_start(struct worker_link *l, int fd, struct err *err);
/* Ends the I/O thread and closes the socket. */
void link_stop(struct worker_link *l);
/* For the child of a fork: forgets threads and locks, closes the socket. Later sends fail. */
void link_forked(struct worker_link *l);

/* Gives the oldest message to the caller. false: none. */
bool link_take(struct worker_link *l, struct packet *p);

/* From link_begin to link_end, an interrupt of `cell` is a SIGINT to the main thread. If the
 * interrupt came before link_begin, but after the RUN, PROBE or execute_request, link_begin sends
 * it. -1: too many cells at once. */
MUST_USE int link_begin(struct worker_link *l, uint64_t cell);
/* true: a SIGINT was sent that the caller may not have seen yet. */
bool link_end(struct worker_link *l, uint64_t cell);

#endif
