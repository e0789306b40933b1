/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts for users about problems with GPUs. */
#include "tests/unit/tap.h"
#include "worker/agent/gpu/gpu_errors.h"

static const struct gpu gpu = {
    .uuid = "GPU-8f2c1234", .name = "A100", .index = 1, .instance = -1
};

static void says(const char *since, bool oom, const char *want, const char *name)
{
    json_t *json = since ? json_loads(since, 0, NULL) : NULL;
    struct buf out = BUF_INIT;

    ok((json || !since) && gpu_errors_add_gpu(&gpu, json, oom, &out) == 0, "it is read");
    is_text(out.p, want, "%s", name);
    buf_release(&out);
    json_decref(json);
}

static void deaths_are_explained(void)
{
    says(NULL, false, "GPU 1 (GPU-8f2c…, A100)", "nothing is known");
    says("{\"xids\": [], \"ecc\": [], \"gpus\": []}", false, "GPU 1 (GPU-8f2c…, A100)",
         "nothing happened");
    says(
        "{\"xids\": [{\"uuid\": \"GPU-8f2c1234\", \"xid\": 79, \"times\": 1}, {\"uuid\": \"GPU-other\", \"xid\": 31, "
        "\"times\": 1}]}",
        false,
        "GPU 1 (GPU-8f2c…, A100): Xid 79: GPU has fallen off the bus: it is gone until this node is restarted (heat, "
        "power or PCIe)",
        "an Xid, and none of other GPUs");
    says("{\"xids\": [{\"uuid\": \"GPU-8f2c1234\", \"xid\": 4321, \"times\": 3}]}", false,
         "GPU 1 (GPU-8f2c…, A100): Xid 4321 (3 times)", "an Xid that nobody knows, often");
    says("{\"ecc\": [{\"uuid\": \"GPU-8f2c1234\", \"corrected\": 5, \"uncorrected\": 1}]}", false,
         "GPU 1 (GPU-8f2c…, A100): 1 uncorrected ECC memory error", "ECC errors: the worse ones");
    says("{\"ecc\": [{\"uuid\": \"GPU-8f2c1234\", \"corrected\": 5, \"uncorrected\": 0}]}", false,
         "GPU 1 (GPU-8f2c…, A100): 5 corrected ECC memory errors", "or those that were corrected");
    says(
        "{\"xids\": [{\"uuid\": \"GPU-8f2c1234\", \"xid\": 8, \"times\": 1}], \"gpus\": [{\"uuid\": \"GPU-8f2c1234\", "
        "\"lost\": true}]}",
        false,
        "GPU 1 (GPU-8f2c…, A100): Xid 8: the GPU stopped processing; the driver says that it is lost, or needs a reset",
        "two facts");
}

static void full_memory_has_names(void)
{
    says(
        "{\"gpus\": [{\"uuid\": \"GPU-8f2c1234\", \"used\": 84825604096, \"total\": 85899345920, \"others\": "
        "[{\"pid\": 4711, "
        "\"memory\": 55083794432, \"who\": \"bob's python\"}, {\"pid\": 12, \"memory\": null, \"who\": \"\"}], "
        "\"ours\": "
        "[{\"worker\": 3, \"pid\": 99, \"memory\": 1048576, \"who\": \"rank 3\"}]}]}",
        true,
        "GPU 1 (GPU-8f2c…, A100): its memory ran out; now in use: 79.0 GiB of 80.0 GiB, 51.3 GiB by bob's python (pid "
        "4711), some by "
        "pid 12, 1 MiB by rank 3 (pid 99)",
        "who holds memory");
    says(
        "{\"gpus\": [{\"uuid\": \"GPU-8f2c1234\", \"used\": 4294967, \"total\": 85899345920, \"processes_known\": true, "
        "\"others\": [], \"ours\": []}]}",
        true,
        "GPU 1 (GPU-8f2c…, A100): its memory ran out; now in use: 4 MiB of 80.0 GiB, no other process is on it",
        "nobody else");
    says(
        "{\"gpus\": [{\"uuid\": \"GPU-8f2c1234\", \"used\": null, \"total\": null, \"others\": [], \"ours\": []}]}",
        true,
        "GPU 1 (GPU-8f2c…, A100): its memory ran out; which processes are on it the driver does not tell here",
        "a driver that does not tell");
    says(
        "{\"gpus\": [{\"uuid\": \"GPU-8f2c1234\", \"used\": 629145600, \"total\": 85899345920, \"processes_known\": false, "
        "\"others\": [], \"ours\": []}]}",
        true,
        "GPU 1 (GPU-8f2c…, A100): its memory ran out; now in use: 600 MiB of 80.0 GiB; which processes are on it the "
        "driver does not tell here",
        "a container that is shown nobody");
    ok(gpu_errors_say_oom(
           slice_text("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")),
       "cuBLAS's words");
    ok(gpu_errors_say_oom(slice_text("ncclUnhandledCudaError: Cuda failure 2 'out of memory'")),
       "NCCL's");
    ok(gpu_errors_say_oom(slice_text("x\ntorch.OutOfMemoryError: CUDA out of memory. Tried")),
       "torch's words are known");
    ok(gpu_errors_say_oom(slice_text("jaxlib: RESOURCE_EXHAUSTED: Out of memory while")),
       "and JAX's");
    ok(!gpu_errors_say_oom(slice_text("MemoryError: out of memory")) &&
           !gpu_errors_say_oom(slice_text("")),
       "the host's memory is another");
}

static void is_short(struct gpu_shortage s, const char *want)
{
    struct buf out = BUF_INIT;

    ok(gpu_errors_add_shortage(&s, &out) == 0 && gpu_errors_add_remedies(&s, &out) == 0, "memory");
    is_text(out.p, want, "%u ranks with %u on %u", s.ranks, s.each, s.all);
    buf_release(&out);
}

static void shortages_are_explained(void)
{
    is_short(
        (struct gpu_shortage){ 2, 1, 0, 0, "no driver" },
        "2 GPUs asked for (2 ranks with 1 each), and this node has none: no driver; use --no-gpu to run without");
    is_short((struct gpu_shortage){ 3, 1, 1, 1, "" },
             "3 GPUs asked for (3 ranks with 1 each); this node has 1, of "
             "which 1 is free; use at most 1 rank, --share to put several "
             "ranks on a GPU, or --no-gpu to run without");
    is_short((struct gpu_shortage){ 1, 4, 2, 2, "" },
             "4 GPUs asked for (1 rank with 4 each); this node has 2, of "
             "which 2 are free; use --gpus 2 or fewer, or --no-gpu to run "
             "without");
    is_short(
        (struct gpu_shortage){ 2, 1, 4, 1, "" },
        "2 GPUs asked for (2 ranks with 1 each); this node has 4, of which 1 is free; use fewer ranks, --gpus "
        "with a smaller "
        "number, --share to use GPUs that others hold, or --no-gpu to run without");
}

int main(void)
{
    deaths_are_explained();
    full_memory_has_names();
    shortages_are_explained();
    return plan_done();
}
