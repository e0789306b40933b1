/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/nvml.h"

#include <stddef.h>
#include <string.h>

#include "base/library.h"
#include "base/settings.h"

#define LIBRARY "libnvidia-ml.so.1"

/* Our structs must have the layout that the driver expects. */
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_pci) == 68 && offsetof(struct nvml_pci, bus_id) == 36,
               "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_event) == 24 + sizeof(void *), "nvmlEventData_t");

#define NEEDS(member, ...) LIBRARY_NEEDS(struct nvml, member, __VA_ARGS__)
#define LIKES(member, ...) LIBRARY_LIKES(struct nvml, member, __VA_ARGS__)

static const struct library_row rows[] = {
    NEEDS(init, "nvmlInit_v2"),
    NEEDS(shutdown, "nvmlShutdown"),
    NEEDS(error_string, "nvmlErrorString"),
    NEEDS(driver_version, "nvmlSystemGetDriverVersion"),
    NEEDS(count, "nvmlDeviceGetCount_v2"),
    NEEDS(by_index, "nvmlDeviceGetHandleByIndex_v2"),
    NEEDS(uuid, "nvmlDeviceGetUUID"),
    NEEDS(name, "nvmlDeviceGetName"),
    NEEDS(memory, "nvmlDeviceGetMemoryInfo"),
    LIKES(memory_v2, "nvmlDeviceGetMemoryInfo_v2"),
    LIKES(utilization, "nvmlDeviceGetUtilizationRates"),
    LIKES(processes, "nvmlDeviceGetComputeRunningProcesses_v3",
          "nvmlDeviceGetComputeRunningProcesses_v2"),
    LIKES(processes_v1, "nvmlDeviceGetComputeRunningProcesses"),
    LIKES(pci, "nvmlDeviceGetPciInfo_v3"),
    LIKES(memory_affinity, "nvmlDeviceGetMemoryAffinity"),
    LIKES(cpu_affinity, "nvmlDeviceGetCpuAffinity"),
    LIKES(compute_mode, "nvmlDeviceGetComputeMode"),
    LIKES(mig_mode, "nvmlDeviceGetMigMode"),
    LIKES(mig_max, "nvmlDeviceGetMaxMigDeviceCount"),
    LIKES(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex"),
    LIKES(mig_parent, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"),
    LIKES(gpu_instance, "nvmlDeviceGetGpuInstanceId"),
    LIKES(compute_instance, "nvmlDeviceGetComputeInstanceId"),
    LIKES(ecc, "nvmlDeviceGetTotalEccErrors"),
    LIKES(event_set, "nvmlEventSetCreate"),
    LIKES(event_types, "nvmlDeviceGetSupportedEventTypes"),
    LIKES(event_register, "nvmlDeviceRegisterEvents"),
    /* without _v2 the event struct is shorter */
    LIKES(event_wait, "nvmlEventSetWait_v2"),
    LIKES(event_free, "nvmlEventSetFree"),
};

const char *nvml_words(const struct nvml *n, int result)
{
    const char *words = n->error_string ? n->error_string(result) : NULL;

    return words ? words : "an error without a name";
}

static int explain(const struct nvml *n, int result, struct err *err)
{
    if (result == NVML_DRIVER_NOT_LOADED)
        return err_set(
            err,
            "no driver: NVIDIA's library is there, but its kernel module is not loaded (modprobe nvidia; "
            "in a container: start it with --gpus all)");
    if (result == NVML_VERSION_MISMATCH)
        return err_set(
            err,
            "the NVIDIA driver was updated while it was loaded (%s): reboot this node, or load its kernel "
            "module anew",
            nvml_words(n, result));
    if (result == NVML_NO_PERMISSION)
        return err_set(err,
                       "NVML: no permission to use the GPUs: look at who may open /dev/nvidia*");
    return err_set(err, "NVML can't be initialised: %s (error %d); does nvidia-smi work here?",
                   nvml_words(n, result), result);
}

int nvml_open(struct nvml *n, bool *absent, struct err *err)
{
    const char *names[LIBRARY_PLACES], *used = "";
    const size_t n_names = library_of_driver(setting_text(SETTING_NVML_LIBRARY), LIBRARY, "",
                                             names);
    struct err why = { "" };
    int result;

    memset(n, 0, sizeof *n);
    *absent = false;
    if (!(n->library = library_open(names, n_names, &used, &why))) {
        *absent = true;
        return err_set(err, "no driver: %s", why.text);
    }
    if (library_fill(n->library, used, rows, sizeof rows / sizeof *rows, n, err) < 0)
        goto fail;
    if ((result = n->init()) == NVML_OK)
        return 0;
    *absent = result == NVML_DRIVER_NOT_LOADED;
    (void)explain(n, result, err);
fail:
    library_close(n->library);
    memset(n, 0, sizeof *n);
    return -1;
}

void nvml_close(struct nvml *n)
{
    if (!n->library)
        return;
    (void)n->shutdown();
    library_close(n->library);
    memset(n, 0, sizeof *n);
}
