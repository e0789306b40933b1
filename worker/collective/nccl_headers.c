/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_headers.c - compares the declarations of this folder with CUDA's and NCCL's headers, if
 * configure found them. It has no code. */
#include "config.h"

#include "worker/collective/cuda_driver.h"
#include "worker/collective/nccl.h"

/* Their enums are ints for a caller, in every ABI that has these libraries. */
#ifdef HAVE_CUDA_H
#include <cuda.h>
_Static_assert(sizeof(CUresult) == sizeof(cu_result) && sizeof(CUdevice) == sizeof(cu_device),
               "results and devices");
_Static_assert(sizeof(CUdeviceptr) == sizeof(cu_pointer) && sizeof(CUstream) == sizeof(cu_stream),
               "pointers");
_Static_assert(sizeof(CUuuid) == sizeof(struct cu_uuid), "uuids");
_Static_assert((int)CUDA_SUCCESS == DRIVER_OK && (int)CUDA_ERROR_NOT_READY == DRIVER_NOT_READY,
               "results");
_Static_assert((int)CUDA_ERROR_OUT_OF_MEMORY == DRIVER_OUT_OF_MEMORY &&
                   (int)CUDA_ERROR_NO_DEVICE == DRIVER_NO_DEVICE,
               "errors");
_Static_assert((int)CU_STREAM_NON_BLOCKING == DRIVER_STREAM_ALONE, "flags");
#endif

#ifdef HAVE_NCCL_H
#include <nccl.h>
_Static_assert(sizeof(ncclResult_t) == sizeof(nccl_result) &&
                   sizeof(ncclUniqueId) == sizeof(struct nccl_id),
               "sizes");
_Static_assert(NCCL_UNIQUE_ID_BYTES == NCCL_ID, "ids");
_Static_assert((int)ncclSuccess == NCCL_SUCCESS && (int)ncclInProgress == NCCL_IN_PROGRESS &&
                   (int)ncclRemoteError == NCCL_REMOTE_ERROR,
               "results");
_Static_assert((int)ncclUint8 == NCCL_UINT8 && (int)ncclFloat32 == NCCL_FLOAT32 &&
                   (int)ncclSum == NCCL_SUM,
               "types");
_Static_assert(offsetof(ncclConfig_t, magic) == offsetof(struct nccl_config, magic) &&
                   offsetof(ncclConfig_t, version) == offsetof(struct nccl_config, version) &&
                   offsetof(ncclConfig_t, blocking) == offsetof(struct nccl_config, blocking) &&
                   sizeof(ncclConfig_t) >= sizeof(struct nccl_config),
               "the configuration begins as 2.14's did");

/* Does the function in the header have the arguments with which struct nccl calls it? Pointers and
 * enums count as equal to our own types. */
#define IS(call, ...)                                                                              \
    _Static_assert(_Generic(&call, ncclResult_t (*)(__VA_ARGS__): 1, default: 0),                  \
                   #call " takes other arguments")
IS(ncclGetVersion, int *);
IS(ncclGetUniqueId, ncclUniqueId *);
IS(ncclCommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
IS(ncclCommFinalize, ncclComm_t);
IS(ncclCommDestroy, ncclComm_t);
IS(ncclCommAbort, ncclComm_t);
IS(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *);
IS(ncclAllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
   cudaStream_t);
IS(ncclBroadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
IS(ncclSend, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
IS(ncclRecv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
IS(ncclGroupStart, void);
IS(ncclGroupEnd, void);
_Static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int),
               "enums that are ints");
#endif

typedef int headers_were_compared;
