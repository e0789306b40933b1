/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_double.c - see nccl_double.h: the NCCL half. A communicator is a full mesh of unix sockets.
 * Operations run in the stream's thread, and check from time to time whether they were aborted.
 * Some functions return "in progress", as the real ones do. */
#include "tests/doubles/nccl_double.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 64
#define SLICE_MS  10

struct nccl_comm_s {
    int rank, ranks;
    struct nccl_id id;
    int fd[RANKS_MAX];
    pthread_t joiner;
    bool joining;
    atomic_int state;     /* of GetAsyncError */
    atomic_int launching; /* calls that said "in progress" and whose work has not begun */
    atomic_int jobs;
    atomic_bool aborted;
    unsigned calls;
};

static bool plays(const char *what)
{
    const char *text = getenv("CELLSPAN_DOUBLE_NCCL");

    return text && strcmp(text, what) == 0;
}

static void sleep_ms(long ms)
{
    const struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

    nanosleep(&ts, NULL);
}

/* ---- bytes ---- */

/* Whole or not: false when it was aborted or the peer is gone. */
static bool move(struct nccl_comm_s *c, int peer, char *p, size_t n, bool out)
{
    while (n) {
        struct pollfd watch = { .fd = c->fd[peer], .events = out ? POLLOUT : POLLIN };
        ssize_t k;

        if (atomic_load(&c->aborted))
            return false;
        if (poll(&watch, 1, SLICE_MS) <= 0)
            continue;
        k = out ? send(watch.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT)
                : recv(watch.fd, p, n, MSG_DONTWAIT);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (k <= 0) {
            atomic_store(&c->state, NCCL_REMOTE_ERROR);
            return false;
        }
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Both ways at once, so that two who send to each other don't wait for each other. */
static bool swap_bytes(struct nccl_comm_s *c, int to, char *out, int from, char *in, size_t n)
{
    size_t sent = 0, got = 0;

    while (sent < n || got < n) {
        struct pollfd watch[2] = { { .fd = sent < n ? c->fd[to] : -1, .events = POLLOUT },
                                   { .fd = got < n ? c->fd[from] : -1, .events = POLLIN } };
        ssize_t k;

        if (atomic_load(&c->aborted))
            return false;
        if (poll(watch, 2, SLICE_MS) <= 0)
            continue;
        if (watch[0].revents &&
            (k = send(watch[0].fd, out + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
            sent += (size_t)k;
        if (watch[1].revents) {
            k = recv(watch[1].fd, in + got, n - got, MSG_DONTWAIT);
            if (k > 0) {
                got += (size_t)k;
            } else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
                atomic_store(&c->state, NCCL_REMOTE_ERROR);
                return false;
            }
        }
    }
    return true;
}

/* ---- joining ---- */

static socklen_t name_of(const struct nccl_comm_s *c, int rank, struct sockaddr_un *at)
{
    const char *folder = getenv("CELLSPAN_DOUBLE_NCCL_FOLDER");

    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    if (folder) {
        snprintf(at->sun_path, sizeof at->sun_path, "%s/%.32s-%d", folder, c->id.bytes, rank);
        return sizeof *at;
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "nccl-%.32s-%d",
                                        c->id.bytes, rank));
}

static bool call(struct nccl_comm_s *c, int rank)
{
    struct sockaddr_un at;
    const socklen_t n = name_of(c, rank, &at);
    char who = (char)c->rank;

    while (!atomic_load(&c->aborted)) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&at, n) == 0) {
            c->fd[rank] = fd;
            return send(fd, &who, 1, MSG_NOSIGNAL) == 1;
        }
        close(fd);
        sleep_ms(1);
    }
    return false;
}

static bool answer(struct nccl_comm_s *c, int listener)
{
    char who;
    int fd;

    while (!atomic_load(&c->aborted)) {
        struct pollfd watch = { .fd = listener, .events = POLLIN };

        if (poll(&watch, 1, SLICE_MS) <= 0 || (fd = accept(listener, NULL, NULL)) < 0)
            continue;
        if (recv(fd, &who, 1, MSG_WAITALL) != 1 || who < 0 || who >= c->ranks) {
            close(fd);
            return false;
        }
        c->fd[(int)who] = fd;
        return true;
    }
    return false;
}

static void *join_main(void *arg)
{
    struct nccl_comm_s *c = arg;
    struct sockaddr_un at;
    const socklen_t n = name_of(c, c->rank, &at);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = bind(listener, (struct sockaddr *)&at, n) == 0 && listen(listener, RANKS_MAX) == 0;

    while (plays("init-hang") && !atomic_load(&c->aborted))
        sleep_ms(SLICE_MS);
    for (int i = 0; good && i < c->rank; i++)
        good = call(c, i);
    for (int i = c->rank + 1; good && i < c->ranks; i++)
        good = answer(c, listener);
    close(listener);
    atomic_store(&c->state, plays("init-error") || !good ? 2 : NCCL_SUCCESS);
    return NULL;
}

EXPORT nccl_result ncclGetVersion(int *version)
{
    *version = plays("old") ? 2804 : 22403;
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclGetUniqueId(struct nccl_id *id)
{
    unsigned char bytes[16];
    const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    const bool good = read(fd, bytes, sizeof bytes) == sizeof bytes;

    close(fd);
    memset(id, 0, sizeof *id);
    for (unsigned i = 0; i < sizeof bytes; i++)
        sprintf(id->bytes + 2 * i, "%02x", bytes[i]);
    return good ? NCCL_SUCCESS : 2;
}

EXPORT nccl_result ncclCommInitRankConfig(nccl_comm *comm, int ranks, struct nccl_id id, int rank,
                                          struct nccl_config *config)
{
    struct nccl_comm_s *c;
    cu_context context = NULL;

    if (ranks > RANKS_MAX || rank < 0 || rank >= ranks || config->magic != NCCL_MAGIC ||
        config->size != sizeof *config || config->version < 21400 || config->blocking != 0)
        return 4; /* ncclInvalidArgument */
    if (cuCtxGetCurrent(&context) || !context || !(c = calloc(1, sizeof *c)))
        return 1; /* ncclUnhandledCudaError */
    c->rank = rank;
    c->ranks = ranks;
    c->id = id;
    for (int i = 0; i < RANKS_MAX; i++)
        c->fd[i] = -1;
    atomic_store(&c->state, NCCL_IN_PROGRESS);
    c->joining = pthread_create(&c->joiner, NULL, join_main, c) == 0;
    *comm = c;
    return NCCL_IN_PROGRESS;
}

/* ---- ends ---- */

static void end(struct nccl_comm_s *c)
{
    if (c->joining)
        pthread_join(c->joiner, NULL);
    while (atomic_load(&c->jobs) > 0)
        sleep_ms(1);
    for (int i = 0; i < RANKS_MAX; i++)
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    free(c);
}

EXPORT nccl_result ncclCommFinalize(nccl_comm c)
{
    (void)c;
    return NCCL_IN_PROGRESS;
}

EXPORT nccl_result ncclCommDestroy(nccl_comm c)
{
    end(c);
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclCommAbort(nccl_comm c)
{
    atomic_store(&c->aborted, true);
    end(c);
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclCommGetAsyncError(nccl_comm c, nccl_result *state)
{
    *state = atomic_load(&c->state);
    if (*state == NCCL_SUCCESS && atomic_load(&c->launching) > 0)
        *state = NCCL_IN_PROGRESS;
    return NCCL_SUCCESS;
}

EXPORT const char *ncclGetErrorString(nccl_result result)
{
    return result == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
                                       : "unhandled system error";
}

EXPORT const char *ncclGetLastError(nccl_comm c)
{
    return c ? "as the double was told" : "";
}

/* ---- operations ---- */

enum kind { ALL_REDUCE, BROADCAST, SWAP };

struct work {
    struct double_job job;
    struct nccl_comm_s *comm;
    enum kind kind;
    char *in, *out;
    size_t bytes;
    int root, to, from;
    bool was_announced;
};

static bool all_reduce(struct work *w)
{
    struct nccl_comm_s *c = w->comm;
    const size_t n = w->bytes / sizeof(float);
    float *sum = (float *)(void *)w->out, *part;
    bool good = true;

    if (w->out != w->in)
        memcpy(w->out, w->in, w->bytes);
    if (c->rank != 0)
        return move(c, 0, w->out, w->bytes, true) && move(c, 0, w->out, w->bytes, false);
    if (!(part = malloc(w->bytes)))
        return false;
    for (int i = 1; good && i < c->ranks; i++) {
        good = move(c, i, (char *)part, w->bytes, false);
        for (size_t k = 0; good && k < n; k++)
            sum[k] += part[k];
    }
    for (int i = 1; good && i < c->ranks; i++)
        good = move(c, i, w->out, w->bytes, true);
    free(part);
    return good;
}

static bool broadcast(struct work *w)
{
    struct nccl_comm_s *c = w->comm;
    bool good = true;

    if (c->rank != w->root)
        return move(c, w->root, w->out, w->bytes, false);
    if (w->out != w->in)
        memcpy(w->out, w->in, w->bytes);
    for (int i = 0; good && i < c->ranks; i++)
        good = i == c->rank || move(c, i, w->out, w->bytes, true);
    return good;
}

static void work_run(struct double_job *job)
{
    struct work *w = (struct work *)job;
    struct nccl_comm_s *c = w->comm;
    bool good = false;

    if (w->was_announced)
        atomic_fetch_sub(&c->launching, 1);
    while (plays("hang") && !atomic_load(&c->aborted))
        sleep_ms(SLICE_MS);
    if (plays("slow"))
        sleep_ms(20);
    if (plays("error"))
        atomic_store(&c->state, NCCL_REMOTE_ERROR);
    else if (atomic_load(&c->state) == NCCL_SUCCESS)
        good = w->kind == ALL_REDUCE  ? all_reduce(w)
               : w->kind == BROADCAST ? broadcast(w)
                                      : swap_bytes(c, w->to, w->in, w->from, w->out, w->bytes);
    /* shorter ones are what ranks agree on, not what they check */
    if (good && w->bytes > 8 && plays("corrupt"))
        w->out[w->bytes / 2] ^= 1;
    /* A real kernel that failed spins until it is aborted. */
    while (!good && !atomic_load(&c->aborted))
        sleep_ms(SLICE_MS);
    atomic_fetch_sub(&c->jobs, 1);
}

static nccl_result launch(nccl_comm c, struct work work, cu_stream stream)
{
    struct work *w = malloc(sizeof *w);
    const bool announced = c->calls++ % 3 == 0;

    if (!w)
        return 2;
    *w = work;
    w->job.run = work_run;
    w->comm = c;
    w->was_announced = announced;
    if (announced)
        atomic_fetch_add(&c->launching, 1);
    atomic_fetch_add(&c->jobs, 1);
    double_enqueue(stream, &w->job); /* frees it, at once perhaps */
    return announced ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
}

/* What was called since ncclGroupStart; a send and the receive of the same length after it are
 * one. */
#define GROUP_MAX 1024u

enum { NCCL_INVALID_USAGE = 5 };

static _Thread_local struct {
    bool open, sends;
    unsigned n;
    struct {
        nccl_comm comm;
        cu_stream stream;
        struct work work;
    } call[GROUP_MAX];
} group;

/* NCCL also takes calls outside of a group, but on a nonblocking communicator each starts a thread.
 * Here such a call fails, so that a test sees it. */
static nccl_result take_call(nccl_comm c, struct work work, cu_stream stream)
{
    if (!group.open)
        return NCCL_INVALID_USAGE;
    if (group.n == GROUP_MAX)
        return 2;
    group.call[group.n].comm = c;
    group.call[group.n].stream = stream;
    group.call[group.n++].work = work;
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclAllReduce(const void *in, void *out, size_t n, int type, int op, nccl_comm c,
                                 cu_stream stream)
{
    if (type != NCCL_FLOAT32 || op != NCCL_SUM)
        return 4;
    return take_call(c,
                     (struct work){ .kind = ALL_REDUCE,
                                    .in = (char *)(uintptr_t)in,
                                    .out = out,
                                    .bytes = n * 4 },
                     stream);
}

EXPORT nccl_result ncclBroadcast(const void *in, void *out, size_t n, int type, int root,
                                 nccl_comm c, cu_stream stream)
{
    if (type != NCCL_UINT8 || root < 0 || root >= c->ranks)
        return 4;
    return take_call(c,
                     (struct work){ .kind = BROADCAST,
                                    .in = (char *)(uintptr_t)in,
                                    .out = out,
                                    .bytes = n,
                                    .root = root },
                     stream);
}

EXPORT nccl_result ncclGroupStart(void)
{
    group.open = true;
    group.sends = false;
    group.n = 0;
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclSend(const void *in, size_t n, int type, int peer, nccl_comm c,
                            cu_stream stream)
{
    if (!group.open || group.sends || type != NCCL_UINT8 || peer < 0 || peer >= c->ranks)
        return 4;
    group.sends = true;
    return take_call(c,
                     (struct work){
                         .kind = SWAP, .in = (char *)(uintptr_t)in, .bytes = n, .to = peer },
                     stream);
}

EXPORT nccl_result ncclRecv(void *out, size_t n, int type, int peer, nccl_comm c, cu_stream stream)
{
    struct work *w;

    (void)stream;
    if (!group.open || !group.sends || type != NCCL_UINT8 || peer < 0 || peer >= c->ranks)
        return 4;
    w = &group.call[group.n - 1].work;
    if (n != w->bytes)
        return 4;
    group.sends = false;
    w->out = out;
    w->from = peer;
    if (w->to == c->rank) { /* a world of one */
        w->kind = BROADCAST;
        w->root = c->rank;
    }
    return NCCL_SUCCESS;
}

EXPORT nccl_result ncclGroupEnd(void)
{
    nccl_result result = NCCL_SUCCESS;

    group.open = false;
    if (group.sends || group.n == 0)
        return NCCL_INVALID_USAGE;
    for (unsigned i = 0; i < group.n; i++) {
        const nccl_result one = launch(group.call[i].comm, group.call[i].work,
                                       group.call[i].stream);

        if (one != NCCL_SUCCESS)
            result = one;
    }
    return result;
}
