/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml_headers.c - compares nvml.h and checkpoint.h with NVIDIA's headers, if configure found them.
 * It has no code. */
#include "config.h"

#include <stddef.h>

#ifdef HAVE_NVML_H
#include <nvml.h>
#endif
#include "worker/agent/gpu/nvml.h"

#ifdef HAVE_NVML_H
/* A member has the same offset and size. */
#define ALIKE(theirs, member, ours, own)                                                           \
    _Static_assert(offsetof(theirs, member) == offsetof(struct ours, own) &&                       \
                       sizeof(((theirs *)0)->member) == sizeof(((struct ours *)0)->own),           \
                   #theirs "." #member)
#define AS_LONG(theirs, ours) _Static_assert(sizeof(theirs) == sizeof(struct ours), #theirs)
#define EQUAL(theirs, ours)                                                                        \
    _Static_assert((unsigned long long)(theirs) == (unsigned long long)(ours), #theirs)
/* Does the function in the header have the arguments with which struct nvml calls it? */
#define IS(call, ...)                                                                              \
    _Static_assert(_Generic(&call, nvmlReturn_t (*)(__VA_ARGS__): 1, default: 0),                  \
                   #call " takes other arguments")

AS_LONG(nvmlMemory_t, nvml_memory);
ALIKE(nvmlMemory_t, total, nvml_memory, total);
ALIKE(nvmlMemory_t, free, nvml_memory, free);
ALIKE(nvmlMemory_t, used, nvml_memory, used);
AS_LONG(nvmlMemory_v2_t, nvml_memory_v2);
ALIKE(nvmlMemory_v2_t, version, nvml_memory_v2, version);
ALIKE(nvmlMemory_v2_t, total, nvml_memory_v2, total);
ALIKE(nvmlMemory_v2_t, reserved, nvml_memory_v2, reserved);
ALIKE(nvmlMemory_v2_t, free, nvml_memory_v2, free);
ALIKE(nvmlMemory_v2_t, used, nvml_memory_v2, used);
EQUAL(nvmlMemory_v2, NVML_MEMORY_V2);
AS_LONG(nvmlUtilization_t, nvml_utilization);
ALIKE(nvmlUtilization_t, gpu, nvml_utilization, gpu);
AS_LONG(nvmlProcessInfo_v1_t, nvml_process_v1);
ALIKE(nvmlProcessInfo_v1_t, pid, nvml_process_v1, pid);
ALIKE(nvmlProcessInfo_v1_t, usedGpuMemory, nvml_process_v1, used);
AS_LONG(nvmlProcessInfo_v2_t, nvml_process);
AS_LONG(nvmlProcessInfo_t, nvml_process);
ALIKE(nvmlProcessInfo_t, pid, nvml_process, pid);
ALIKE(nvmlProcessInfo_t, usedGpuMemory, nvml_process, used);
ALIKE(nvmlProcessInfo_t, gpuInstanceId, nvml_process, gpu_instance);
ALIKE(nvmlProcessInfo_t, computeInstanceId, nvml_process, compute_instance);
AS_LONG(nvmlPciInfo_t, nvml_pci);
ALIKE(nvmlPciInfo_t, domain, nvml_pci, domain);
ALIKE(nvmlPciInfo_t, busId, nvml_pci, bus_id);
AS_LONG(nvmlEventData_t, nvml_event);
ALIKE(nvmlEventData_t, eventType, nvml_event, type);
ALIKE(nvmlEventData_t, eventData, nvml_event, data);
ALIKE(nvmlEventData_t, gpuInstanceId, nvml_event, gpu_instance);
ALIKE(nvmlEventData_t, computeInstanceId, nvml_event, compute_instance);

EQUAL(NVML_SUCCESS, NVML_OK);
EQUAL(NVML_ERROR_INVALID_ARGUMENT, NVML_INVALID_ARGUMENT);
EQUAL(NVML_ERROR_NOT_SUPPORTED, NVML_NOT_SUPPORTED);
EQUAL(NVML_ERROR_NO_PERMISSION, NVML_NO_PERMISSION);
EQUAL(NVML_ERROR_NOT_FOUND, NVML_NOT_FOUND);
EQUAL(NVML_ERROR_INSUFFICIENT_SIZE, NVML_INSUFFICIENT_SIZE);
EQUAL(NVML_ERROR_DRIVER_NOT_LOADED, NVML_DRIVER_NOT_LOADED);
EQUAL(NVML_ERROR_TIMEOUT, NVML_TIMEOUT);
EQUAL(NVML_ERROR_GPU_IS_LOST, NVML_GPU_IS_LOST);
EQUAL(NVML_ERROR_RESET_REQUIRED, NVML_RESET_REQUIRED);
EQUAL(NVML_ERROR_LIB_RM_VERSION_MISMATCH, NVML_VERSION_MISMATCH);
EQUAL(nvmlEventTypeSingleBitEccError, NVML_EVENT_SINGLE_BIT);
EQUAL(nvmlEventTypeDoubleBitEccError, NVML_EVENT_DOUBLE_BIT);
EQUAL(nvmlEventTypeXidCriticalError, NVML_EVENT_XID);
EQUAL(NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_ECC_CORRECTED);
EQUAL(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_ECC_UNCORRECTED);
EQUAL(NVML_VOLATILE_ECC, NVML_ECC_VOLATILE);
EQUAL(NVML_AFFINITY_SCOPE_NODE, NVML_SCOPE_NODE);
EQUAL(NVML_DEVICE_MIG_ENABLE, NVML_MIG_ENABLED);
EQUAL(NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, NVML_EXCLUSIVE_PROCESS);
_Static_assert(sizeof(nvmlComputeMode_t) == sizeof(int), "nvmlComputeMode_t");
EQUAL(NVML_VALUE_NOT_AVAILABLE, NVML_NOT_AVAILABLE);
EQUAL(NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_UUID_SIZE);
EQUAL(NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_NAME_SIZE);
EQUAL(NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, NVML_VERSION_SIZE);

IS(nvmlInit_v2, void);
IS(nvmlShutdown, void);
IS(nvmlSystemGetDriverVersion, char *, unsigned);
IS(nvmlDeviceGetCount_v2, unsigned *);
IS(nvmlDeviceGetHandleByIndex_v2, unsigned, nvmlDevice_t *);
IS(nvmlDeviceGetUUID, nvmlDevice_t, char *, unsigned);
IS(nvmlDeviceGetName, nvmlDevice_t, char *, unsigned);
IS(nvmlDeviceGetMemoryInfo, nvmlDevice_t, nvmlMemory_t *);
IS(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t *);
IS(nvmlDeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *);
IS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
IS(nvmlDeviceGetPciInfo_v3, nvmlDevice_t, nvmlPciInfo_t *);
IS(nvmlDeviceGetMemoryAffinity, nvmlDevice_t, unsigned, unsigned long *, nvmlAffinityScope_t);
IS(nvmlDeviceGetCpuAffinity, nvmlDevice_t, unsigned, unsigned long *);
IS(nvmlDeviceGetComputeMode, nvmlDevice_t, nvmlComputeMode_t *);
IS(nvmlDeviceGetMigMode, nvmlDevice_t, unsigned *, unsigned *);
IS(nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t, unsigned *);
IS(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t, unsigned, nvmlDevice_t *);
IS(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t, nvmlDevice_t *);
IS(nvmlDeviceGetGpuInstanceId, nvmlDevice_t, unsigned *);
IS(nvmlDeviceGetComputeInstanceId, nvmlDevice_t, unsigned *);
IS(nvmlDeviceGetTotalEccErrors, nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t,
   unsigned long long *);
IS(nvmlEventSetCreate, nvmlEventSet_t *);
IS(nvmlDeviceGetSupportedEventTypes, nvmlDevice_t, unsigned long long *);
IS(nvmlDeviceRegisterEvents, nvmlDevice_t, unsigned long long, nvmlEventSet_t);
IS(nvmlEventSetWait_v2, nvmlEventSet_t, nvmlEventData_t *, unsigned);
IS(nvmlEventSetFree, nvmlEventSet_t);
#endif

typedef int headers_were_compared;

/* from CUDA 12.8 on */
#ifdef HAVE_CUDA_H
#include <cuda.h>
#include "worker/agent/gpu/checkpoint.h"
#if CUDA_VERSION >= 12080
_Static_assert(sizeof(CUcheckpointLockArgs) == sizeof(struct checkpoint_args) &&
                   sizeof(CUcheckpointCheckpointArgs) == sizeof(struct checkpoint_args) &&
                   sizeof(CUcheckpointRestoreArgs) == sizeof(struct checkpoint_args) &&
                   sizeof(CUcheckpointUnlockArgs) == sizeof(struct checkpoint_args),
               "what the driver takes");
_Static_assert(offsetof(CUcheckpointLockArgs, timeoutMs) == 0 &&
                   sizeof(((CUcheckpointLockArgs *)0)->timeoutMs) == sizeof(unsigned),
               "the time limit");
_Static_assert((int)CU_PROCESS_STATE_RUNNING == CHECKPOINT_RUNNING &&
                   (int)CU_PROCESS_STATE_LOCKED == CHECKPOINT_LOCKED &&
                   (int)CU_PROCESS_STATE_CHECKPOINTED == CHECKPOINT_AWAY &&
                   (int)CU_PROCESS_STATE_FAILED == CHECKPOINT_FAILED,
               "states");
#define TAKES(call, ...)                                                                           \
    _Static_assert(_Generic(&call, CUresult (*)(int, __VA_ARGS__): 1, default: 0),                 \
                   #call " takes other arguments")
TAKES(cuCheckpointProcessGetState, CUprocessState *);
TAKES(cuCheckpointProcessLock, CUcheckpointLockArgs *);
TAKES(cuCheckpointProcessCheckpoint, CUcheckpointCheckpointArgs *);
TAKES(cuCheckpointProcessRestore, CUcheckpointRestoreArgs *);
TAKES(cuCheckpointProcessUnlock, CUcheckpointUnlockArgs *);
#endif
#endif
