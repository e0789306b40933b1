/* cuda.h - the CUDA driver (libcuda.so.1), loaded at run time, for nodes whose driver has no NVML.
 * It is used only to list devices. No context is made, so it takes no GPU memory. */
#ifndef WORKER_AGENT_GPU_CUDA_H
#define WORKER_AGENT_GPU_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#if defined HAVE_CUDA_H && !defined CELLSPAN_OWN_CUDA_TYPES
#include <cuda.h>
#else
typedef int CUdevice;
typedef int CUresult; /* CUDA's is an enum, which is the same for a caller */
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
#define CUDA_SUCCESS         0
#define CUDA_ERROR_NO_DEVICE 100
#endif

struct cuda {
    void *library;
    CUresult (*init)(unsigned flags);
    CUresult (*error_string)(CUresult result, const char **words);
    CUresult (*driver_version)(int *version); /* 12040: CUDA 12.4 */
    CUresult (*count)(int *count);
    CUresult (*by_index)(CUdevice *device, int index);
    CUresult (*uuid)(CUuuid *uuid, CUdevice device);
    CUresult (*name)(char *name, int size, CUdevice device);
    CUresult (*memory)(size_t *bytes, CUdevice device);
    CUresult (*pci)(char *bus_id, int size, CUdevice device); /* NULL where the driver lacks it */
};

/* Loads $CELLSPAN_CUDA_LIBRARY, else libcuda.so.1; calls cuInit. *absent: no library or device. */
MUST_USE int cuda_open(struct cuda *c, bool *absent, struct err *err);
void cuda_close(struct cuda *c); /* does nothing if it is not open */
const char *cuda_words(const struct cuda *c, CUresult result);

#endif
