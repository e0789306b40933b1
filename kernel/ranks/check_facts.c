/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of nodes of %ranks check, and notes about nodes that differ or have a fault. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/ranks/check.h"
#include "kernel/status/status.h"

#define CLOCK_OFF_S 2.0                 /* a note names a clock that differs more */
#define SHM_LITTLE  (INT64_C(64) << 20) /* bytes; a note names a node with less free */

bool check_is_first(const struct check *k, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (k->rank[j].node == k->rank[i].node)
            return false;
    return true;
}

static const char *fact(const struct check_rank *r, const char *name)
{
    return text_field(r->facts, name);
}

/* Adds the ranks on the node of rank i. */
static int node_ranks(const struct check *k, size_t i, struct buf *out)
{
    struct ranks mine = RANKS_INIT;
    int rc = 0;

    for (size_t j = 0; rc == 0 && j < k->n; j++)
        if (k->rank[j].node == k->rank[i].node)
            rc = ranks_add(&mine, k->rank[j].rank);
    rc = rc < 0 ? rc : ranks_format(&mine, out);
    ranks_release(&mine);
    return rc;
}

static bool has_interface(const struct check_rank *r, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach (json_object_get(r->facts, "addresses"), i, one)
        if (json_string_value(json_array_get(one, 0)) &&
            strcmp(json_string_value(json_array_get(one, 0)), name) == 0)
            return true;
    return false;
}

static void add_addresses(const struct check_rank *r, struct buf *out)
{
    const json_t *list = json_object_get(r->facts, "addresses"), *one;
    size_t i;

    json_array_foreach (list, i, one) {
        const char *name = json_string_value(json_array_get(one, 0)),
                   *address = json_string_value(json_array_get(one, 1));

        /* link-local addresses help nobody */
        if (!name || !address || strncmp(address, "fe80:", 5) == 0)
            continue;
        if (buf_addf(out, "%s%s=%s", out->n ? " " : "", name, address) < 0)
            return;
    }
}

/* Adds "eth0 25, eth1 100", in Gb/s. */
static void add_speeds(const struct check_rank *r, struct buf *out)
{
    json_t *speeds = json_object_get(r->facts, "speeds"), *mbps;
    const char *name;

    json_object_foreach (speeds, name, mbps)
        if (has_interface(r, name) &&
            buf_addf(out, "%s%s %g", out->n ? ", " : "", name, json_number_value(mbps) / 1000) < 0)
            return;
}

static void add_infiniband(const struct check_rank *r, struct buf *out)
{
    const json_t *one;
    size_t i;

    json_array_foreach (json_object_get(r->facts, "infiniband"), i, one)
        if (json_string_value(one) &&
            buf_addf(out, "%s%s", out->n ? ", " : "", json_string_value(one)) < 0)
            return;
}

static void add_size(struct grid *g, const json_t *bytes)
{
    if (json_is_integer(bytes))
        grid_add(g, "%.1f GiB", (double)json_integer_value(bytes) / (double)(1 << 30));
    else
        grid_add(g, "-");
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static void add_node(struct grid *g, const struct check *k, size_t i)
{
    const struct check_rank *r = &k->rank[i];
    struct buf ranks = BUF_INIT, addresses = BUF_INIT, speeds = BUF_INIT, infiniband = BUF_INIT;

    add_addresses(r, &addresses);
    add_speeds(r, &speeds);
    add_infiniband(r, &infiniband);
    grid_add(g, "%s", r->node_name);
    grid_add(g, "%s", node_ranks(k, i, &ranks) == 0 ? ranks.p : "?");
    grid_add(g, "%s", or_dash(fact(r, "python")));
    grid_add(g, "%s", or_dash(fact(r, "torch")));
    grid_add(g, "%s", or_dash(fact(r, "nccl")));
    grid_add(g, "%s", or_dash(fact(r, "driver")));
    grid_add(g, "%+.1f s", fabs(r->offset_s) < 0.05 ? 0.0 : r->offset_s);
    add_size(g, json_object_get(r->facts, "shm_free"));
    grid_add(g, "%s", or_dash(addresses.p ? addresses.p : ""));
    grid_add(g, "%s", or_dash(speeds.p ? speeds.p : ""));
    grid_add(g, "%s", or_dash(infiniband.p ? infiniband.p : ""));
    buf_release(&ranks);
    buf_release(&addresses);
    buf_release(&speeds);
    buf_release(&infiniband);
}

/* If the values differ: "2.5.1 on h1, 2.4.0 on h2". */
static void note_differing(const struct check *k, const char *name, const char *what,
                           struct buf *notes)
{
    struct buf line = BUF_INIT;
    bool differs = false;

    for (size_t i = 1; i < k->n && !differs; i++)
        differs = strcmp(fact(&k->rank[i], name), fact(&k->rank[0], name)) != 0;
    for (size_t i = 0; differs && i < k->n; i++) {
        const char *value = fact(&k->rank[i], name);
        bool listed = false;

        for (size_t j = 0; j < i && !listed; j++)
            listed = strcmp(fact(&k->rank[j], name), value) == 0;
        if (listed || buf_addf(&line, "%s%s on", line.n ? ", " : "", value[0] ? value : "none") < 0)
            continue;
        for (size_t j = i; j < k->n; j++)
            if (strcmp(fact(&k->rank[j], name), value) == 0 && (check_is_first(k, j) || j == i) &&
                buf_addf(&line, " %s", k->rank[j].node_name) < 0)
                break;
    }
    if (differs)
        check_note(notes, "%s differs: %s", what, line.p ? line.p : "");
    buf_release(&line);
}

/* "1.2 days", "3.5 s" */
static void duration(char out[static 32], double s)
{
    if (s >= 2 * 86400)
        snprintf(out, 32, "%.1f days", s / 86400);
    else if (s >= 2 * 3600)
        snprintf(out, 32, "%.1f hours", s / 3600);
    else if (s >= 120)
        snprintf(out, 32, "%.0f minutes", s / 60);
    else
        snprintf(out, 32, "%.1f s", s);
}

static void note_node(const struct check_rank *r, struct buf *notes)
{
    const json_t *free = json_object_get(r->facts, "shm_free");
    char off[32];

    if (fabs(r->offset_s) > CLOCK_OFF_S + r->doubt_s) {
        duration(off, fabs(r->offset_s));
        check_note(notes, "the clock of %s is %s %s the kernel's", r->node_name, off,
                   r->offset_s > 0 ? "ahead of" : "behind");
    }
    if (!json_is_integer(free))
        check_note(notes, "%s has no /dev/shm: NCCL and torch's DataLoader use it", r->node_name);
    else if (json_integer_value(free) < SHM_LITTLE)
        check_note(notes, "/dev/shm of %s has %.1f MiB left: NCCL and torch's DataLoader need it",
                   r->node_name, (double)json_integer_value(free) / (double)(1 << 20));
}

/* InfiniBand needs pinned memory, which RLIMIT_MEMLOCK limits. */
static void note_memlock(const struct check_rank *r, struct buf *notes)
{
    const json_t *limit = json_object_get(r->facts, "memlock");

    if (json_array_size(json_object_get(r->facts, "infiniband")) && json_is_integer(limit))
        check_note(
            notes,
            "%s lets a process pin %lld KiB of memory: NCCL needs more for InfiniBand (ulimit -l unlimited, where "
            "its ranks are started)",
            r->node_name, (long long)(json_integer_value(limit) >> 10));
}

/* Without InfiniBand, ranks use one interface for all traffic between nodes: the one by which
 * their node reaches the kernel. A note names a faster one. */
static void note_slower(const struct check_rank *r, struct buf *notes)
{
    json_t *speeds = json_object_get(r->facts, "speeds"), *mbps;
    const double used = json_number_value(json_object_get(speeds, fact(r, "interface")));
    const char *name;

    json_object_foreach (speeds, name, mbps)
        if (used > 0 && json_number_value(mbps) > used && has_interface(r, name) &&
            !json_array_size(json_object_get(r->facts, "infiniband"))) {
            check_note(
                notes,
                "%s: ranks use %s (%g Gb/s) between machines, %s has %g Gb/s: --env NCCL_SOCKET_IFNAME==%s --env "
                "GLOO_SOCKET_IFNAME=%s --fresh",
                r->node_name, fact(r, "interface"), used / 1000, name,
                json_number_value(mbps) / 1000, name, name);
            return;
        }
}

static bool spans(const struct check *k)
{
    for (size_t i = 1; i < k->n; i++)
        if (k->rank[i].node != k->rank[0].node)
            return true;
    return false;
}

static void note_gpus(const struct check *k, struct buf *notes)
{
    size_t with = 0;

    for (size_t i = 0; i < k->n; i++)
        with += json_array_size(json_object_get(k->rank[i].facts, "gpus")) > 0;
    for (size_t i = 0; with && i < k->n; i++)
        if (json_array_size(json_object_get(k->rank[i].facts, "gpus")) == 0)
            check_note(notes, "rank %u on %s has no GPU, others have%s%s", k->rank[i].rank,
                       k->rank[i].node_name, fact(&k->rank[i], "gpu_error")[0] ? ": " : "",
                       fact(&k->rank[i], "gpu_error"));
    if (with == k->n && !check_has_nccl(k))
        check_note(notes, "NCCL can't be checked: %s",
                   k->can_use_nccl
                       ? "not every rank has one of the same version"
                       : "ranks share GPUs, or have instances of one, which it refuses");
}

/* All ranks get the same NCCL_SOCKET_IFNAME, so nodes should have an interface of one name. */
static void note_interfaces(const struct check *k, struct buf *notes)
{
    const json_t *one;
    size_t p;

    for (size_t i = 1; i < k->n; i++) {
        bool any = false;

        json_array_foreach (json_object_get(k->rank[0].facts, "addresses"), p, one)
            any = any || (json_string_value(json_array_get(one, 0)) &&
                          has_interface(&k->rank[i], json_string_value(json_array_get(one, 0))));
        if (!any && check_is_first(k, i) &&
            json_array_size(json_object_get(k->rank[0].facts, "addresses")))
            check_note(
                notes,
                "%s and %s have no interface of the same name: NCCL_SOCKET_IFNAME can't be the same for both",
                k->rank[0].node_name, k->rank[i].node_name);
    }
}

void check_show_facts(struct cell *c, struct check *k)
{
    static const bool right[] = { false, false, false, false, false, false,
                                  true,  true,  false, false, false };
    static const char *const heads[] = { "node",      "ranks",       "python",    "torch",
                                         "nccl",      "cuda",        "clock",     "/dev/shm free",
                                         "addresses", "links, Gb/s", "infiniband" };
    struct grid g = { .columns = sizeof heads / sizeof *heads, .right = right };
    struct buf notes = BUF_INIT;

    for (size_t i = 0; i < g.columns; i++)
        grid_add(&g, "%s", heads[i]);
    for (size_t i = 0; i < k->n; i++)
        if (check_is_first(k, i)) {
            add_node(&g, k, i);
            note_node(&k->rank[i], &notes);
            note_memlock(&k->rank[i], &notes);
            if (spans(k))
                note_slower(&k->rank[i], &notes);
        }
    note_differing(k, "python", "Python", &notes);
    note_differing(k, "cellspan", "cellspan", &notes);
    note_differing(k, "torch", "torch", &notes);
    note_differing(k, "torch_cuda", "torch's CUDA", &notes);
    note_differing(k, "nccl", "NCCL", &notes);
    note_differing(k, "driver", "the driver's CUDA", &notes);
    note_gpus(k, &notes);
    note_interfaces(k, &notes);
    check_show(c, "nodes", &g, &notes);
    grid_release(&g);
    buf_release(&notes);
}

/* NCCL needs exactly the same version on all ranks. */
bool check_has_nccl(const struct check *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (!json_array_size(json_object_get(k->rank[i].facts, "gpus")) ||
            !fact(&k->rank[i], "nccl")[0] ||
            strcmp(fact(&k->rank[i], "nccl"), fact(&k->rank[0], "nccl")) != 0)
            return false;
    return k->n > 0 && k->can_use_nccl;
}
