/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.c - how many GPUs all notebooks of one user may hold together (see gpu.h). What they hold,
 * the system says: the locks of this user's processes. So neither the lease of a process that is
 * gone, nor what anybody has written or locked in a user's place counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/lease_holders.h"

#define SHOWN 8u /* notebooks in a text */

/* A notebook of this user that holds GPUs. */
struct quota_holder {
    long pid; /* of its agent */
    unsigned n;
    time_t since;
};

struct holdings {
    struct quota_holder *of; /* owned, n of them: this agent first, then by their pids */
    size_t n;
    unsigned gpus; /* all that they hold; one that two hold counts once */
};

void gpu_quota(struct gpu_allocations *d, unsigned most, struct slice place)
{
    free(d->quota_place);
    d->quota_place = place.n ? strndup(place.p, place.n) : NULL;
    d->quota = most;
}

/* ---- what is held ---- */

static bool is_ours(const json_t *holder)
{
    const json_t *uid = json_object_get(holder, "uid");

    return json_is_integer(uid) && json_integer_value(uid) == (json_int_t)getuid();
}

static struct quota_holder *holder_of(struct holdings *h, long pid)
{
    struct quota_holder *more;

    for (size_t i = 0; i < h->n; i++)
        if (h->of[i].pid == pid)
            return &h->of[i];
    if (!(more = realloc(h->of, (h->n + 1) * sizeof *more)))
        return NULL;
    h->of = more;
    more[h->n] = (struct quota_holder){ .pid = pid };
    return &more[h->n++];
}

static int add_lease(struct holdings *h, const json_t *lease)
{
    const time_t since = (time_t)json_integer_value(json_object_get(lease, "since"));
    const json_t *one;
    bool counted = false;
    size_t i;

    json_array_foreach (json_object_get(lease, "holders"), i, one) {
        struct quota_holder *holder;

        if (!is_ours(one))
            continue;
        if (!(holder = holder_of(h, (long)json_integer_value(json_object_get(one, "pid")))))
            return -1;
        if (!holder->n++ || since < holder->since)
            holder->since = since;
        h->gpus += !counted;
        counted = true;
    }
    return 0;
}

/* Of all that the machine has, also those that this agent may not use. If this user's processes
 * have more files there than a machine has GPUs, of those that it may use. */
static json_t *leases(const struct gpu_allocations *d)
{
    json_t *told = lease_holders_ours(NULL), *list;

    if (!told || !json_is_true(json_object_get(told, "cut")))
        return told;
    json_decref(told);
    list = gpus_to_json(&d->gpus);
    told = list ? lease_holders_ours(json_object_get(list, "gpus")) : NULL;
    json_decref(list);
    return told;
}

unsigned quota_own(const struct gpu_allocations *d)
{
    unsigned n = 0;

    for (size_t i = 0; i < d->gpus.n; i++)
        n += allocations_uses(d, d->gpus.v[i].uuid) > 0;
    return n;
}

/* -1: memory is out. */
static int find(const struct gpu_allocations *d, struct holdings *h)
{
    json_t *told = leases(d), *lease;
    const char *uuid;
    int rc = told ? 0 : -1;

    *h = (struct holdings){ NULL, 0, 0 };
    if (rc == 0 && quota_own(d) && !holder_of(h, (long)getpid()))
        rc = -1;
    json_object_foreach (json_object_get(told, "leases"), uuid, lease)
        if (rc == 0)
            rc = add_lease(h, lease);
    json_decref(told);
    if (h->gpus < quota_own(d)) /* this system does not tell */
        h->gpus = quota_own(d);
    return rc;
}

/* ---- the text ---- */

/* Users know the kernel's number: `cellspan ps` shows it, and `cellspan stop` takes it. */
static long kernel_of(long pid)
{
    char path[64], comm[32];

    for (long at = pid, depth = 0; at > 1 && depth < 3; depth++) {
        snprintf(path, sizeof path, "/proc/%ld/comm", at);
        comm[file_start(path, comm, sizeof comm - 1).n] = '\0';
        comm[strcspn(comm, "\n")] = '\0';
        if (strcmp(comm, "cellspan-kernel") == 0)
            return at;
        at = orphans_parent((pid_t)at);
    }
    return pid;
}

static int add_holder(const struct quota_holder *one, struct buf *out)
{
    char notebook[LEASE_NOTEBOOK], when[LEASE_TIME];

    if (one->pid == (long)getpid())
        return buf_addf(out, "this notebook holds %u", one->n);
    lease_time(one->since, when);
    return buf_addf(out, "%s (pid %ld) holds %u since %s",
                    lease_notebook(one->pid, notebook) ? notebook : "another notebook",
                    kernel_of(one->pid), one->n, when);
}

static int add_text(const struct gpu_allocations *d, const struct holdings *h, struct buf *out)
{
    bool others = false;
    unsigned shown = 0;

    if (buf_addf(out, "gpu_quota is %u (%s), for all notebooks of a user together", d->quota,
                 d->quota_place ? d->quota_place : "CELLSPAN_GPU_QUOTA in the environment") < 0)
        return -1;
    for (size_t i = 0; i < h->n; i++) {
        if (!h->of[i].n)
            continue;
        others = others || h->of[i].pid != (long)getpid();
        if (shown++ == SHOWN)
            return buf_add_text(out, ", …");
        if (buf_add_text(out, shown > 1 ? ", " : ": ") < 0 || add_holder(&h->of[i], out) < 0)
            return -1;
    }
    return others ? buf_add_text(out,
                                 "; `%ranks stop` in such a notebook, or `cellspan stop` with its "
                                 "pid, frees what it holds")
                  : 0;
}

/* The same, without the `more` GPUs that this notebook has taken only to try. */
static const char *tell(const struct gpu_allocations *d, struct holdings *h, unsigned more,
                        struct buf *text)
{
    if (h->n && h->of[0].pid == (long)getpid())
        h->of[0].n -= more < h->of[0].n ? more : h->of[0].n;
    return add_text(d, h, text) == 0 ? text->p : "gpu_quota";
}

/* ---- what it allows ---- */

json_t *quota_json(const struct gpu_allocations *d)
{
    const unsigned own = quota_own(d);
    struct buf text = BUF_INIT;
    struct holdings h;
    json_t *json = NULL;

    if (!d->quota)
        return json_null();
    if (find(d, &h) == 0 && add_text(d, &h, &text) == 0)
        json = json_pack("{s:i, s:s}", "may",
                         (int)(own + (h.gpus < d->quota ? d->quota - h.gpus : 0)), "text", text.p);
    free(h.of);
    buf_release(&text);
    return json;
}

int quota_check(const struct gpu_allocations *d, unsigned before, struct err *err)
{
    const unsigned more = quota_own(d) - before;
    struct buf text = BUF_INIT;
    struct holdings h;
    int rc = 0;

    if (!d->quota)
        return 0;
    if (find(d, &h) < 0)
        rc = err_set(err, "out of memory while GPUs are counted");
    else if (h.gpus > d->quota)
        rc = err_set(err, "%u GPU%s more would be too many for one user: %s", more,
                     more == 1 ? "" : "s", tell(d, &h, more, &text));
    free(h.of);
    buf_release(&text);
    return rc;
}
