/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_runtime.h - replaces the CUDA toolkit's file of this name for nccl.h. configure uses it for
 * builds that have NCCL's header (from its wheel) but no toolkit. Nothing else may include it. */
#ifndef COLLECTIVE_PLAIN_CUDA_RUNTIME_H
#define COLLECTIVE_PLAIN_CUDA_RUNTIME_H

#include <stddef.h>

#define CUDART_VERSION 0 /* so that nccl.h asks for no types of 16 bits */
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#endif
