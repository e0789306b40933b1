/* cuda.c - see cuda.h. */
#include "config.h"
#include "worker/agent/gpu/cuda.h"

#include <dlfcn.h>
#include <string.h>

#include "worker/agent/gpu/symbols.h"

#define LIBRARY "libcuda.so.1"

_Static_assert(sizeof(CUuuid) == 16 && sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int), "cuda.h");

#define REQUIRED(member, ...)                                                                                          \
    {                                                                                                                  \
        { __VA_ARGS__ }, offsetof(struct cuda, member), true                                                           \
    }
#define OPTIONAL(member, ...)                                                                                          \
    {                                                                                                                  \
        { __VA_ARGS__ }, offsetof(struct cuda, member), false                                                          \
    }

static const struct symbol symbols[] = {
    REQUIRED(init, "cuInit"),
    REQUIRED(error_string, "cuGetErrorString"),
    REQUIRED(driver_version, "cuDriverGetVersion"),
    REQUIRED(count, "cuDeviceGetCount"),
    REQUIRED(by_index, "cuDeviceGet"),
    REQUIRED(uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid"), /* _v2: that of a MIG instance, not of the GPU it is on */
    REQUIRED(name, "cuDeviceGetName"),
    REQUIRED(memory, "cuDeviceTotalMem_v2"),
    OPTIONAL(pci, "cuDeviceGetPCIBusId"),
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
    struct err why = { "" };
    CUresult result;

    memset(c, 0, sizeof *c);
    *absent = false;
    if (!(c->library = symbols_open("CELLSPAN_CUDA_LIBRARY", LIBRARY, &why))) {
        *absent = true;
        return err_set(err, "no driver: %s", why.text);
    }
    if (symbols_fill(c->library, symbols, sizeof symbols / sizeof *symbols, c, err) < 0)
        goto fail;
    if ((result = c->init(0)) == CUDA_SUCCESS)
        return 0;
    *absent = result == CUDA_ERROR_NO_DEVICE;
    (void)err_set(err, "the CUDA driver can't be initialised: %s (error %d)", cuda_words(c, result), (int)result);
fail:
    dlclose(c->library);
    memset(c, 0, sizeof *c);
    return -1;
}

void cuda_close(struct cuda *c)
{
    if (c->library)
        dlclose(c->library);
    memset(c, 0, sizeof *c);
}
