/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_driver.h - the CUDA driver (libcuda.so.1), loaded when a check or a broadcast needs a GPU
 * (memory, a stream, events), or to list the devices of a node whose driver has no NVML.
 *
 * The types here follow the driver's binary interface without its headers, so that one build serves
 * hosts with and without CUDA. If configure found cuda.h, nccl_headers.c compares them with it. */
#ifndef WORKER_COLLECTIVE_CUDA_DRIVER_H
#define WORKER_COLLECTIVE_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int cu_result;       /* CUresult */
typedef int cu_device;       /* CUdevice */
typedef uint64_t cu_pointer; /* CUdeviceptr of 64-bit systems */
typedef struct cu_context_s *cu_context;
typedef struct cu_stream_s *cu_stream;
typedef struct cu_event_s *cu_event;
struct cu_uuid {
    unsigned char bytes[16];
};

enum { DRIVER_OK = 0, DRIVER_OUT_OF_MEMORY = 2, DRIVER_NO_DEVICE = 100, DRIVER_NOT_READY = 600 };
enum { DRIVER_STREAM_ALONE = 1 }; /* CU_STREAM_NON_BLOCKING: doesn't wait for the default stream */

struct cuda_driver {
    void *library;
    cu_result (*init)(unsigned flags);
    cu_result (*error_string)(cu_result result, const char **words);
    cu_result (*version)(int *version); /* 12040: 12.4 */
    cu_result (*count)(int *count);
    cu_result (*device)(cu_device *device, int index);
    cu_result (*name)(char *name, int size, cu_device device);
    cu_result (*uuid)(struct cu_uuid *uuid, cu_device device);
    cu_result (*memory)(size_t *bytes, cu_device device);       /* may be NULL */
    cu_result (*pci)(char *bus_id, int size, cu_device device); /* may be NULL */
    /* NULL with CUDA_DEVICES: */
    cu_result (*primary_retain)(cu_context *context, cu_device device);
    cu_result (*primary_release)(cu_device device);
    cu_result (*context_push)(cu_context context);
    cu_result (*context_pop)(cu_context *context);
    cu_result (*context_get)(cu_context *context);
    cu_result (*context_device)(cu_device *device);
    cu_result (*alloc)(cu_pointer *p, size_t size);
    cu_result (*release)(cu_pointer p);
    cu_result (*alloc_host)(void **p, size_t size); /* pinned, so that copies don't block */
    cu_result (*release_host)(void *p);
    cu_result (*to_device)(cu_pointer to, const void *from, size_t size, cu_stream stream);
    cu_result (*to_host)(void *to, cu_pointer from, size_t size, cu_stream stream);
    cu_result (*stream_create)(cu_stream *stream, unsigned flags);
    cu_result (*stream_destroy)(cu_stream stream);
    cu_result (*stream_query)(cu_stream stream);
    cu_result (*event_create)(cu_event *event, unsigned flags);
    cu_result (*event_destroy)(cu_event event);
    cu_result (*event_record)(cu_event event, cu_stream stream);
    cu_result (*event_query)(cu_event event);
    cu_result (*event_elapsed)(float *ms, cu_event begin, cu_event end);
};

enum cuda_use {
    CUDA_DEVICES, /* only what lists the devices; no context is made, so it takes no GPU memory */
    CUDA_COMPUTE,
};

/* Loads $CELLSPAN_CUDA_LIBRARY, else libcuda.so.1, and calls cuInit. Never call it before a fork:
 * CUDA does not work in the child. -1: it is not open; *absent: no library, or no device. */
MUST_USE int cuda_driver_open(struct cuda_driver *d, enum cuda_use use, bool *absent,
                              struct err *err);
void cuda_driver_close(struct cuda_driver *d); /* does nothing if it is not open */
/* If the result is not 0: -1, with "what: the driver's error text". */
MUST_USE int cuda_driver_check(const struct cuda_driver *d, cu_result result, const char *what,
                               struct err *err);
/* Writes "GPU-01234567-89ab-…" to `out`. The driver does not tell whether it is a MIG instance,
 * whose UUID NVML writes as "MIG-…"; kind: "GPU" or "MIG". */
#define CUDA_UUID_SIZE 41
void cuda_uuid_text(const struct cu_uuid *uuid, const char *kind, char out[static CUDA_UUID_SIZE]);

#endif
