/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/group/place.h"

#include <stdio.h>
#include <stdlib.h>

#define CORES_MAX 4u /* ranks of a world without a given size and without GPUs */
#define NAMED_MAX 8u /* machines that an error lists */
#define ANY       UINT_MAX

static unsigned sum(unsigned a, unsigned b)
{
    return a > UINT_MAX - b ? UINT_MAX : a + b;
}

unsigned place_gpus(const struct place_node *node, size_t n, const struct place_want *want)
{
    for (size_t k = 0; k < n && !want->no_gpu; k++)
        if (node[k].gpus_all)
            return want->gpus ? want->gpus : 1;
    return 0;
}

static unsigned usable(const struct place_node *node, const struct place_want *want)
{
    return want->share ? node->gpus_all : node->gpus;
}

/* The number of ranks for which the machine has room; ANY: no limit. */
static unsigned room(const struct place_node *node, const struct place_want *want, unsigned each)
{
    const unsigned slots = node->slots ? node->slots : ANY;
    unsigned gpus = ANY;

    if (each && !(want->share && node->gpus_all >= each))
        gpus = usable(node, want) / each;
    return slots < gpus ? slots : gpus;
}

unsigned place_world_of_gpus(const struct place_node *node, size_t n, const struct place_want *want)
{
    const unsigned each = place_gpus(node, n, want);
    unsigned all = 0;

    for (size_t k = 0; each && k < n; k++)
        all = sum(all, usable(&node[k], want) / each);
    return all;
}

static unsigned world_of_slots(const struct place_node *node, size_t n,
                               const struct place_want *want)
{
    const unsigned each = place_gpus(node, n, want);
    unsigned all = 0;
    bool any = false;

    for (size_t k = 0; k < n; k++) {
        any = any || node[k].slots;
        all = sum(all, node[k].slots ? node[k].slots : each ? usable(&node[k], want) / each : 1);
    }
    return any ? all : 0;
}

static unsigned world_of_cores(const struct place_node *node, size_t n)
{
    unsigned cores = 0;

    for (size_t k = 0; k < n && cores < CORES_MAX; k++)
        cores = node[k].cores <= 0 || node[k].cores > (long)CORES_MAX
                    ? CORES_MAX
                    : sum(cores, (unsigned)node[k].cores);
    if (cores > CORES_MAX)
        cores = CORES_MAX;
    return cores > n ? cores : (unsigned)n;
}

unsigned place_world(const struct place_node *node, size_t n, const struct place_want *want)
{
    const unsigned slots = world_of_slots(node, n, want);
    const unsigned gpus = place_world_of_gpus(node, n, want);

    if (slots)
        return slots;
    if (place_gpus(node, n, want))
        /* if none is free, let it fail with an error rather than start ranks without GPUs */
        return gpus ? gpus : 1;
    return world_of_cores(node, n);
}

/* ---- errors ---- */

static bool has_quota(const struct place_node *node)
{
    return node->quota && node->quota[0];
}

static int add_quota(struct buf *out, const struct place_node *node)
{
    return has_quota(node) ? buf_addf(out, "; %s", node->quota) : 0;
}

static int add_machines(struct buf *out, const struct place_node *node, size_t n,
                        const struct place_want *want, bool gpus)
{
    for (size_t k = 0; k < n; k++) {
        const char *gap = k ? ", " : "";
        int rc;

        if (k == NAMED_MAX)
            return buf_addf(out, ", and %zu more", n - k);
        if (!gpus)
            rc = node[k].slots ? buf_addf(out, "%s%s: %u", gap, node[k].name, node[k].slots)
                               : buf_addf(out, "%s%s", gap, node[k].name);
        else if (usable(&node[k], want) < node[k].gpus_all)
            rc = buf_addf(out, "%s%s: %u %s %u%s%s", gap, node[k].name, node[k].gpus,
                          has_quota(&node[k]) ? "for this notebook, of" : "free of",
                          node[k].gpus_all, node[k].held && node[k].held[0] ? "; " : "",
                          node[k].held ? node[k].held : "");
        else
            rc = buf_addf(out, "%s%s: %u", gap, node[k].name, node[k].gpus_all);
        if (rc == 0 && gpus && !want->share)
            rc = add_quota(out, &node[k]);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int no_gpus(const struct place_node *node, size_t n, const struct place_want *want,
                   unsigned world, struct err *err)
{
    const unsigned each = place_gpus(node, n, want);
    struct buf where = BUF_INIT;
    unsigned all = 0;
    char of_each[40] = "";

    for (size_t k = 0; k < n; k++)
        all = sum(all, usable(&node[k], want));
    if (each > 1)
        snprintf(of_each, sizeof of_each, " with %u each", each);
    if (add_machines(&where, node, n, want, true) < 0)
        err_set(err, "out of memory");
    else
        err_set(err,
                "-n %u: there %s %u GPU%s (%s) for %u rank%s%s; --no-gpu runs without GPUs, %s",
                world, all == 1 ? "is" : "are", all, all == 1 ? "" : "s", where.p, world,
                world == 1 ? "" : "s", of_each,
                each > 1 ? "--gpus K gives each rank fewer"
                         : "--share lets several processes use one GPU");
    buf_release(&where);
    return -1;
}

static int no_slots(const struct place_node *node, size_t n, const struct place_want *want,
                    unsigned world, unsigned have, struct err *err)
{
    struct buf where = BUF_INIT;

    if (add_machines(&where, node, n, want, false) < 0)
        err_set(err, "out of memory");
    else
        err_set(
            err,
            "-n %u: there is room for %u rank%s (%s); give -n %u, or end the ranks by %%ranks stop "
            "and ask for more in --on",
            world, have, have == 1 ? "" : "s", where.p, have);
    buf_release(&where);
    return -1;
}

/* Lists neighbouring machines with the same reason once. */
int place_add_whys(const struct place_node *node, size_t n, struct buf *out)
{
    const char *last = "";

    for (size_t k = 0, named = 0; k < n && named < NAMED_MAX; k++) {
        if (node[k].gpus_all || !node[k].held || !node[k].held[0] ||
            strcmp(node[k].held, last) == 0)
            continue;
        last = node[k].held;
        if (buf_addf(out, "; %s: %s", node[k].name, last) < 0)
            return -1;
        named++;
    }
    return 0;
}

static int no_such_gpus(const struct place_node *node, size_t n, const struct place_want *want,
                        struct err *err)
{
    struct buf where = BUF_INIT, whys = BUF_INIT;

    for (size_t k = 0; k < n && k < NAMED_MAX; k++)
        if (buf_addf(&where, "%s%s", k ? ", " : "", node[k].name) < 0)
            break;
    if (place_add_whys(node, n, &whys) < 0)
        buf_clear(&whys);
    err_set(err, "--gpus %u: there is no GPU on %s (leave --gpus out to run without)%s", want->gpus,
            where.p ? where.p : "", whys.n ? whys.p : "");
    buf_release(&whys);
    buf_release(&where);
    return -1;
}

static int check(const struct place_node *node, size_t n, const struct place_want *want,
                 unsigned world, unsigned idle, struct err *err)
{
    const unsigned each = place_gpus(node, n, want);
    unsigned have = 0;
    bool slots = false, few_gpus = false;

    if (n == 0)
        return err_set(err, "-n %u: there is no machine to run on", world);
    if (want->gpus && !want->no_gpu && !each)
        return no_such_gpus(node, n, want, err);
    for (size_t k = 0; k < n; k++) {
        const unsigned r = room(&node[k], want, each);

        have = sum(have, r);
        slots = slots || node[k].slots;
        few_gpus = few_gpus || (each && (!node[k].slots || r < node[k].slots));
    }
    have -= have < idle ? have : have == ANY ? 0 : idle;
    if (have >= world)
        return 0;
    return few_gpus || !slots ? no_gpus(node, n, want, world, err)
                              : no_slots(node, n, want, world, have, err);
}

/* ---- placing ---- */

/* Sets full[k], the number of ranks that machine k should have, from its room. Machines without a
 * limit share the remaining ranks evenly. */
static void fill(const struct place_node *node, size_t n, const struct place_want *want,
                 unsigned world, unsigned *full)
{
    const unsigned each = place_gpus(node, n, want);
    unsigned open = 0, left = world;

    for (size_t k = 0; k < n; k++) {
        full[k] = room(&node[k], want, each);
        open += full[k] == ANY;
        left -= full[k] == ANY ? 0 : full[k] < left ? full[k] : left;
    }
    for (size_t k = 0, nth = 0; k < n; k++)
        if (full[k] == ANY) {
            full[k] = left / open + (nth < left % open);
            /* next to machines with slots, a machine without slots counts as one slot */
            if (full[k] == 0 && open < n)
                full[k] = 1;
            nth++;
        }
}

static size_t first_with_room(const unsigned *full, const unsigned *has, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (has[k] < full[k])
            return k;
    return n - 1;
}

int place_ranks(const struct place_node *node, size_t n, const struct place_want *want,
                unsigned *at, const unsigned *before, unsigned world, unsigned size,
                struct err *err)
{
    unsigned *full, *has, idle = 0;
    bool some = false;

    for (unsigned r = world; r < size; r++)
        idle += at[r] < n;
    if (check(node, n, want, world, idle, err) < 0)
        return -1;
    if (!(full = calloc(2 * n, sizeof *full)))
        return err_set(err, "-n %u: out of memory", world);
    has = full + n;
    fill(node, n, want, world + idle, full);
    for (unsigned r = 0; r < size; r++)
        if (at[r] < n) {
            some = true;
            has[at[r]]++;
        }
    for (unsigned r = 0; r < world; r++) {
        if (at[r] < n)
            continue;
        at[r] = some && before && before[r] < n && has[before[r]] < full[before[r]]
                    ? before[r]
                    : (unsigned)first_with_room(full, has, n);
        has[at[r]]++;
    }
    free(full);
    return 0;
}
