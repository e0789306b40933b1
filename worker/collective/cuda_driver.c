/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/settings.h"

#define NEEDS(member, ...) LIBRARY_NEEDS(struct cuda_driver, member, __VA_ARGS__)
#define LIKES(member, ...) LIBRARY_LIKES(struct cuda_driver, member, __VA_ARGS__)
#define DEVICE_ROWS        9u /* the first rows: what lists the devices */

/* cuda.h's macros replace some names by their _v2 versions, so we need these. */
static const struct library_row rows[] = {
    NEEDS(init, "cuInit"),
    LIKES(error_string, "cuGetErrorString"),
    NEEDS(version, "cuDriverGetVersion"),
    NEEDS(count, "cuDeviceGetCount"),
    NEEDS(device, "cuDeviceGet"),
    NEEDS(name, "cuDeviceGetName"),
    /* _v2 gives the UUID of a MIG instance, not of its GPU */
    NEEDS(uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid"),
    LIKES(memory, "cuDeviceTotalMem_v2"),
    LIKES(pci, "cuDeviceGetPCIBusId"),
    NEEDS(primary_retain, "cuDevicePrimaryCtxRetain"),
    NEEDS(primary_release, "cuDevicePrimaryCtxRelease_v2"),
    NEEDS(context_push, "cuCtxPushCurrent_v2"),
    NEEDS(context_pop, "cuCtxPopCurrent_v2"),
    NEEDS(context_get, "cuCtxGetCurrent"),
    NEEDS(context_device, "cuCtxGetDevice"),
    NEEDS(alloc, "cuMemAlloc_v2"),
    NEEDS(release, "cuMemFree_v2"),
    NEEDS(alloc_host, "cuMemAllocHost_v2"),
    NEEDS(release_host, "cuMemFreeHost"),
    NEEDS(to_device, "cuMemcpyHtoDAsync_v2"),
    NEEDS(to_host, "cuMemcpyDtoHAsync_v2"),
    NEEDS(stream_create, "cuStreamCreate"),
    NEEDS(stream_destroy, "cuStreamDestroy_v2"),
    NEEDS(stream_query, "cuStreamQuery"),
    NEEDS(event_create, "cuEventCreate"),
    NEEDS(event_destroy, "cuEventDestroy_v2"),
    NEEDS(event_record, "cuEventRecord"),
    NEEDS(event_query, "cuEventQuery"),
    NEEDS(event_elapsed, "cuEventElapsedTime"),
};

void cuda_driver_close(struct cuda_driver *d)
{
    library_close(d->library);
    memset(d, 0, sizeof *d);
}

int cuda_driver_open(struct cuda_driver *d, enum cuda_use use, bool *absent, struct err *err)
{
    const char *names[LIBRARY_PLACES], *used = "";
    const size_t n_names = library_of_driver(setting_text(SETTING_CUDA_LIBRARY), "libcuda.so.1", "",
                                             names);
    struct err why = { "" };
    cu_result result;

    memset(d, 0, sizeof *d);
    *absent = true;
    if (!(d->library = library_open(names, n_names, &used, &why)))
        return err_set(err, "no NVIDIA driver here (%s)", why.text);
    *absent = false;
    if (library_fill(d->library, used, rows,
                     use == CUDA_DEVICES ? DEVICE_ROWS : sizeof rows / sizeof rows[0], d,
                     err) == 0) {
        result = d->init(0);
        *absent = result == DRIVER_NO_DEVICE;
        if (cuda_driver_check(d, result, "the CUDA driver can't be initialised", err) == 0)
            return 0;
    }
    cuda_driver_close(d);
    return -1;
}

int cuda_driver_check(const struct cuda_driver *d, cu_result result, const char *what,
                      struct err *err)
{
    const char *words = NULL;

    if (result == DRIVER_OK)
        return 0;
    if (d->error_string && d->error_string(result, &words) == DRIVER_OK && words)
        return err_set(err, "%s: %s (CUDA error %d)", what, words, result);
    return err_set(err, "%s: CUDA error %d", what, result);
}

void cuda_uuid_text(const struct cu_uuid *uuid, const char *kind, char out[static CUDA_UUID_SIZE])
{
    char hex[33];

    for (unsigned i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)uuid->bytes[i]);
    snprintf(out, CUDA_UUID_SIZE, "%.3s-%.8s-%.4s-%.4s-%.4s-%.12s", kind, hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}
