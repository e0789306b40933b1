/* The CUDA driver's table with our own declarations, as on hosts without CUDA's header. */
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/cuda.h"

static void devices_are_named(void)
{
    struct err err = { "" };
    struct cuda c;
    CUuuid uuid;
    CUdevice device;
    size_t bytes;
    char name[64], bus_id[32];
    bool absent;
    int count = 0;

    ok(cuda_open(&c, &absent, &err) == 0, "the library is loaded: %s", err.text);
    ok(c.count(&count) == CUDA_SUCCESS && count == 8, "eight GPUs");
    ok(c.by_index(&device, 5) == CUDA_SUCCESS && c.uuid(&uuid, device) == CUDA_SUCCESS &&
           uuid.bytes[1] == 5,
       "a UUID");
    ok(c.name(name, sizeof name, device) == CUDA_SUCCESS &&
           strcmp(name, "NVIDIA A100-SXM4-80GB") == 0,
       "a name");
    ok(c.memory(&bytes, device) == CUDA_SUCCESS && bytes == 80ull << 30, "memory");
    ok(c.pci && c.pci(bus_id, sizeof bus_id, device) == CUDA_SUCCESS &&
           strcmp(bus_id, "0DAD:40:00.0") == 0,
       "an address");
    cuda_close(&c);
    ok(!c.library, "and closed");
}

static void failures_have_words(const struct stage *s)
{
    struct err err = { "" };
    struct cuda c;
    bool absent;

    stage_set(s, "fail cuInit 100\n");
    ok(cuda_open(&c, &absent, &err) < 0 && absent && strstr(err.text, "no CUDA-capable device"),
       "no device: %s", err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    ok(cuda_open(&c, &absent, &err) < 0 && absent && strstr(err.text, "/nowhere/"),
       "no library: %s", err.text);
    cuda_close(&c);
}

int main(void)
{
    struct stage s;

    stage_open(&s);
    devices_are_named();
    failures_have_words(&s);
    stage_close(&s);
    return plan_done();
}
