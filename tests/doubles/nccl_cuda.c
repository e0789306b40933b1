/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_cuda.c - a double of the parts of libcuda.so.1 that worker/collective/cuda_driver.c uses.
 * "GPU memory" is host memory; a stream is a thread that executes one operation after the other.
 * nccl_double.h describes the settings. */
#include "tests/doubles/nccl_double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cu_stream_s {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct double_job *first, **last;
    bool working, ending;
};

struct cu_event_s {
    pthread_mutex_t lock;
    bool pending;
    uint64_t ns;
};

static struct cu_context_s {
    int unused;
} the_context;
static _Thread_local int depth; /* of pushed contexts */
/* bytes of "GPU memory" in use; the size stands in front of each block */
static atomic_long allocated;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && text[0] ? atol(text) : otherwise;
}

/* A number; or the file of the other doubles (README.md): then all that CUDA_VISIBLE_DEVICES
 * names. */
static int devices(void)
{
    const char *text = getenv("CELLSPAN_DOUBLE_GPUS"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    int n = 1;

    if (!text || text[0] != '/')
        return (int)setting("CELLSPAN_DOUBLE_GPUS", 1);
    if (!visible || !visible[0])
        return 0;
    for (; *visible; visible++)
        n += *visible == ',';
    return n;
}

/* ---- devices and contexts ---- */

EXPORT cu_result cuInit(unsigned flags)
{
    return flags ? 1 : devices() > 0 ? DRIVER_OK : DRIVER_NO_DEVICE;
}

EXPORT cu_result cuGetErrorString(cu_result result, const char **words)
{
    *words = result == DRIVER_OUT_OF_MEMORY ? "out of memory"
             : result == DRIVER_NO_DEVICE   ? "no CUDA-capable device"
                                            : "an error";
    return DRIVER_OK;
}

EXPORT cu_result cuDriverGetVersion(int *version)
{
    *version = 12040;
    return DRIVER_OK;
}

EXPORT cu_result cuDeviceGetCount(int *count)
{
    *count = devices();
    return DRIVER_OK;
}

EXPORT cu_result cuDeviceGet(cu_device *device, int index)
{
    *device = index;
    return index >= 0 && index < devices() ? DRIVER_OK : 101;
}

EXPORT cu_result cuDeviceGetName(char *name, int size, cu_device device)
{
    snprintf(name, (size_t)size, "Double GPU %d", device);
    return DRIVER_OK;
}

EXPORT cu_result cuDeviceGetUuid(struct cu_uuid *uuid, cu_device device)
{
    memset(uuid, 0x11, sizeof *uuid);
    uuid->bytes[15] = (unsigned char)device;
    return DRIVER_OK;
}

EXPORT cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
    (void)device;
    *context = &the_context;
    return DRIVER_OK;
}

EXPORT cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
    (void)device;
    return DRIVER_OK;
}

EXPORT cu_result cuCtxPushCurrent_v2(cu_context context)
{
    (void)context;
    depth++;
    return DRIVER_OK;
}

EXPORT cu_result cuCtxPopCurrent_v2(cu_context *context)
{
    *context = &the_context;
    return depth-- > 0 ? DRIVER_OK : 201;
}

EXPORT cu_result cuCtxGetCurrent(cu_context *context)
{
    *context = depth > 0 ? &the_context : NULL;
    return DRIVER_OK;
}

EXPORT cu_result cuCtxGetDevice(cu_device *device)
{
    *device = 0;
    return depth > 0 ? DRIVER_OK : 201;
}

/* ---- memory ---- */

EXPORT cu_result cuMemAlloc_v2(cu_pointer *p, size_t size)
{
    const long most = setting("CELLSPAN_DOUBLE_GPU_MEMORY", 1L << 30);
    char *block;

    if (depth <= 0)
        return 201; /* CUDA_ERROR_INVALID_CONTEXT */
    if (atomic_load(&allocated) + (long)size > most || !(block = malloc(size + 64)))
        return DRIVER_OUT_OF_MEMORY;
    memcpy(block, &size, sizeof size);
    memset(block + 64, 0xcd, size);
    atomic_fetch_add(&allocated, (long)size);
    *p = (cu_pointer)(uintptr_t)(block + 64);
    return DRIVER_OK;
}

EXPORT cu_result cuMemFree_v2(cu_pointer p)
{
    char *block = (char *)(uintptr_t)p - 64;
    size_t size;

    if (depth <= 0)
        return 201;
    memcpy(&size, block, sizeof size);
    atomic_fetch_sub(&allocated, (long)size);
    free(block);
    return DRIVER_OK;
}

/* For tests: bytes that nobody freed. */
EXPORT long double_allocated(void)
{
    return atomic_load(&allocated);
}

EXPORT cu_result cuMemAllocHost_v2(void **p, size_t size)
{
    return (*p = malloc(size)) ? DRIVER_OK : DRIVER_OUT_OF_MEMORY;
}

EXPORT cu_result cuMemFreeHost(void *p)
{
    free(p);
    return DRIVER_OK;
}

/* ---- streams ---- */

static void *stream_main(void *arg)
{
    cu_stream s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct double_job *job;

        while (!(job = s->first) && !s->ending)
            pthread_cond_wait(&s->wake, &s->lock);
        if (!job)
            break;
        if (!(s->first = job->next))
            s->last = &s->first;
        s->working = true;
        pthread_mutex_unlock(&s->lock);
        job->run(job);
        free(job);
        pthread_mutex_lock(&s->lock);
        s->working = false;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void double_enqueue(cu_stream s, struct double_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last = job;
    s->last = &job->next;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

EXPORT cu_result cuStreamCreate(cu_stream *stream, unsigned flags)
{
    cu_stream s = calloc(1, sizeof *s);

    (void)flags;
    if (!s || depth <= 0)
        abort();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    s->last = &s->first;
    pthread_create(&s->thread, NULL, stream_main, s);
    *stream = s;
    return DRIVER_OK;
}

EXPORT cu_result cuStreamDestroy_v2(cu_stream s)
{
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    free(s);
    return DRIVER_OK;
}

EXPORT cu_result cuStreamQuery(cu_stream s)
{
    bool busy;

    pthread_mutex_lock(&s->lock);
    busy = s->first || s->working;
    pthread_mutex_unlock(&s->lock);
    return busy ? DRIVER_NOT_READY : DRIVER_OK;
}

struct copy {
    struct double_job job;
    void *to;
    const void *from;
    size_t size;
};

static void copy_run(struct double_job *job)
{
    struct copy *c = (struct copy *)job;

    memcpy(c->to, c->from, c->size);
}

static cu_result copy(void *to, const void *from, size_t size, cu_stream stream)
{
    struct copy *c = malloc(sizeof *c);

    if (!c)
        return DRIVER_OUT_OF_MEMORY;
    *c = (struct copy){ { NULL, copy_run }, to, from, size };
    double_enqueue(stream, &c->job);
    return DRIVER_OK;
}

EXPORT cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t size,
                                      cu_stream stream)
{
    return copy((void *)(uintptr_t)to, from, size, stream);
}

EXPORT cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t size, cu_stream stream)
{
    return copy(to, (const void *)(uintptr_t)from, size, stream);
}

/* ---- events ---- */

EXPORT cu_result cuEventCreate(cu_event *event, unsigned flags)
{
    (void)flags;
    if (!(*event = calloc(1, sizeof **event)))
        return DRIVER_OUT_OF_MEMORY;
    pthread_mutex_init(&(*event)->lock, NULL);
    return DRIVER_OK;
}

EXPORT cu_result cuEventDestroy_v2(cu_event event)
{
    pthread_mutex_destroy(&event->lock);
    free(event);
    return DRIVER_OK;
}

struct mark {
    struct double_job job;
    cu_event event;
};

static void mark_run(struct double_job *job)
{
    cu_event event = ((struct mark *)job)->event;

    pthread_mutex_lock(&event->lock);
    event->ns = now_ns();
    event->pending = false;
    pthread_mutex_unlock(&event->lock);
}

EXPORT cu_result cuEventRecord(cu_event event, cu_stream stream)
{
    struct mark *m = malloc(sizeof *m);

    if (!m)
        return DRIVER_OUT_OF_MEMORY;
    *m = (struct mark){ { NULL, mark_run }, event };
    pthread_mutex_lock(&event->lock);
    event->pending = true;
    pthread_mutex_unlock(&event->lock);
    double_enqueue(stream, &m->job);
    return DRIVER_OK;
}

EXPORT cu_result cuEventQuery(cu_event event)
{
    bool pending;

    pthread_mutex_lock(&event->lock);
    pending = event->pending;
    pthread_mutex_unlock(&event->lock);
    return pending ? DRIVER_NOT_READY : DRIVER_OK;
}

EXPORT cu_result cuEventElapsedTime(float *ms, cu_event begin, cu_event end)
{
    const char *clock = getenv("CELLSPAN_DOUBLE_GPU_CLOCK");

    if (cuEventQuery(begin) || cuEventQuery(end))
        return DRIVER_NOT_READY;
    *ms = (float)((double)(end->ns - begin->ns) / 1e6 * (clock ? atof(clock) : 1));
    return DRIVER_OK;
}
