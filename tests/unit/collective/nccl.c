/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/collective/{library,driver,nccl,comm,nccl_transport,nccl_broadcast}.h over the
 * double of tests/doubles/nccl_double.h: each rank is a process. */
#include "worker/collective/transport.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "worker/collective/nccl_broadcast.h"
#include "base/library.h"

#define RANKS 4u

struct told {
    struct figure rows[16];
    unsigned n;
    long allocated; /* bytes of GPU memory that were never freed */
    double seconds;
    uint64_t sum;
    struct err err;
};

struct rank {
    struct nccl nccl;
    struct cuda_driver driver;
    struct comms comms;
    struct nccl_id id;
    unsigned self, ranks;
    double seconds; /* the limit of what it does */
    struct told told;
};

typedef void (*play_f)(struct rank *r);

static double seconds_now(void)
{
    return (double)clock_now(&clock_system) / 1e9;
}

static void rank_main(struct rank *r, int out, play_f play)
{
    long (*allocated)(void);
    const double begin = seconds_now();
    bool absent;

    if (cuda_driver_open(&r->driver, CUDA_COMPUTE, &absent, &r->told.err) < 0 ||
        nccl_open(&r->nccl, NULL, 0, &r->told.err) < 0 || comms_init(&r->comms, &r->told.err) < 0)
        _exit(3);
    play(r);
    r->told.seconds = seconds_now() - begin;
    *(void **)&allocated = dlsym(r->driver.library, "double_allocated");
    r->told.allocated = allocated();
    _exit(write(out, &r->told, sizeof r->told) == sizeof r->told ? 0 : 1);
}

/* Starts the ranks; `odd` (or none, when it is `ranks`) plays with that fault. */
static void run(unsigned ranks, unsigned odd, const char *fault, double seconds, play_f play,
                struct told *told)
{
    int pipes[RANKS][2];
    pid_t pid[RANKS];
    struct rank r;
    int status;

    memset(&r, 0, sizeof r);
    fflush(stdout);
    snprintf(r.id.bytes, sizeof r.id.bytes, "%032ld", (long)getpid() * 1000 + random() % 1000);
    r.ranks = ranks;
    r.seconds = seconds;
    for (unsigned i = 0; i < ranks; i++) {
        if (pipe(pipes[i]) < 0)
            exit(1);
        if ((pid[i] = fork()) == 0) {
            if (i == odd)
                setenv("CELLSPAN_DOUBLE_NCCL", fault, 1);
            r.self = i;
            rank_main(&r, pipes[i][1], play);
        }
        close(pipes[i][1]);
    }
    for (unsigned i = 0; i < ranks; i++) {
        memset(&told[i], 0, sizeof told[i]);
        if (read(pipes[i][0], &told[i], sizeof told[i]) != sizeof told[i])
            err_set(&told[i].err, "told nothing");
        if (waitpid(pid[i], &status, 0) != pid[i] || status != 0)
            ok(false, "rank %u of %u lives (fault: %s)", i, ranks, fault);
        close(pipes[i][0]);
    }
}

static void play_measure(struct rank *r)
{
    static const uint64_t sizes[] = { 8, 5000001 };
    struct deadline l = deadline_in(r->seconds, NULL, NULL);
    struct comm *comm = comm_open(&r->comms, &r->nccl, &r->driver, 0, &r->id, r->self, r->ranks, &l,
                                  &r->told.err);
    struct transport *t = comm ? nccl_transport_create(comm, r->self, r->ranks, &l, &r->told.err)
                               : NULL;

    if (t && measure(t, 7, sizes, 2, 10.0, &l, r->told.rows, &r->told.n, &r->told.err) < 0 &&
        !r->told.err.text[0])
        (void)err_set(&r->told.err, "failed without words");
    transport_destroy(t);
}

static uint64_t bad_of(const struct told *told)
{
    uint64_t bad = 0;

    for (unsigned i = 0; i < told->n; i++)
        bad += told->rows[i].bad;
    return bad;
}

static void gpus_are_measured(void)
{
    for (unsigned ranks = 1; ranks <= RANKS; ranks++) {
        struct told told[RANKS];
        uint64_t bad = 0;
        long left = 0;
        unsigned rows = 0;

        run(ranks, ranks, "", 100, play_measure, told);
        for (unsigned i = 0; i < ranks; i++) {
            bad += bad_of(&told[i]);
            left += told[i].allocated;
            rows += told[i].n >= 4 && told[i].n == told[0].n;
        }
        is_int(rows, ranks, "%u GPUs: all have the same rows (%s)", ranks, told[0].err.text);
        is_int((int64_t)bad, 0, "%u GPUs: every element is right", ranks);
        is_int(left, 0, "%u GPUs: their memory is free again", ranks);
    }
}

/* All three end. Whose time is over first says so; the others may hear of its end before their own
 * time is. */
static bool waited(const struct told told[static 3], const char *words)
{
    bool said = false;

    for (unsigned i = 0; i < 3; i++) {
        if (!told[i].err.text[0])
            return false;
        said = said || strstr(told[i].err.text, words);
    }
    return said;
}

static void faults_are_named(void)
{
    struct told told[RANKS];

    run(3, 1, "hang", 0.5, play_measure, told);
    ok(waited(told, "did not answer within 0.5 s"),
       "a rank that hangs in an operation holds nobody (%s; %s)", told[0].err.text,
       told[2].err.text);
    is_int(told[0].allocated + told[1].allocated + told[2].allocated, 0,
           "and GPU memory is free again");
    ok(told[0].seconds < 60 && told[1].seconds < 60, "soon after the limit");
    run(3, 2, "init-hang", 0.5, play_measure, told);
    ok(waited(told, "to make a communicator, did not answer"),
       "nor one that hangs while they join (%s; %s)", told[0].err.text, told[1].err.text);
    run(2, 1, "init-error", 30, play_measure, told);
    ok(strstr(told[1].err.text, "ncclCommInitRankConfig") ||
           strstr(told[1].err.text, "NCCL error 2"),
       "NCCL's own words are passed on (%s)", told[1].err.text);
    run(3, 1, "error", 30, play_measure, told);
    ok(strstr(told[1].err.text, "remote process exited"), "asynchronous errors as well (%s)",
       told[1].err.text);
    ok(told[0].err.text[0] && told[0].seconds < 60, "and the others end (%s)", told[0].err.text);
    run(2, 1, "corrupt", 100, play_measure, told);
    is_int(told[0].err.text[0], '\0', "wrong data do not stop the check (%s)", told[0].err.text);
    ok(bad_of(&told[1]) > 0, "but are counted");
}

static void *abort_later(void *arg)
{
    struct rank *r = arg;

    while (comms_abort(&r->comms) == 0) {
        const struct timespec ts = { 0, 1000000 };

        nanosleep(&ts, NULL);
    }
    return NULL;
}

static void play_aborted(struct rank *r)
{
    pthread_t other;

    pthread_create(&other, NULL, abort_later, r);
    play_measure(r);
    pthread_join(other, NULL);
    comms_abort(&r->comms);
}

static void another_thread_aborts(void)
{
    struct told told[RANKS];

    for (unsigned i = 0; i < 5; i++) {
        run(2, 1, i % 2 ? "hang" : "init-hang", 100, play_aborted, told);
        ok(told[0].seconds < 60 && strstr(told[0].err.text, "aborted, because a rank has failed"),
           "an abort from another thread ends a wait (%s)", told[0].err.text);
    }
}

/* ---- broadcasts ---- */

#define BUNDLE (20u * 1000 * 1000 + 7)

static void put_pattern(int fd)
{
    char *bytes = malloc(BUNDLE);

    for (size_t i = 0; i < BUNDLE; i++)
        bytes[i] = (char)(i * 31 + i / 1000);
    for (size_t at = 0; at < BUNDLE;)
        at += (size_t)pwrite(fd, bytes + at, BUNDLE - at, (off_t)at);
    free(bytes);
}

static uint64_t sum_of(const char *p, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum = sum * 1099511628211u + (unsigned char)p[i];
    return sum;
}

static void play_broadcast(struct rank *r)
{
    struct deadline l = deadline_in(r->seconds, NULL, NULL);
    struct comm *comm = comm_open(&r->comms, &r->nccl, &r->driver, 0, &r->id, r->self, r->ranks, &l,
                                  &r->told.err);
    struct nccl_broadcast *broadcast =
        comm ? nccl_broadcast_create(comm, r->self, 1, &l, &r->told.err) : NULL;
    char path[] = "/tmp/cellspan-broadcast-XXXXXX";
    int fd = mkstemp(path), rc = -1;
    const uint64_t half = BUNDLE / 2;
    cu_pointer there = 0;
    char *bytes;

    unlink(path);
    if (ftruncate(fd, BUNDLE) == 0 && r->self == 1)
        put_pattern(fd);
    if (broadcast && r->driver.alloc(&there, BUNDLE - half) == 0) {
        rc = nccl_broadcast_bytes(broadcast, fd, 0, half, 0, &r->told.err); /* to the file */
        if (rc == 0)
            rc = nccl_broadcast_bytes(broadcast, fd, half, BUNDLE - half, there,
                                      &r->told.err); /* to the GPU */
        if (rc == 0 && pwrite(fd, (void *)(uintptr_t)there, BUNDLE - half, (off_t)half) < 0)
            rc = -1;
        r->driver.release(there);
    }
    nccl_broadcast_close(broadcast, rc == 0);
    bytes = mmap(NULL, BUNDLE, PROT_READ, MAP_SHARED, fd, 0);
    r->told.sum = rc == 0 ? sum_of(bytes, BUNDLE) : 0;
    munmap(bytes, BUNDLE);
    close(fd);
}

static void bundles_are_broadcast(void)
{
    struct told told[RANKS];

    run(4, 4, "", 100, play_broadcast, told);
    ok(told[1].sum != 0, "a bundle is broadcast (%s)", told[1].err.text);
    for (unsigned i = 0; i < 4; i++) {
        ok(told[i].sum == told[1].sum,
           "rank %u has the root's bytes, in memory and on its GPU (%s)", i, told[i].err.text);
        is_int(told[i].allocated, 0, "and keeps no GPU memory");
    }
    run(3, 2, "hang", 0.5, play_broadcast, told);
    ok(told[0].err.text[0] && told[2].err.text[0] && told[0].seconds < 60,
       "a broadcast to a rank that hangs ends (%s)", told[0].err.text);
}

/* ---- libraries ---- */

static void what_is_not_there_is_said(void)
{
    const char *used = "";
    const char *const names[] = { NULL, "", "/nowhere/libnccl.so.2", "libno-such-library.so.7" };
    struct err err = { "" };
    struct nccl nccl;
    struct cuda_driver driver;
    bool absent;
    char kept[512];

    snprintf(kept, sizeof kept, "%s", getenv("CELLSPAN_NCCL_LIBRARY"));
    ok(!library_open(names, 4, &used, &err), "a library that is nowhere");
    ok(strstr(err.text, "/nowhere/libnccl.so.2") && strstr(err.text, "libno-such"),
       "is told with all places (%s)", err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    ok(nccl_open(&nccl, NULL, 0, &err) < 0 && strstr(err.text, "no NCCL here"), "no NCCL (%s)",
       err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    ok(cuda_driver_open(&driver, CUDA_COMPUTE, &absent, &err) < 0 &&
           strstr(err.text, "no NVIDIA driver here"),
       "no driver (%s)", err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_CUDA_LIBRARY", kept, 1);
    setenv("CELLSPAN_NCCL_LIBRARY", "libm.so.6", 1);
    ok(nccl_open(&nccl, NULL, 0, &err) < 0 && strstr(err.text, "libm.so.6 has no ncclGetVersion"),
       "a library that is another one (%s)", err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_NCCL_LIBRARY", kept, 1);
    setenv("CELLSPAN_DOUBLE_NCCL", "old", 1);
    ok(nccl_open(&nccl, NULL, 0, &err) < 0 && strstr(err.text, "2.14 or newer"),
       "an NCCL that is too old (%s)", err.text);
    err.text[0] = '\0';
    unsetenv("CELLSPAN_DOUBLE_NCCL");
    setenv("CELLSPAN_DOUBLE_GPUS", "0", 1);
    ok(cuda_driver_open(&driver, CUDA_COMPUTE, &absent, &err) < 0 &&
           strstr(err.text, "no CUDA-capable device"),
       "a driver without a GPU (%s)", err.text);
    unsetenv("CELLSPAN_DOUBLE_GPUS");
}

static void a_full_gpu_is_named(void)
{
    struct told told[RANKS];

    setenv("CELLSPAN_DOUBLE_GPU_MEMORY", "6000000", 1);
    run(1, 1, "", 60, play_measure, told);
    ok(strstr(told[0].err.text, "GPU memory") && strstr(told[0].err.text, "out of memory"),
       "a full GPU is named (%s)", told[0].err.text);
    is_int(told[0].allocated, 0, "what was allocated before is free again");
    unsetenv("CELLSPAN_DOUBLE_GPU_MEMORY");
}

int main(void)
{
    const char *build = getenv("top_builddir");
    char path[512];

    snprintf(path, sizeof path, "%s/tests/doubles/libnccl.so", build && build[0] ? build : ".");
    if (access(path, R_OK) < 0) {
        skip("there is no %s", path);
        return plan_done();
    }
    setenv("CELLSPAN_NCCL_LIBRARY", path, 1);
    setenv("CELLSPAN_CUDA_LIBRARY", path, 1);
    signal(SIGPIPE, SIG_IGN);
    what_is_not_there_is_said();
    gpus_are_measured();
    a_full_gpu_is_named();
    faults_are_named();
    another_thread_aborts();
    bundles_are_broadcast();
    return plan_done();
}
