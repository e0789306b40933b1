/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.c - a libcuda without a driver: see README.md. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/doubles/control.h"

#define EXPORT __attribute__((visibility("default")))

struct double_uuid {
    char bytes[16];
};

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags)
{
    return flags ? 1 : control_call(__func__);
}

EXPORT int cuGetErrorString(int result, const char **words);
EXPORT int cuGetErrorString(int result, const char **words)
{
    *words = result == 100 ? "no CUDA-capable device is detected" : NULL;
    return *words ? 0 : 1;
}

EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return control_call(__func__);
}

EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGetCount(int *count)
{
    long number[3];

    *count = control_line("count", 0, number) ? (int)number[0] : 8;
    return control_call(__func__);
}

EXPORT int cuDeviceGet(int *device, int index);
EXPORT int cuDeviceGet(int *device, int index)
{
    *device = index;
    return control_call(__func__);
}

EXPORT int cuDeviceGetUuid(struct double_uuid *uuid, int device);
EXPORT int cuDeviceGetUuid(struct double_uuid *uuid, int device)
{
    static const unsigned char bytes[16] = { 0xa0, 0, 0x12, 0x34, 0,    0,    0x40, 0,
                                             0x80, 0, 1,    0x23, 0x45, 0x67, 0x89, 0xab };

    memcpy(uuid->bytes, bytes, sizeof bytes);
    uuid->bytes[1] = (char)device;
    return control_call(__func__);
}

EXPORT int cuDeviceGetName(char *name, int size, int device);
EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "NVIDIA A100-SXM4-80GB");
    return control_call(__func__);
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = DOUBLE_TOTAL;
    return control_call(__func__);
}

EXPORT int cuDeviceGetPCIBusId(char *bus_id, int size, int device);
EXPORT int cuDeviceGetPCIBusId(char *bus_id, int size, int device)
{
    snprintf(bus_id, (size_t)size, "0DAD:%02X:00.0", 0x3b + device);
    return control_call(__func__);
}
