/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver's functions that list devices. */
#include "tests/unit/gpu/stage.h"
#include "worker/collective/cuda_driver.h"

static void devices_are_named(void)
{
    struct err err = { "" };
    struct cuda_driver c;
    struct cu_uuid uuid;
    cu_device device;
    size_t bytes;
    char name[64], bus_id[32];
    bool absent;
    int count = 0;

    ok(cuda_driver_open(&c, CUDA_DEVICES, &absent, &err) == 0, "the library is loaded: %s",
       err.text);
    ok(c.count(&count) == DRIVER_OK && count == 8, "eight GPUs");
    ok(c.device(&device, 5) == DRIVER_OK && c.uuid(&uuid, device) == DRIVER_OK &&
           uuid.bytes[1] == 5,
       "a UUID");
    ok(c.name(name, sizeof name, device) == DRIVER_OK && strcmp(name, "NVIDIA A100-SXM4-80GB") == 0,
       "a name");
    ok(c.memory && c.memory(&bytes, device) == DRIVER_OK && bytes == 80ull << 30, "memory");
    ok(c.pci && c.pci(bus_id, sizeof bus_id, device) == DRIVER_OK &&
           strcmp(bus_id, "0DAD:40:00.0") == 0,
       "an address");
    cuda_driver_close(&c);
    ok(!c.library, "and closed");
}

static void failures_have_words(const struct stage *s)
{
    struct err err = { "" };
    struct cuda_driver c;
    bool absent;

    stage_set(s, "fail cuInit 100\n");
    ok(cuda_driver_open(&c, CUDA_DEVICES, &absent, &err) < 0 && absent &&
           strstr(err.text, "no CUDA-capable device"),
       "no device: %s", err.text);
    err.text[0] = '\0';
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    ok(cuda_driver_open(&c, CUDA_DEVICES, &absent, &err) < 0 && absent &&
           strstr(err.text, "/nowhere/"),
       "no library: %s", err.text);
    cuda_driver_close(&c);
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
