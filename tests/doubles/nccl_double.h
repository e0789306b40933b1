/* nccl_double.h - one shared library that plays libnccl.so.2 and what it needs of libcuda.so.1,
 * between processes of one host, over unix sockets: bytes really move, sums are really made. For
 * tests; $CELLSPAN_NCCL_LIBRARY and $CELLSPAN_CUDA_LIBRARY name it.
 *
 * Settings, from the environment, of each process:
 *   CELLSPAN_DOUBLE_GPUS        how many GPUs it sees (1); a path: as many as CUDA_VISIBLE_DEVICES
 *                               names
 *   CELLSPAN_DOUBLE_NCCL_FOLDER where its sockets are, for hosts that are network namespaces of one
 *   file system (nowhere)
 *   CELLSPAN_DOUBLE_GPU_MEMORY  bytes of them (1 GiB)
 *   CELLSPAN_DOUBLE_NCCL        what goes wrong: init-hang, init-error, hang (operations never end
 *                               here), error (they
 * fail), corrupt (one bit of what arrives here in more than 8 bytes), slow (each takes 20 ms more),
 * old (version 2.8)
 */
#ifndef TESTS_DOUBLES_NCCL_DOUBLE_H
#define TESTS_DOUBLES_NCCL_DOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "worker/collective/driver.h"
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
