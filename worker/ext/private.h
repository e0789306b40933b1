/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the functions of cellspan._link, by file. */
#ifndef WORKER_EXT_PRIVATE_H
#define WORKER_EXT_PRIVATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "protocol/span.h"
#include "worker/collective/deadline.h"
#include "worker/ext/python.h"
#include "worker/link/packet.h"

/* ---- magics.c ---- */
/* magics() of cellspan._link: the tables of the kernel's magics. */
extern PyMethodDef magics_methods[];

/* ---- find_calls.c ---- */
/* find(), finds() and next_find() of cellspan._link: questions about the notebook's code. */
extern PyMethodDef find_methods[];

/* ---- library_imports.c ---- */
/* hold_imports() and let_import() of cellspan._link. */
extern PyMethodDef import_methods[];

/* ---- names.c ---- */
/* marks() and rebound() of cellspan._link find out which names of a namespace code has bound. */
extern PyMethodDef names_methods[];

/* ---- memory_compare.c ---- */
/* equal(), address() and written() of cellspan._link: compare memory without reading pages that
 * can't have changed. */
extern PyMethodDef memory_methods[];

/* ---- unshared.c ---- */
/* unshared() of cellspan._link: the same bytes for equal texts, one object or several. */
extern PyMethodDef unshared_methods[];

/* ---- watched.c ---- */
/* before_resize() and after_first_read() of cellspan._link. */
extern PyMethodDef watched_methods[];

/* ---- process_calls.c ---- */
/* fork(), die_with_parent(), stack(), stdio(), closed() and outlive() of cellspan._link. */
extern PyMethodDef process_methods[];

/* ---- shared.c ---- */
/* murmur2(), capture_limit(), setting() and nearest() of cellspan._link */
extern PyMethodDef shared_methods[];

/* ---- cut.c ---- */
/* Shuts down connections of this process by their inodes, so that a collective that waits on them
 * returns with an error. */

/* inodes: little-endian u64s. Shuts down descriptors whose "socket:[inode]" is among them in both
 * directions, but does not close them: their owners do. Returns how many. */
unsigned cut_sockets(struct slice inodes);
/* Shuts down this process's connections to torch's stores that it hosts itself. Returns how many.
 */
unsigned cut_own_stores(void);

/* hosts_store() and cut_stores() of cellspan._link. */
extern PyMethodDef cut_methods[];

/* ---- live_stacks.c ---- */
/* Stacks of a worker that goes on (see worker/link/stacks.h). */

/* Called by the I/O thread on a STACKS: another thread writes the stacks when it has Python's lock,
 * unless that is later than `until` (clock_system). */
void live_stacks_ask(uint64_t until);
void live_stacks_forked(void); /* for the child of a fork, which has no such thread */

/* on_stacks() of cellspan._link. */
extern PyMethodDef live_stacks_methods[];

/* ---- crash_stack.c ---- */
/* Writes the C stack of a worker that crashes. Install it before faulthandler: that one's handler
 * writes Python's stack, restores this handler and lets the fault happen again. */

/* On a fatal signal, writes the C stack to fd (borrowed, must stay open) and ends by the signal. */
MUST_USE int crash_stack_install(int fd, struct err *err);

/* A list of n items that `one` makes of the rows; NULL with a Python exception. (convert.c) */
PyObject *list_of(size_t n, PyObject *(*one)(const void *rows, size_t i), const void *rows);

/* ---- convert.c ---- */
/* Converts cellspan's messages to and from Python: a dict of fields by name. Both directions use
 * the table in protocol/. */

/* Encodes a message of `kind` from a dict (NULL: no fields). A missing field is 0 or empty. Lone
 * surrogates in strings are replaced. -1 with a Python exception. */
MUST_USE int convert_encode(const char *kind, struct span *head, PyObject *fields, struct buf *out);

/* (kind, cell, worker, blob, blob_fd, blob_size, fields), a new reference; the blob's descriptor
 * goes with it (-1: none). NULL with a Python exception. */
PyObject *convert_packet(struct packet *p);

/* encode() and decode() of cellspan._link. */
extern PyMethodDef convert_methods[];

/* ---- _link.c ---- */
struct worker_link;
struct flusher;
struct worker_link *own_link(PyObject *module); /* the module's own */
struct flusher *own_flusher(PyObject *module);
/* Sends a message whole or not at all: threads need no lock; an interrupted call sent nothing.
 * blob_fd is borrowed; -1: none. -1 with a Python exception. */
MUST_USE int own_send(PyObject *module, const struct buf *b, int blob_fd);

/* ---- limits.c ---- */
/* Adds within() and why() of cellspan._link, a time limit for what a thread does, mask(), unmask()
 * and raise_in(), which interrupts other threads than the main one, and limit_held(), which names
 * the system's. -1 with a Python exception. */
MUST_USE int limits_add(PyObject *module);
/* Raises an exception in the threads whose limit is over. The flusher calls it, which has the
 * interpreter's lock then: so no thread is started for it. */
void thread_limits_due(void);
void thread_limits_forked(void); /* for the child of a fork, which has no other threads */
#define THREAD_LIMITS_MAX 64     /* at once; those beyond have no limit */

/* ---- step_count.c ---- */
/* The steps of a rank's cell, which cellspan.step() counts. The kernel asks for their number
 * (COUNT) also while Python is busy; the step after that waits for its MEET. */

void steps_begin(uint64_t cell);        /* a RUN has come: it counts anew */
void steps_tell(int fd, uint64_t cell); /* a COUNT has come: answers with MET */
void steps_over(void);                  /* ranks don't meet: no step waits for it */
void steps_forked(void);                /* for the child of a fork, which has no kernel */
/* step(), steps_asked() and steps_over() of cellspan._link. */
extern PyMethodDef steps_methods[];

/* ---- pause.c ---- */
/* For C code that waits: releases the interpreter's lock, and handles Python's signals from time to
 * time, as Python code would. */

struct pause {
    PyThreadState *thread;
    uint64_t checked_ns;
    bool raised; /* a signal handler raised: the exception is set */
};

/* Releases the lock. The limit is cancelled when a signal handler raises. */
struct deadline pause_begin(struct pause *p, double seconds);
/* Takes the lock again. true: an exception is set, regardless of the call's result. */
bool pause_end(struct pause *p);
/* Sleeps until the descriptor is ready. 1: it is; 0: the time is over; -1: a signal handler raised
 * a Python exception. */
MUST_USE int pause_for(int fd, short events, double seconds);

#endif
