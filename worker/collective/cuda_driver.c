#include "worker/collective/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/settings.h"

#define NEEDS(member, symbol) LIBRARY_NEEDS(struct cuda_driver, member, symbol)
#define LIKES(member, symbol) LIBRARY_LIKES(struct cuda_driver, member, symbol)

/* cuda.h's macros replace some names by their _v2 versions, so we need these. */
static const struct library_row rows[] = {
    NEEDS(init, "cuInit"),
    LIKES(error_string, "cuGetErrorString"),
    NEEDS(version, "cuDriverGetVersion"),
    NEEDS(count, "cuDeviceGetCount"),
    NEEDS(device, "cuDeviceGet"),
    NEEDS(name, "cuDeviceGetName"),
    NEEDS(uuid, "cuDeviceGetUuid"),
    LIKES(uuid_v2, "cuDeviceGetUuid_v2"),
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

int cuda_driver_open(struct cuda_driver *d, struct err *err)
{
    const char *names[LIBRARY_PLACES], *used = "";
    const size_t n_names = library_of_driver(setting_text(SETTING_CUDA_LIBRARY), "libcuda.so.1", "",
                                             names);
    struct err why = { "" };

    memset(d, 0, sizeof *d);
    if (!(d->library = library_open(names, n_names, &used, &why)))
        return err_set(err, "no NVIDIA driver here (%s)", why.text);
    if (library_fill(d->library, used, rows, sizeof rows / sizeof rows[0], d, err) == 0 &&
        cuda_driver_check(d, d->init(0), "cuInit", err) == 0)
        return 0;
    library_close(d->library);
    memset(d, 0, sizeof *d);
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

int cuda_driver_uuid(const struct cuda_driver *d, cu_device device, char out[static 41],
                     struct err *err)
{
    struct cu_uuid u;
    char *p = out;

    if (cuda_driver_check(d, (d->uuid_v2 ? d->uuid_v2 : d->uuid)(&u, device), "the GPU's UUID",
                          err) < 0)
        return -1;
    p += sprintf(p, "GPU");
    for (unsigned i = 0; i < sizeof u.bytes; i++)
        p += sprintf(p, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     u.bytes[i]);
    return 0;
}
