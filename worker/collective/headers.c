/* headers.c - compares this room's declarations with CUDA's and NCCL's own, where configure found those. No code. */
#include "config.h"

#include "worker/collective/driver.h"
#include "worker/collective/nccl.h"

/* An enum of theirs is an int to a caller, in every ABI that these libraries exist for. */
#ifdef HAVE_CUDA_H
#include <cuda.h>
_Static_assert(sizeof(CUresult) == sizeof(cu_result) && sizeof(CUdevice) == sizeof(cu_device), "results and devices");
_Static_assert(sizeof(CUdeviceptr) == sizeof(cu_pointer) && sizeof(CUstream) == sizeof(cu_stream), "pointers");
_Static_assert(sizeof(CUuuid) == sizeof(struct cu_uuid), "uuids");
_Static_assert((int)CUDA_SUCCESS == DRIVER_OK && (int)CUDA_ERROR_NOT_READY == DRIVER_NOT_READY, "results");
_Static_assert((int)CUDA_ERROR_OUT_OF_MEMORY == DRIVER_OUT_OF_MEMORY && (int)CUDA_ERROR_NO_DEVICE == DRIVER_NO_DEVICE,
               "errors");
_Static_assert((int)CU_STREAM_NON_BLOCKING == DRIVER_STREAM_ALONE, "flags");
#endif

#ifdef HAVE_NCCL_H
#include <nccl.h>
_Static_assert(sizeof(ncclResult_t) == sizeof(nccl_result) && sizeof(ncclUniqueId) == sizeof(struct nccl_id), "sizes");
_Static_assert(NCCL_UNIQUE_ID_BYTES == NCCL_ID, "ids");
_Static_assert((int)ncclSuccess == NCCL_SUCCESS && (int)ncclInProgress == NCCL_IN_PROGRESS &&
                   (int)ncclRemoteError == NCCL_REMOTE_ERROR,
               "results");
_Static_assert((int)ncclUint8 == NCCL_UINT8 && (int)ncclFloat32 == NCCL_FLOAT32 && (int)ncclSum == NCCL_SUM, "types");
_Static_assert(offsetof(ncclConfig_t, magic) == offsetof(struct nccl_config, magic) &&
                   offsetof(ncclConfig_t, version) == offsetof(struct nccl_config, version) &&
                   offsetof(ncclConfig_t, blocking) == offsetof(struct nccl_config, blocking) &&
                   sizeof(ncclConfig_t) >= sizeof(struct nccl_config),
               "the configuration begins as 2.14's did");
#endif

typedef int headers_were_compared;
