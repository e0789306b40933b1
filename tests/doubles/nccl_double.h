/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_double.h - a shared library that replaces libnccl.so.2 and the parts of libcuda.so.1 that it
 * needs, between processes of one host, over unix sockets. It really transfers bytes and computes
 * sums. For tests; $CELLSPAN_NCCL_LIBRARY and $CELLSPAN_CUDA_LIBRARY name it.
 *
 * Settings from the environment of each process, with defaults in parentheses:
 * - CELLSPAN_DOUBLE_GPUS: how many GPUs it sees (1); a path: as many as CUDA_VISIBLE_DEVICES names
 * - CELLSPAN_DOUBLE_NCCL_FOLDER: the folder of its sockets (none), for hosts that are network
 *   namespaces with one file system
 * - CELLSPAN_DOUBLE_GPU_MEMORY: bytes of GPU memory (1 GiB)
 * - CELLSPAN_DOUBLE_GPU_CLOCK: how much faster than time its GPUs' clock runs (1). A check, which
 *   measures for a while as this clock counts, is over sooner, and with smaller sizes
 * - CELLSPAN_DOUBLE_NCCL: the fault to simulate: init-hang, init-error, hang (operations in this
 *   process never end), error (they fail), corrupt (one bit of received data of more than 8 bytes),
 *   slow (each operation takes 20 ms longer), old (version 2.8) */
#ifndef TESTS_DOUBLES_NCCL_DOUBLE_H
#define TESTS_DOUBLES_NCCL_DOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "worker/collective/cuda_driver.h"
#include "worker/collective/nccl.h"

#define EXPORT __attribute__((visibility("default")))

/* Something that a stream does in its turn; freed by it. */
struct double_job {
    struct double_job *next;
    void (*run)(struct double_job *job);
};
void double_enqueue(cu_stream stream, struct double_job *job);
cu_result cuCtxGetCurrent(cu_context *context);

#endif
