/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/gpu_errors.h"

#include <stdio.h>
#include <string.h>

struct xid {
    unsigned number;
    const char *words;
};

/* The Xids that occur in jobs, from NVIDIA's list of Xid errors, with what a user can do. */
static const struct xid xids[] = {
    { 8, "the GPU stopped processing" },
    { 13,
      "a kernel did what it must not do (an illegal address or instruction): most likely a bug of the program" },
    { 31,
      "a kernel touched memory that is not its own (GPU memory page fault): most likely a bug of the program" },
    { 32, "the driver was sent a corrupted command stream: PCIe, or the program" },
    { 38, "the driver's firmware failed" },
    { 43, "the GPU stopped processing for this program; other programs go on" },
    { 45, "work of this program was removed after an earlier error, or because it was killed" },
    { 48, "double-bit ECC error: memory is damaged; the GPU needs a reset" },
    { 61, "the GPU's microcontroller halted: it needs a reset" },
    { 62, "the GPU's microcontroller halted: it needs a reset" },
    { 63, "a memory row was replaced by a spare one (ECC): reset the GPU when it is idle" },
    { 64, "a damaged memory row could not be replaced (ECC): the GPU needs a reset, then a check" },
    { 68, "the video decoder failed" },
    { 69, "a kernel failed in the graphics engine" },
    { 74, "NVLink error: a link to another GPU failed" },
    { 79,
      "GPU has fallen off the bus: it is gone until this node is restarted (heat, power or PCIe)" },
    { 92, "many corrected ECC errors: the memory wears out" },
    { 94, "ECC error that could be contained: only this program is concerned" },
    { 95,
      "ECC error that could not be contained: every program on this GPU fails; it needs a reset" },
    { 109, "the GPU did not switch between programs in time" },
    { 119, "the GPU's firmware (GSP) does not answer: it needs a reset" },
    { 120, "the GPU's firmware (GSP) failed: it needs a reset" },
    { 121, "corrected error on the link to the processor (C2C)" },
    { 140, "ECC error that was not recovered: the GPU needs a reset" },
    { 143, "the GPU could not be initialised" },
    { 145, "NVLink: an error of the link's receiver" },
    { 149, "NVLink error: a link to another GPU failed" },
    { 154, "the driver recommends a reset of the GPU, or a restart of this node" },
};

/* "GPU has fallen off the bus"; NULL: not one of the common ones. */
static const char *xid_words(uint64_t xid)
{
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xids[i].number == xid)
            return xids[i].words;
    return NULL;
}

/* "51.3 GiB" */
static const char *human(uint64_t bytes, char out[static 32])
{
    if (bytes >= UINT64_C(1) << 30)
        snprintf(out, 32, "%.1f GiB", (double)bytes / (double)(UINT64_C(1) << 30));
    else
        snprintf(out, 32, "%.0f MiB", (double)bytes / (double)(UINT64_C(1) << 20));
    return out;
}

bool gpu_errors_say_oom(struct slice text)
{
    /* torch, the driver's own error, the runtime's, XLA, CuPy, cuDNN, cuBLAS, NCCL */
    static const char *const signs[] = { "CUDA out of memory",
                                         "CUDA error: out of memory",
                                         "torch.OutOfMemoryError",
                                         "CUDA_ERROR_OUT_OF_MEMORY",
                                         "cudaErrorMemoryAllocation",
                                         "HIP out of memory",
                                         "RESOURCE_EXHAUSTED: Out of memory",
                                         "cudaErrorOutOfMemory",
                                         "cupy.cuda.memory.OutOfMemoryError",
                                         "CUDNN_STATUS_ALLOC_FAILED",
                                         "CUBLAS_STATUS_ALLOC_FAILED",
                                         "Cuda failure 2 'out of memory'", /* NCCL's */
                                         "Cuda failure 'out of memory'" };

    for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
        for (size_t i = 0, n = strlen(signs[k]); i + n <= text.n; i++)
            if (memcmp(text.p + i, signs[k], n) == 0)
                return true;
    return false;
}

/* ---- what happened on a GPU ---- */

/* The facts about a GPU: a colon before the first, a semicolon before the others. */
struct facts {
    struct buf *out;
    unsigned n;
};

static int begin_fact(struct facts *f)
{
    return buf_add_text(f->out, f->n++ ? "; " : ": ");
}

static bool is_of(const json_t *o, const struct gpu *one)
{
    const char *uuid = json_string_value(json_object_get(o, "uuid"));

    return uuid && strcmp(uuid, one->uuid) == 0;
}

static int64_t number_of(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);

    return json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;
}

static int add_xid(struct facts *f, const json_t *o)
{
    const uint64_t number = (uint64_t)number_of(o, "xid");
    const char *words = xid_words(number);
    const int64_t times = number_of(o, "times");
    char often[40] = "";

    if (times > 1)
        snprintf(often, sizeof often, " (%lld times)", (long long)times);
    if (begin_fact(f) < 0)
        return -1;
    return buf_addf(f->out, "Xid %llu%s%s%s", (unsigned long long)number, words ? ": " : "",
                    words ? words : "", often);
}

static int add_ecc(struct facts *f, const json_t *o)
{
    const int64_t bad = number_of(o, "uncorrected"), mended = number_of(o, "corrected"),
                  n = bad > 0 ? bad : mended;

    if (begin_fact(f) < 0)
        return -1;
    return buf_addf(f->out, "%lld %s ECC memory error%s", (long long)n,
                    bad > 0 ? "uncorrected" : "corrected", n == 1 ? "" : "s");
}

static int add_process(struct facts *f, const json_t *o)
{
    const char *who = json_string_value(json_object_get(o, "who"));
    const int64_t memory = number_of(o, "memory");
    char text[32];

    return buf_addf(f->out, ", %s by %s%spid %lld%s",
                    memory < 0 ? "some" : human((uint64_t)memory, text), who && who[0] ? who : "",
                    who && who[0] ? " (" : "", (long long)number_of(o, "pid"),
                    who && who[0] ? ")" : "");
}

static int add_oom(struct facts *f, const json_t *o)
{
    static const char *const lists[] = { "others", "ours" };
    const int64_t used = number_of(o, "used"), total = number_of(o, "total");
    char a[32], b[32];
    size_t n = 0;

    if (begin_fact(f) < 0 || buf_add_text(f->out, "its memory ran out") < 0)
        return -1;
    if (used >= 0 && total >= 0 &&
        buf_addf(f->out, "; now in use: %s of %s", human((uint64_t)used, a),
                 human((uint64_t)total, b)) < 0)
        return -1;
    for (size_t k = 0; k < 2; k++) {
        const json_t *list = json_object_get(o, lists[k]);

        for (size_t i = 0; i < json_array_size(list); i++, n++)
            if (add_process(f, json_array_get(list, i)) < 0)
                return -1;
    }
    if (n)
        return 0;
    if (!json_is_true(json_object_get(o, "processes_known")))
        return buf_add_text(f->out, "; which processes are on it the driver does not tell here");
    return buf_add_text(f->out, ", no other process is on it");
}

static int add_state(struct facts *f, const json_t *o, bool oom)
{
    if (json_is_true(json_object_get(o, "lost")) &&
        (begin_fact(f) < 0 ||
         buf_add_text(f->out, "the driver says that it is lost, or needs a reset") < 0))
        return -1;
    return oom ? add_oom(f, o) : 0;
}

int gpu_errors_add_gpu(const struct gpu *one, const json_t *since, bool oom, struct buf *out)
{
    static const char *const lists[] = { "xids", "ecc", "gpus" };
    struct facts f = { out, 0 };
    char label[GPU_LABEL];

    if (buf_add_text(out, gpu_label(one, label)) < 0)
        return -1;
    for (int k = 0; k < 3; k++) {
        const json_t *list = json_object_get(since, lists[k]);

        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *o = json_array_get(list, i);

            if (is_of(o, one) && (k == 0   ? add_xid(&f, o)
                                  : k == 1 ? add_ecc(&f, o)
                                           : add_state(&f, o, oom)) < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- too few ---- */

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

int gpu_errors_add_shortage(const struct gpu_shortage *s, struct buf *out)
{
    const unsigned wanted = s->ranks * s->each;

    if (s->all == 0)
        return buf_addf(out,
                        "%u GPU%s asked for (%u rank%s with %u each), and this node has none: %s",
                        wanted, plural(wanted), s->ranks, plural(s->ranks), s->each,
                        s->why[0] ? s->why : "no GPU was found");
    return buf_addf(
        out, "%u GPU%s asked for (%u rank%s with %u each); this node has %u, of which %u %s free",
        wanted, plural(wanted), s->ranks, plural(s->ranks), s->each, s->all, s->free,
        s->free == 1 ? "is" : "are");
}

int gpu_errors_add_remedies(const struct gpu_shortage *s, struct buf *out)
{
    if (s->all == 0)
        return buf_add_text(out, "; use --no-gpu to run without");
    if (s->ranks * s->each <= s->all)
        return buf_add_text(
            out,
            "; use fewer ranks, --gpus with a smaller number, --share to use GPUs that others hold, or "
            "--no-gpu to run without");
    if (s->each > s->all)
        return buf_addf(out, "; use --gpus %u or fewer, or --no-gpu to run without", s->all);
    return buf_addf(
        out,
        "; use at most %u rank%s%s, --share to put several ranks on a GPU, or --no-gpu to run without",
        s->all / s->each, plural(s->all / s->each),
        s->each > 1 ? ", --gpus with a smaller number" : "");
}
