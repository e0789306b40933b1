/* cuda.c - see cuda.h. */
#include "config.h"
#include "base/settings.h"
#include "worker/agent/gpu/cuda.h"

#include <string.h>

#include "base/library.h"

#define LIBRARY "libcuda.so.1"

_Static_assert(sizeof(CUuuid) == 16 && sizeof(CUdevice) == sizeof(int) &&
                   sizeof(CUresult) == sizeof(int),
               "cuda.h");

#define NEEDS(member, ...) LIBRARY_NEEDS(struct cuda, member, __VA_ARGS__)
#define LIKES(member, ...) LIBRARY_LIKES(struct cuda, member, __VA_ARGS__)

static const struct library_row rows[] = {
    NEEDS(init, "cuInit"),
    NEEDS(error_string, "cuGetErrorString"),
    NEEDS(driver_version, "cuDriverGetVersion"),
    NEEDS(count, "cuDeviceGetCount"),
    NEEDS(by_index, "cuDeviceGet"),
    /* _v2 gives the UUID of a MIG instance, not of its GPU */
    NEEDS(uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid"),
    NEEDS(name, "cuDeviceGetName"),
    NEEDS(memory, "cuDeviceTotalMem_v2"),
    LIKES(pci, "cuDeviceGetPCIBusId"),
};

const char *cuda_words(const struct cuda *c, CUresult result)
{
    const char *words = NULL;

    if (!c->error_string || c->error_string(result, &words) != CUDA_SUCCESS || !words)
        return "an error without a name";
    return words;
}

int cuda_open(struct cuda *c, bool *absent, struct err *err)
{
    const char *names[LIBRARY_PLACES], *used = "";
    const size_t n_names = library_of_driver(setting_text(SETTING_CUDA_LIBRARY), LIBRARY, "",
                                             names);
    struct err why = { "" };
    CUresult result;

    memset(c, 0, sizeof *c);
    *absent = false;
    if (!(c->library = library_open(names, n_names, &used, &why))) {
        *absent = true;
        return err_set(err, "no driver: %s", why.text);
    }
    if (library_fill(c->library, used, rows, sizeof rows / sizeof *rows, c, err) < 0)
        goto fail;
    if ((result = c->init(0)) == CUDA_SUCCESS)
        return 0;
    *absent = result == CUDA_ERROR_NO_DEVICE;
    (void)err_set(err, "the CUDA driver can't be initialised: %s (error %d)", cuda_words(c, result),
                  (int)result);
fail:
    library_close(c->library);
    memset(c, 0, sizeof *c);
    return -1;
}

void cuda_close(struct cuda *c)
{
    if (c->library)
        library_close(c->library);
    memset(c, 0, sizeof *c);
}
