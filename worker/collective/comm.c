/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/process.h"

/* how long an abort waits until the owner's NCCL call returns */
#define OTHERS_CALL_NS (2 * NS_PER_S)
/* how long enqueued operations may take to end after an abort */
#define DRAIN_NS (5 * NS_PER_S)
#define SPIN     200u /* number of checks before the first sleep: short messages take less */

struct comm {
    struct comms *list;
    struct comm *next;
    const struct nccl *nccl;
    const struct cuda_driver *driver;
    cu_device device;
    cu_context context;
    cu_stream stream;
    bool retained, pushed;
    /* held during each NCCL call with this communicator; these calls don't block */
    pthread_mutex_t lock;
    _Atomic(nccl_comm) comm; /* NULL: not made, or aborted */
    atomic_bool aborted;
};

/* ---- all of them ---- */

int comms_init(struct comms *cs, struct err *err)
{
    cs->first = NULL;
    atomic_init(&cs->aborting, false);
    if (pthread_mutex_init(&cs->lock, NULL) != 0)
        return err_set(err, "no lock for communicators: %s", strerror(errno));
    return 0;
}

void comms_forked(struct comms *cs)
{
    pthread_mutex_init(&cs->lock, NULL);
    atomic_init(&cs->aborting, false);
    cs->first = NULL;
}

static void comms_add(struct comms *cs, struct comm *c)
{
    pthread_mutex_lock(&cs->lock);
    c->list = cs;
    c->next = cs->first;
    cs->first = c;
    pthread_mutex_unlock(&cs->lock);
}

static void comms_remove(struct comms *cs, struct comm *c)
{
    pthread_mutex_lock(&cs->lock);
    for (struct comm **at = &cs->first; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&cs->lock);
}

/* The owner holds the lock only during a call, so it is free soon. If not, the call hangs; then
 * NCCL allows an abort from another thread. */
static bool lock_soon(struct comm *c)
{
    const struct timespec ts = { 0, 1000 * 1000 };
    const uint64_t until_ns = clock_now(&clock_system) + OTHERS_CALL_NS;

    while (pthread_mutex_trylock(&c->lock) != 0) {
        if (clock_now(&clock_system) >= until_ns)
            return false;
        nanosleep(&ts, NULL);
    }
    return true;
}

static void abort_one(struct comm *c)
{
    const bool held = lock_soon(c);
    nccl_comm comm = atomic_exchange(&c->comm, NULL);

    if (comm)
        c->nccl->abort(comm);
    if (held)
        pthread_mutex_unlock(&c->lock);
}

static void *abort_main(void *arg)
{
    struct comms *cs = arg;

    pthread_mutex_lock(&cs->lock); /* so that no owner frees one meanwhile */
    for (struct comm *c = cs->first; c; c = c->next)
        if (atomic_load(&c->aborted))
            abort_one(c);
    pthread_mutex_unlock(&cs->lock);
    atomic_store(&cs->aborting, false);
    return NULL;
}

/* An abort waits until GPU kernels end, so a thread does it: the caller must serve its sockets. If
 * no thread can be started, the owners see `aborted` and abort their communicators themselves. */
unsigned comms_abort(struct comms *cs)
{
    pthread_t thread;
    unsigned n = 0;

    if (atomic_exchange(&cs->aborting, true))
        return 0;
    pthread_mutex_lock(&cs->lock);
    for (struct comm *c = cs->first; c; c = c->next, n++)
        atomic_store(&c->aborted, true);
    pthread_mutex_unlock(&cs->lock);
    if (n && thread_start(&thread, abort_main, cs) == 0)
        pthread_detach(thread);
    else
        atomic_store(&cs->aborting, false);
    return n;
}

/* ---- calls ---- */

static int lost(struct err *err)
{
    return err_set(err, "the communicator was aborted, because a rank has failed");
}

/* The communicator, locked for one call; NULL: it was aborted. */
static nccl_comm take(struct comm *c, struct err *err)
{
    nccl_comm comm;

    pthread_mutex_lock(&c->lock);
    comm = atomic_load(&c->comm);
    if (comm && !atomic_load(&c->aborted))
        return comm;
    pthread_mutex_unlock(&c->lock);
    (void)lost(err);
    return NULL;
}

static void give(struct comm *c)
{
    pthread_mutex_unlock(&c->lock);
}

static void rest(unsigned polls)
{
    const struct timespec ts = { 0, polls < 2 * SPIN ? 50 * 1000 : 500 * 1000 };

    if (polls > SPIN)
        nanosleep(&ts, NULL);
}

/* Asks NCCL for the communicator's state. *busy: an operation is in progress. -1: an error. */
static int poll_state(struct comm *c, const char *what, bool *busy, struct err *err)
{
    nccl_result state = NCCL_SUCCESS, rc;
    nccl_comm comm = take(c, err);
    int good;

    if (!comm)
        return -1;
    rc = c->nccl->async_error(comm, &state);
    good = nccl_check(c->nccl, comm, rc, what, err) < 0
               ? -1
               : nccl_check(c->nccl, comm, state, what, err);
    give(c);
    *busy = state == NCCL_IN_PROGRESS;
    return good;
}

/* Waits until a call that returned "in progress" is done; only then may the next call follow. */
static int settle(struct comm *c, const char *what, const struct deadline *l, struct err *err)
{
    for (unsigned polls = 0;; polls++) {
        bool busy = false;

        if (poll_state(c, what, &busy, err) < 0)
            return -1;
        if (!busy)
            return 0;
        if (deadline_check(l, what, err) < 0)
            return -1;
        rest(polls);
    }
}

/* The result of an NCCL call that enqueues operations. */
static int enqueued(struct comm *c, nccl_comm comm, nccl_result rc, const char *what,
                    const struct deadline *l, struct err *err)
{
    const int good = nccl_check(c->nccl, comm, rc, what, err);

    give(c);
    if (good < 0)
        return -1;
    return rc == NCCL_IN_PROGRESS ? settle(c, what, l, err) : 0;
}

/* A device pointer in the type that NCCL takes. */
static void *at(cu_pointer p)
{
    return (void *)(uintptr_t)p;
}

/* One operation of one rank. */
struct step {
    enum { STEP_ALL_REDUCE, STEP_BROADCAST, STEP_SWAP } kind;
    cu_pointer in, out;
    size_t n;
    unsigned to, from; /* from: for a broadcast, the root */
};

/* *what: the name of the call that gave the result. */
static nccl_result enqueue(struct comm *c, nccl_comm comm, const struct step *s, const char **what)
{
    const struct nccl *f = c->nccl;
    nccl_result rc;

    switch (s->kind) {
    case STEP_ALL_REDUCE:
        *what = "ncclAllReduce";
        return f->all_reduce(at(s->in), at(s->out), s->n, NCCL_FLOAT32, NCCL_SUM, comm, c->stream);
    case STEP_BROADCAST:
        *what = "ncclBroadcast";
        return f->broadcast(at(s->in), at(s->out), s->n, NCCL_UINT8, (int)s->from, comm, c->stream);
    case STEP_SWAP:
        break;
    }
    *what = "ncclSend";
    rc = f->send(at(s->in), s->n, NCCL_UINT8, (int)s->to, comm, c->stream);
    if (rc != NCCL_SUCCESS && rc != NCCL_IN_PROGRESS)
        return rc;
    *what = "ncclRecv";
    return f->recv(at(s->out), s->n, NCCL_UINT8, (int)s->from, comm, c->stream);
}

/* Enqueues all of them as one group. On a nonblocking communicator, NCCL starts a thread for each
 * call outside of a group, which takes longer than a short operation. */
static int repeat(struct comm *c, const struct step *s, unsigned count, const struct deadline *l,
                  struct err *err)
{
    nccl_comm comm = take(c, err);
    const char *what = "ncclGroupStart";
    int good;

    if (!comm)
        return -1;
    good = nccl_check(c->nccl, comm, c->nccl->group_start(), what, err);
    if (good < 0) {
        give(c);
        return -1;
    }
    for (unsigned i = 0; good == 0 && i < count; i++) {
        const nccl_result rc = enqueue(c, comm, s, &what);

        good = nccl_check(c->nccl, comm, rc, what, err);
    }
    if (good == 0)
        return enqueued(c, comm, c->nccl->group_end(), s->kind == STEP_SWAP ? "ncclGroupEnd" : what,
                        l, err);
    (void)c->nccl->group_end();
    give(c);
    return -1;
}

int comm_all_reduce(struct comm *c, cu_pointer in, cu_pointer out, size_t n, unsigned count,
                    const struct deadline *l, struct err *err)
{
    return repeat(c, &(struct step){ STEP_ALL_REDUCE, in, out, n, 0, 0 }, count, l, err);
}

int comm_broadcast(struct comm *c, cu_pointer in, cu_pointer out, size_t n, unsigned root,
                   unsigned count, const struct deadline *l, struct err *err)
{
    return repeat(c, &(struct step){ STEP_BROADCAST, in, out, n, 0, root }, count, l, err);
}

int comm_send_recv(struct comm *c, cu_pointer in, unsigned next, cu_pointer out, unsigned previous,
                   size_t n, unsigned count, const struct deadline *l, struct err *err)
{
    return repeat(c, &(struct step){ STEP_SWAP, in, out, n, next, previous }, count, l, err);
}

int comm_wait(struct comm *c, cu_event event, const struct deadline *l, struct err *err)
{
    const struct cuda_driver *d = c->driver;

    for (unsigned polls = 0;; polls++) {
        const cu_result rc = event ? d->event_query(event) : d->stream_query(c->stream);
        bool busy;

        if (rc != DRIVER_NOT_READY)
            return cuda_driver_check(d, rc, "the GPU", err);
        if (polls % 16 == 0 &&
            (poll_state(c, "NCCL", &busy, err) < 0 || deadline_check(l, "the other GPUs", err) < 0))
            return -1;
        rest(polls);
    }
}

const struct cuda_driver *comm_driver(const struct comm *c)
{
    return c->driver;
}

cu_stream comm_stream(const struct comm *c)
{
    return c->stream;
}

/* ---- life ---- */

static int enter(struct comm *c, int device, struct err *err)
{
    const struct cuda_driver *d = c->driver;

    if (cuda_driver_check(d, d->device(&c->device, device), "cuDeviceGet", err) < 0 ||
        cuda_driver_check(d, d->primary_retain(&c->context, c->device), "the GPU's context", err) <
            0)
        return -1;
    c->retained = true;
    if (cuda_driver_check(d, d->context_push(c->context), "cuCtxPushCurrent", err) < 0)
        return -1;
    c->pushed = true;
    return cuda_driver_check(d, d->stream_create(&c->stream, DRIVER_STREAM_ALONE), "cuStreamCreate",
                             err);
}

static int join(struct comm *c, const struct nccl_id *id, unsigned rank, unsigned ranks,
                const struct deadline *l, struct err *err)
{
    struct nccl_config config = { sizeof config, NCCL_MAGIC, NCCL_LEAST, 0 };
    nccl_comm comm = NULL;
    nccl_result rc;

    rc = c->nccl->init(&comm, (int)ranks, *id, (int)rank, &config);
    atomic_store(&c->comm, comm);
    if (nccl_check(c->nccl, comm, rc, "ncclCommInitRankConfig", err) < 0)
        return -1;
    return settle(c, "the other ranks' GPUs, to make a communicator,", l, err);
}

struct comm *comm_open(struct comms *cs, const struct nccl *nccl, const struct cuda_driver *driver,
                       int device, const struct nccl_id *id, unsigned rank, unsigned ranks,
                       const struct deadline *l, struct err *err)
{
    struct comm *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->nccl = nccl;
    c->driver = driver;
    pthread_mutex_init(&c->lock, NULL);
    comms_add(cs, c);
    if (enter(c, device, err) == 0 && join(c, id, rank, ranks, l, err) == 0)
        return c;
    comm_close(c, false, l);
    return NULL;
}

/* Ends the communicator together with the other ranks, as long as the limit allows. */
static bool finalize(struct comm *c, const struct deadline *l)
{
    struct err ignored = { "" };
    nccl_comm comm = take(c, &ignored);
    nccl_result rc;

    if (!comm)
        return false;
    rc = c->nccl->finalize(comm);
    return enqueued(c, comm, rc, "ncclCommFinalize", l, &ignored) == 0 &&
           settle(c, "ncclCommFinalize", l, &ignored) == 0;
}

/* Waits until the stream is done. An abort ends kernels; copies that were enqueued after them then
 * run. false: it is still busy after DRAIN_NS. */
static bool quiet(const struct comm *c)
{
    const uint64_t end = clock_now(&clock_system) + DRAIN_NS;

    for (unsigned polls = 0; c->stream && c->driver->stream_query(c->stream) == DRIVER_NOT_READY;
         polls++) {
        if (clock_now(&clock_system) >= end)
            return false;
        rest(polls);
    }
    return true;
}

bool comm_end(struct comm *c, bool well, const struct deadline *l)
{
    nccl_comm comm;

    well = well && finalize(c, l);
    if (c->list)
        comms_remove(c->list, c); /* waits until a running abort is over */
    c->list = NULL;
    comm = atomic_exchange(&c->comm, NULL);
    if (comm)
        (well ? c->nccl->destroy : c->nccl->abort)(comm);
    return quiet(c);
}

void comm_close(struct comm *c, bool well, const struct deadline *l)
{
    if (!c)
        return;
    (void)!comm_end(c, well, l);
    if (c->stream)
        c->driver->stream_destroy(c->stream);
    if (c->pushed)
        c->driver->context_pop(&c->context);
    if (c->retained)
        c->driver->primary_release(c->device);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
