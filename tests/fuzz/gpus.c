/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a question to cellspan-gpus, and as its answer with the list of GPUs. It answers
 * each line with one line of JSON, also on a node without a driver. A list is accepted as a whole
 * or not at all. */
#include <stdlib.h>

#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/gpu/driver.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/probe.h"

const char fuzz_corpus[] = "tests/fuzz/seeds/gpus-*.hex";
const unsigned fuzz_prefixes = 0;

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void take_list(const json_t *json, const char *visible)
{
    struct gpus g = { .n = 0 };
    struct err err = { "" };
    char label[GPU_LABEL];
    json_t *again;

    if (gpus_from_json(&g, json, &err) < 0) {
        demand(err.text[0] && g.n == 0);
        return;
    }
    demand((again = gpus_to_json(&g)) != NULL);
    json_decref(again);
    for (size_t i = 0; i < g.n; i++)
        demand(strlen(gpu_label(&g.v[i], label)) < sizeof label);
    (void)!inherited_mask_apply(&g, visible, &err);
    gpus_release(&g);
}

static void ask(struct slice line)
{
    struct gpu_driver d;
    struct buf out = BUF_INIT;

    driver_init(&d);
    demand(probe_answer(&d, "0", line, &out) == 0 && out.n > 0 && out.p[out.n - 1] == '\n');
    demand(memchr(out.p, '\n', out.n) == out.p + out.n - 1);
    driver_release(&d);
    buf_release(&out);
}

/* Up to a newline JSON; behind it CUDA_VISIBLE_DEVICES. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    const size_t n = end ? (size_t)(end - data) : size;
    char *visible = strndup(end ? (const char *)end + 1 : "", end ? size - n - 1 : 0);
    json_t *json = json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);

    demand(visible != NULL);
    take_list(json, visible);
    ask(slice_of((const char *)data, n));
    json_decref(json);
    free(visible);
    return 0;
}
