/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA_VISIBLE_DEVICES is applied as CUDA does it. */
#include "tests/unit/chaos.h"
#include "base/buf.h"
#include "tests/unit/tap.h"
#include "worker/agent/gpu/gpu_list.h"

static void add(struct gpus *g, const char *uuid, unsigned index, const char *parent, int instance,
                int gi)
{
    struct gpu one = { .index = index, .instance = instance, .gi = gi, .ci = 0, .name = "A100" };

    snprintf(one.uuid, sizeof one.uuid, "%s", uuid);
    snprintf(one.parent, sizeof one.parent, "%s", parent);
    if (gpus_add(g, &one, NULL) < 0)
        ok(false, "memory");
}

/* Three GPUs; the third is in MIG mode, with two instances. */
static void fill(struct gpus *g)
{
    memset(g, 0, sizeof *g);
    add(g, "GPU-aa11", 0, "", -1, -1);
    add(g, "GPU-aa22", 1, "", -1, -1);
    add(g, "MIG-c1", 2, "GPU-bb33", 0, 7);
    add(g, "MIG-c2", 2, "GPU-bb33", 1, 8);
}

static void leaves(const char *visible, const char *want)
{
    struct gpus g;
    struct buf got = BUF_INIT;
    struct err err = { "" };
    int rc;

    fill(&g);
    rc = inherited_mask_apply(&g, visible, &err);
    for (size_t i = 0; i < g.n && rc == 0; i++)
        rc = buf_addf(&got, "%s%s", i ? " " : "", g.v[i].uuid + 4);
    ok(rc == 0, "memory");
    is_text(got.n ? got.p : "", want, "CUDA_VISIBLE_DEVICES=%s", visible ? visible : "(unset)");
    ok(g.all == 4 && (g.n > 0) == !g.why[0], "all are counted, and an empty list has a reason: %s",
       g.why);
    buf_release(&got);
    gpus_release(&g);
}

static void lists_are_read_as_cuda_does(void)
{
    leaves(NULL, "aa11 aa22 c1 c2");
    leaves("", "");
    leaves("-1", "");
    leaves("NoDevFiles", "");
    leaves("1", "aa22");
    leaves("1,0", "aa22 aa11");
    leaves(" 1 , 0 ", "aa22 aa11");
    leaves("1,-1,0", "aa22");
    leaves("1,9,0", "aa22");
    leaves("0,0", "");
    leaves("1,", "aa22");
    leaves("2", "c1 c2");
    leaves("2,0", "c1 c2 aa11");
}

static void names_are_read_as_cuda_does(void)
{
    leaves("GPU-aa22", "aa22");
    leaves("GPU-aa2,GPU-aa1", "aa22 aa11");
    leaves("GPU-aa", "");
    leaves("GPU-zz", "");
    leaves("GPU-aa11,1", "aa11");
    leaves("0,GPU-aa22", "aa11");
    leaves("GPU-bb33", "c1 c2");
    leaves("MIG-c2", "c2");
    leaves("MIG-c2,MIG-c1", "c2 c1");
    leaves("MIG-c", "");
    leaves("MIG-c2,GPU-aa11", "c2");
    leaves("MIG-GPU-bb33/8/0", "c2");
    leaves("MIG-GPU-bb33/9/0", "");
    leaves("MIG-c1,MIG-c1", "");
}

static void mask_survives_any_failed_allocation(void)
{
    for (long nth = 0, rc = -1; rc < 0; nth++) {
        struct gpus g;
        struct err err = { "" };

        fill(&g);
        alloc_fail_at(nth);
        rc = inherited_mask_apply(&g, "1,0,2", &err);
        alloc_fail_at(-1);
        ok(rc == 0 ? g.n == 4 && strcmp(g.v[0].uuid, "GPU-aa22") == 0 : g.n == 4 && err.text[0],
           "allocation %ld: %s", nth, err.text);
        gpus_release(&g);
    }
}

static void list_survives_json(void)
{
    struct gpus g, back = { 0 };
    struct err err = { "" };
    char label[GPU_LABEL];
    json_t *json;

    fill(&g);
    g.v[0].memory = 80ull << 30;
    snprintf(g.v[0].cpus, sizeof g.v[0].cpus, "0-3");
    snprintf(g.driver, sizeof g.driver, "550.54");
    json = gpus_to_json(&g);
    ok(json && gpus_from_json(&back, json, &err) == 0 && back.n == 4, "the list comes back: %s",
       err.text);
    ok(back.v[0].memory == 80ull << 30 && strcmp(back.v[0].cpus, "0-3") == 0 &&
           strcmp(back.driver, "550.54") == 0,
       "whole");
    is_text(gpu_label(&back.v[1], label), "GPU 1 (GPU-aa22…, A100)", "a GPU's name");
    is_text(gpu_label(&back.v[3], label), "GPU 2 MIG 1 (MIG-c2…, A100)", "an instance's");
    ok(gpus_from_json(&back, json_object_get(json, "driver"), &err) < 0 && back.n == 4,
       "what is no list is refused: %s", err.text);
    json_decref(json);
    gpus_release(&g);
    gpus_release(&back);
}

int main(void)
{
    lists_are_read_as_cuda_does();
    names_are_read_as_cuda_does();
    mask_survives_any_failed_allocation();
    list_survives_json();
    return plan_done();
}
